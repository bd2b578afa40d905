#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# AES hardware, measured in the QEMU guest (tests/guest/qemu.sh), and judged: the tables and the chart of
# docs/benchmarks.md.
#   tests/bench/guest_tables.sh [--turns N] [--mib N] [--check] [--report] [--from FILE] [--keep FILE]
# N turns (3) with images of N MiB (16). --report writes docs/, --check exits 1 where a goal is missed,
# --keep FILE keeps the figures, --from FILE takes figures kept before instead of measuring.
# Builds a release build in build/bench, unless CRYPTIMG and ENGINE_TABLE name programs. Nothing else
# should be going on. Exit code 2 where it could not be measured.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
export LC_ALL=C PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/tests/bench"
turns=3
mib=16
from=
keep=
words=()
while [ $# -gt 0 ]; do
  case $1 in
    --turns) turns=$2 && shift ;;
    --mib) mib=$2 && shift ;;
    --from) from=$2 && shift ;;
    --keep) keep=$2 && shift ;;
    --check | --report) words+=("$1") ;;
    *)
      sed -n '5,11s/^# *//p' "$0" >&2
      exit 2
      ;;
  esac
  shift
done

if [ -z "$from" ]; then
  if [ -z "${CRYPTIMG:-}" ] || [ -z "${ENGINE_TABLE:-}" ]; then
    "$root/packaging/install-packages.sh" --bench >&2 && "$root/packaging/install-packages.sh" --test >&2 || exit 2
    {
      cmake -S "$root" -B "$root/build/bench" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DCRYPTIMG_TESTS=OFF -DCRYPTIMG_BENCH=ON
      cmake --build "$root/build/bench" --target cryptimg engine_table
    } >&2 || exit 2
    export CRYPTIMG=$root/build/bench/fuse/cryptimg ENGINE_TABLE=$root/build/bench/tests/bench/engine_table
  fi
  # In a shell of its own: the guest tests' cleanup is for a test that ends there.
  from=$(mktemp "${TMPDIR:-/tmp}/cryptimg-tables.XXXXXX")
  trap 'rm -f "$from"' EXIT
  turns=$turns mib=$mib from=$from "$root/tests/guest/tables.sh" >&2 || exit 2
  [ -z "$keep" ] || cp "$from" "$keep"
fi
python3 -m guest_tables "$root/docs" "$from" "${words[@]}"
