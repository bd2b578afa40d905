#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What is too long for tests/run.sh: the model (tests/model) with new seeds, over every cipher, key size
# and sector size, and after each ten of those every mount and guest test and those of damaged headers and
# power cuts once more, with CRYPTIMG_SOAK=1, which makes some of them exhaustive and gives others new seeds.
#   tests/soak.sh [HOURS [PRESET]]     default: 1 hour, with the dev build; asan is the other useful one
# A failure's output is printed whole, with its seed. The last lines are a dated summary; exit 1 if
# anything failed. Nothing is left behind.
set -euo pipefail

hours=${1:-1}
preset=${2:-dev}
if ! [[ $hours =~ ^[0-9]+(\.[0-9]+)?$ && $preset =~ ^(dev|asan|tsan)$ ]]; then
  echo "usage: $0 [HOURS [dev | asan | tsan]]" >&2
  exit 1
fi
seconds=$(awk -v hours="$hours" 'BEGIN { printf "%d", hours * 3600 }')

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
build=${CRYPTIMG_BUILD:-$root/build/$preset}
if [ -z "${CRYPTIMG_BUILD:-}" ]; then
  packaging/install-packages.sh --test
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset"
fi

operations_each=${CRYPTIMG_SOAK_OPERATIONS:-100000}
work=$(mktemp -d "${TMPDIR:-/tmp}/cryptimg-test.soak.XXXXXX")
export TMPDIR=$work CRYPTIMG_SOAK=1
started=$(date '+%F %T')
rounds=0
operations=0
tests=0
skipped=0
failures=()
child=

summary() {
  trap - EXIT INT TERM HUP
  # The test undoes its own mounts when it is told to end.
  if [ -n "$child" ] && kill -TERM "$child" 2>/dev/null; then wait "$child" || true; fi
  rm -rf --one-file-system "$work"
  echo
  printf 'failed: %s\n' "${failures[@]}" | grep -v '^failed: $' || true
  echo "soak of the $preset build from $started to $(date '+%F %T'): $rounds rounds of the model with" \
    "$operations operations, $tests other tests, $skipped skipped, ${#failures[@]} failed"
  [ ${#failures[@]} = 0 ] || exit 1
}
trap summary EXIT
trap 'exit 1' INT TERM HUP

# run NAME COMMAND...: at most an hour; takes down how it ended.
run() {
  local name=$1 code=0
  shift
  timeout -k 60 3600 "$@" >"$work/output" 2>&1 &
  child=$!
  wait $child || code=$?
  child=
  case $code in
    0) ;;
    77) skipped=$((skipped + 1)) ;;
    *)
      failures+=("$name")
      echo "== $(date '+%F %T') $name: exit $code"
      cat "$work/output"
      ;;
  esac
}

# Every type, cipher, key size and sector size; sizes of image that end in and at the end of a page.
all_forms() {
  local cipher bits sector
  for cipher in aes-xts-plain64 aes-xts-plain aes-cbc-essiv:sha256 aes-cbc-plain64 aes-cbc-plain; do
    for bits in 128 192 256 512; do
      case $cipher-$bits in aes-xts-*-128 | aes-xts-*-192 | aes-cbc-*-512) continue ;; esac
      for sector in 512 1024 2048 4096; do
        echo "luks2 $cipher $bits $sector $(((8 << 20) + 3 * sector))"
      done
      echo "luks1 $cipher $bits 512 $((8 << 20))"
    done
  done
}

other_tests() {
  ctest --test-dir "$build" --show-only=json-v1 | jq -r '.tests[]
    | (reduce .properties[] as $p ({}; .[$p.name] = $p.value)) as $properties
    | select($properties.LABELS != null and (($properties.LABELS | any(IN("unit", "engines", "lint")) | not)
        or (.name | test("^ContainerDamage[.]|PowerCut"))))
    | [.name, (($properties.ENVIRONMENT // []) | join("\u001f")), (.command | join("\u001f"))] | join("\t")'
}

end=$(($(date +%s) + seconds))
time_left() { [ "$(date +%s)" -lt $end ]; }
model=$build/tests/model/cryptimg_model
other_tests >"$work/tests"

while time_left; do
  all_forms | shuf >"$work/forms"
  while time_left && read -r form <&3; do
    seed=$(od -An -N6 -tu8 /dev/urandom | tr -d ' ')
    rounds=$((rounds + 1))
    operations=$((operations + operations_each))
    run "model, seed $seed, $form" env CRYPTIMG="$build/fuse/cryptimg" CRYPTIMG_MODEL="$model" CRYPTIMG_MODEL_FORMS="$form" \
      CRYPTIMG_MODEL_SEED="$seed" CRYPTIMG_MODEL_OPERATIONS="$operations_each" tests/mount/model.sh
    if [ $((rounds % 10)) != 0 ]; then continue; fi
    while time_left && IFS=$'\t' read -r name environment command <&4; do
      IFS=$'\x1f' read -ra variables <<<"$environment"
      IFS=$'\x1f' read -ra words <<<"$command"
      tests=$((tests + 1))
      run "$name" env "${variables[@]}" "${words[@]}"
    done 4<"$work/tests"
  done 3<"$work/forms"
done
