#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Whether compare.sh works: a tiny run, its JSON, its judgement and its tables. No figure is judged.
set -euo pipefail
: "${CRYPTIMG:?}" "${PLAIN_SERVER:?}"
here=$(cd "$(dirname "$0")" && pwd)

{ [ -r /dev/fuse ] && [ -w /dev/fuse ]; } || { echo "SKIP: no access to /dev/fuse"; exit 77; }
for tool in fio python3; do
  command -v $tool >/dev/null || { echo "SKIP: $tool is not installed"; exit 77; }
done

work=$(mktemp -d "${TMPDIR:-/tmp}/cryptimg-test.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 143' TERM INT HUP

fail() {
  echo "FAILED: $*"
  exit 1
}

"$here/compare.sh" --tiny --dir "$work" --json "$work/result.json" >"$work/text"
[ "$(find "$work" -name 'cryptimg-bench.*' | wc -l)" = 0 ] || fail "its folder is left"

python3 - "$work/result.json" <<'END'
import json, sys
result = json.load(open(sys.argv[1]))
rows = {row["name"]: row for row in result["rows"]}
assert set(rows) == {"dd-read-4k", "dd-read-1m", "dd-write-1m", "fio-randread-4k-d1"}, rows.keys()
for row in rows.values():
    assert set(row["runs"]) == {"cryptimg", "plain", "null"}, row
    assert all(len(runs) == 1 and runs[0] > 0 for runs in row["runs"].values()), row
assert result["machine"]["session_threads"] > 0 and result["machine"]["cores"] > 0
END

for word in "dd 1M direct read" "fio 4k randread, depth 1" GB/s; do
  grep -qF "$word" "$work/text" || fail "the table lacks '$word': $(cat "$work/text")"
done

PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 "$here/judge_test.py"
