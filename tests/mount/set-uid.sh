#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Installed set-uid, set-gid or with file capabilities, the program refuses to work for whoever gains by
# it, and changes nothing; for root, who gains nothing, it works.
. "$(dirname "$0")/lib.sh"
require_root
require setpriv

cp "$CRYPTIMG" "$work/program"
chmod 711 "$work"
mkdir -m 777 "$work/open"
as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
expect_exit 0 "${as_user[@]}" "$work/program" --version

refused() {
  expect_error 1 "${as_user[@]}" "$work/program" "$@"
  expect_said 'more rights than'
}
raised() {
  refused --version
  refused create "$work/open/c.img" --size 1M --key-file "$key"
  [ ! -e "$work/open/c.img" ] || fail "it was created all the same"
}
chmod 4755 "$work/program"
"${as_user[@]}" "$work/program" --version >/dev/null 2>&1 && skip "set-uid has no effect here"
raised
expect_exit 0 "$work/program" --version
chmod 2755 "$work/program"
raised
chmod 755 "$work/program"
expect_exit 0 "${as_user[@]}" "$work/program" --version
if command -v setcap >/dev/null && setcap cap_dac_override+ep "$work/program" 2>/dev/null; then
  raised
fi
