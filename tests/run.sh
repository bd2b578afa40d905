#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Installs what the tests need, builds, and runs all of them; see tests/README.md.
#   tests/run.sh            dev build: everything; asan build: unit, engines, fuzz, mount; tsan build: unit, engines
#   tests/run.sh --quick    the dev build only
#   tests/run.sh --tidy     clang-tidy over every source, and nothing else
# The last line is "N passed, N failed, N skipped". Exit 1 on any failure; under CI=true also on a
# skip that tests/skips.txt does not list.
set -euo pipefail

mode=full
case "${1:-}" in
  '') ;;
  --quick) mode=quick ;;
  --tidy) mode=tidy ;;
  *)
    echo "usage: $0 [--quick | --tidy]" >&2
    exit 1
    ;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
packaging/install-packages.sh --test

jobs=$(nproc)
passed=0
failed=0
skipped=0
problems=()

if [ $mode = tidy ]; then
  cmake --preset tidy
  cmake --build --preset tidy
  exit
fi

# Everything a test could leave behind; compared before and after.
leftovers() {
  awk '$0 ~ / - fuse\.cryptimg / || $5 ~ /cryptimg-(test|demo)\./ { print "mount " $5 }' /proc/self/mountinfo
  local file
  for file in /sys/block/loop*/loop/backing_file; do
    if grep -qE 'cryptimg-(test|demo)\.' "$file" 2>/dev/null; then
      echo "loop device ${file%/loop/backing_file}: $(cat "$file")"
    fi
  done
}

# run_tests PRESET CTEST-ARGUMENTS...: adds to the counts.
run_tests() {
  local preset=$1 report=build/$1/junit.xml name status reason
  shift
  rm -f "$report"
  echo
  echo "== $preset: ctest $*"
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$jobs" \
    --output-junit "$root/$report" "$@" || true
  if ! python3 tests/support/read_junit.py "$report" tests/skips.txt >"$report.txt"; then
    failed=$((failed + 1))
    problems+=("$preset: ctest left no report that can be read, or tests/skips.txt is not in order")
    return
  fi
  while IFS=$'\t' read -r status name reason; do
    case $status in
      passed) passed=$((passed + 1)) ;;
      skipped | unlisted)
        skipped=$((skipped + 1))
        echo "skipped: $name: $reason"
        if [ "${CI:-}" = true ] && [ "$status" = unlisted ]; then
          failed=$((failed + 1))
          problems+=("$preset: $name was skipped ($reason), which tests/skips.txt does not list")
        fi
        ;;
      *)
        failed=$((failed + 1))
        problems+=("$preset: $name failed")
        ;;
    esac
  done <"$report.txt"
}

# build PRESET [TARGET]
build() {
  echo
  echo "== build $1"
  cmake --preset "$1" >/dev/null
  cmake --build --preset "$1" ${2:+--target "$2"} -- -j "$jobs"
}

before=$(leftovers)

build dev
run_tests dev
if [ $mode = full ]; then
  build asan
  # Not the tests that trace the daemon's system calls or wait for it: sanitizers make calls of their own.
  run_tests asan -L '^(unit|engines|fuzz|mount)$' \
    -E '^avx2\.|^mount\.(backing-faults|create-cut|kill-under-load|no-core|rounds|sandbox|set-uid|stalled-umount|start-faults|stopped-daemon|terminal)$'
  build tsan in_process_tests
  # Not what shares its memory with another process, where this sanitizer sees nothing (AfalgFaults has
  # the threads), nor the same routines at another level.
  run_tests tsan -L '^(unit|engines)$' -E '^avx2\.|(fake|afalg)_'
fi

after=$(leftovers)
left=$(comm -13 <(sort <<<"$before") <(sort <<<"$after"))
if [ -n "$left" ]; then
  failed=$((failed + 1))
  problems+=("left behind: $left")
fi

if [ ${#problems[@]} -gt 0 ]; then
  echo
  printf '%s\n' "${problems[@]}"
fi
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
