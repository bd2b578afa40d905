#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# House rules that a program can check: formatting, licence lines, file sizes, stray characters.
set -u
cd "$(dirname "$0")/.." || exit 1
code=0
complain() {
  echo "$1:"
  sed 's/^/  /' <<<"$2"
  code=1
}

files() { find core engines fuse tests packaging .ci .githooks -type f "$@" | sort; }
mapfile -t sources < <(files \( -name '*.cc' -o -name '*.h' \))
mapfile -t scripts < <(files \( -name '*.sh' -o -path '.ci/run' -o -path '.githooks/*' \))
mapfile -t others < <(files \( -name '*.py' -o -name 'CMakeLists.txt' \))
[ ${#sources[@]} -gt 0 ] || { echo "no sources found"; exit 1; }

found=$(grep -LE '^(//|#) SPDX-License-Identifier: GPL-3.0-or-later$' "${sources[@]}" "${scripts[@]}")
[ -z "$found" ] || complain "no SPDX line" "$found"

found=$(wc -l core/*.cc core/*.h engines/*.cc engines/*.h fuse/*.cc fuse/*.h | awk '$2 != "total" && $1 > 400')
[ -z "$found" ] || complain "longer than 400 lines" "$found"

found=$(grep -nP '\t' "${sources[@]}" "${others[@]}")
[ -z "$found" ] || complain "tabs" "$found"
found=$(grep -nE '^(<<<<<<<|=======|>>>>>>>)( |$)' "${sources[@]}" "${scripts[@]}" "${others[@]}" README.md docs/*.md)
[ -z "$found" ] || complain "conflict marks" "$found"
found=$(grep -nE ' +$' "${sources[@]}" "${scripts[@]}" "${others[@]}")
[ -z "$found" ] || complain "trailing spaces" "$found"
found=$(grep -nE '\b(TO''DO|FIX''ME|XX''X)\b' "${sources[@]}" "${scripts[@]}")
[ -z "$found" ] || complain "open ends" "$found"
found=$(grep -nE 'NOLINT' "${sources[@]}" | grep -vE 'NOLINT(NEXTLINE|BEGIN|END)?\([A-Za-z0-9.*,-]+\)(: .|.*NOLINTEND)' | grep -v NOLINTEND)
[ -z "$found" ] || complain "NOLINT without a check's name and a reason" "$found"

for script in "${scripts[@]}"; do
  case $(head -n 1 "$script") in
    '#!/bin/sh') sh -n "$script" || code=1 ;;
    *) bash -n "$script" || code=1 ;;
  esac
done

if command -v clang-format >/dev/null; then
  clang-format --dry-run -Werror "${sources[@]}" || code=1
else
  [ $code != 0 ] || { echo "SKIP: clang-format is not installed"; exit 77; }
fi
exit $code
