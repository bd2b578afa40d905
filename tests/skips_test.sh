#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# How the runner counts: a skip is allowed only with its test and its reason on the list, a test that
# did not run is failed, and the list itself is in order.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d "${TMPDIR:-/tmp}/cryptimg-test.XXXXXX")
trap 'rm -rf "$work"' EXIT

case_of() { # NAME STATUS MESSAGE OUTPUT
  echo "<testcase name=\"$1\" status=\"$2\"><skipped message=\"$3\"/><system-out>$4</system-out></testcase>"
}
{
  echo '<testsuite>'
  echo '<testcase name="unit.a" status="run"/>'
  echo '<testcase name="unit.b" status="fail"><failure/></testcase>'
  case_of mount.c notrun SKIP_RETURN_CODE=77 'SKIP: needs root'
  case_of mount.d notrun SKIP_RETURN_CODE=77 'SKIP: the moon is wrong'
  case_of unit.e notrun SKIP_RETURN_CODE=77 'SKIP: needs root'
  case_of mount.f notrun SKIP_RETURN_CODE=77 'nothing said'
  case_of unit.g notrun SKIP_REGULAR_EXPRESSION_MATCHED $'a_test.cc:7: Skipped\nneeds much memory\n'
  case_of mount.h notrun 'Unable to find executable' ''
  case_of mount.i disabled 'Disabled' ''
  echo '</testsuite>'
} >"$work/report"
printf '# for this test\nmount.*\tneeds root\nunit.g\tmuch memory\n' >"$work/skips"
python3 tests/support/read_junit.py "$work/report" "$work/skips" | cut -f 1,2 | tr '\t\n' '= ' >"$work/got"
want="passed=unit.a failed=unit.b skipped=mount.c unlisted=mount.d unlisted=unit.e unlisted=mount.f skipped=unit.g failed=mount.h failed=mount.i "
[ "$(cat "$work/got")" = "$(printf %s "$want")" ] || {
  echo "counted:  $(cat "$work/got")"
  echo "expected: $want"
  exit 1
}

# A line without a reason would allow any.
for line in 'mount.x' $'mount.x\t' $'\tneeds root' $'mount.x\tone\ttwo'; do
  echo "$line" >"$work/bad"
  if python3 tests/support/read_junit.py "$work/report" "$work/bad" >/dev/null 2>&1; then
    echo "a list with this line passes: $line"
    exit 1
  fi
done
python3 tests/support/read_junit.py "$work/report" tests/skips.txt >/dev/null
