#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs every fuzz target with libFuzzer, AddressSanitizer and UBSan for a long time; what CTest does
# takes seconds (tests/README.md).
#   tests/fuzz.sh [HOURS [TARGET...]]    default: 1 hour for all of them together
# What was learned stays in build/fuzz/corpus, to go on from; an input that breaks a target in
# build/fuzz/findings. The last line is a dated summary; exit 1 if anything was found.
set -euo pipefail

hours=${1:-1}
shift || true
[[ $hours =~ ^[0-9]+(\.[0-9]+)?$ ]] || {
  echo "usage: $0 [HOURS [TARGET...]]" >&2
  exit 1
}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
build=${CRYPTIMG_BUILD:-$root/build/fuzz}
packaging/install-packages.sh --test
if [ -z "${CRYPTIMG_BUILD:-}" ]; then
  cmake --preset fuzz >/dev/null
  cmake --build --preset fuzz --target fuzzers
fi

targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  for program in "$build"/tests/fuzz/*_fuzz; do
    program=${program##*/}
    targets+=("${program%_fuzz}")
  done
fi
seconds=$(awk -v hours="$hours" -v count=${#targets[@]} 'BEGIN { printf "%d", hours * 3600 / count + 1 }')
started=$(date '+%F %T')
failed=()
mkdir -p "$build/findings"
for target in "${targets[@]}"; do
  corpus=$build/corpus/$target
  mkdir -p "$corpus"
  echo "== $target, $seconds seconds"
  "$build/tests/fuzz/${target}_fuzz" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 -max_len=32768 \
    -dict=tests/fuzz/cryptimg.dict -artifact_prefix="$build/findings/$target-" -print_final_stats=1 \
    "$corpus" "$build/tests/fuzz/seeds/$target" 2>"$build/findings/$target.log" || failed+=("$target")
  grep -E '^stat::number_of_executed_units|broken:|ERROR' "$build/findings/$target.log" || true
done
echo
printf 'broken: %s\n' "${failed[@]}" | grep -v '^broken: $' || true
echo "fuzzing from $started to $(date '+%F %T'): ${#targets[@]} targets, ${#failed[@]} broken; inputs in $build/findings"
[ ${#failed[@]} = 0 ]
