#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Compares cryptimg, through the real mount, with a plain server, with FUSE's own limit, and with
# other programs; see docs/benchmarks.md.
#   tests/bench/compare.sh [--quick | --full] [--check] [--json FILE] ...     (--help for all)
#   tests/bench/compare.sh --from FILE [--check]     the tables of figures measured before
#   tests/bench/compare.sh --report FILE             these figures and charts into docs/
# Builds a release build in build/bench, unless CRYPTIMG and PLAIN_SERVER name programs. Exit codes:
# 0, 1 where --check finds a promise not kept, 2 where it could not be measured.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
export LC_ALL=C PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/tests/bench"

measures=yes
for word in "$@"; do
  case $word in --from | --from=* | --report | --report=* | -h | --help) measures=no ;; esac
done

if [ $measures = yes ] && { [ -z "${CRYPTIMG:-}" ] || [ -z "${PLAIN_SERVER:-}" ]; }; then
  # Without the peers there is still something to compare.
  "$root/packaging/install-packages.sh" --bench || echo "compare: goes on without what is missing" >&2
  {
    cmake -S "$root" -B "$root/build/bench" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
      -DCRYPTIMG_TESTS=OFF -DCRYPTIMG_BENCH=ON
    cmake --build "$root/build/bench" -j "$(nproc)"
  } >&2 || exit 2
  export CRYPTIMG=$root/build/bench/fuse/cryptimg PLAIN_SERVER=$root/build/bench/tests/bench/plain_server
fi
exec python3 -m compare "$@"
