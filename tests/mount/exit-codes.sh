#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Exit codes and errors: one sentence on stderr, with --json one object.
. "$(dirname "$0")/lib.sh"
require jq

json_error() {  # json_error EXIT COMMAND...
  expect_exit "$@"
  [ ! -s "$out" ] || fail "an error, but something on stdout: ${*:2}"
  [ "$(jq -s length "$err")" = 1 ] || fail "not one object on stderr: $(cat "$err")"
  [ "$(jq -r .exit_code "$err")" = "$1" ] || fail "exit_code is not $1: $(cat "$err")"
  jq -e '.error | type == "string" and length > 0' "$err" >/dev/null || fail "no error text: $(cat "$err")"
}

expect_error 1 "$CRYPTIMG" nonsense
expect_error 1 "$CRYPTIMG" mount
expect_error 1 "$CRYPTIMG" mount "$work/c.img"
expect_error 1 "$CRYPTIMG" mount --nonsense "$work/c.img" "$mnt"
expect_error 1 "$CRYPTIMG" umount
expect_error 1 "$CRYPTIMG"
expect_error 4 "$CRYPTIMG" info "$work/absent"
json_error 4 "$CRYPTIMG" info --json "$work/absent"
json_error 4 "$CRYPTIMG" status --json "$mnt"
expect_error 4 "$CRYPTIMG" status "$mnt"
json_error 1 "$CRYPTIMG" info --json

make_container "$work/c.img" 1M
for options in nonsense uid=x umask=9 allow_other=1 workers= engine=nonsense; do
  expect_error 1 "$CRYPTIMG" mount --key-file "$key" -o $options "$work/c.img" "$mnt"
done
expect_error 1 "$CRYPTIMG" mount --key-file "$key" --engine nonsense "$work/c.img" "$mnt"
not_mounted || fail "mounted"

# A control character in a name reaches the terminal escaped.
printf -v odd '%s/a\033[31m\nb' "$work"
expect_error 4 "$CRYPTIMG" info "$odd"
if grep -q "$(printf '\033')" "$err"; then fail "an escape sequence reached stderr"; fi

expect_exit 0 "$CRYPTIMG" --version
grep -q OpenSSL "$out" && grep -q openssl "$out" || fail "--version names no libraries or engines"
expect_exit 0 "$CRYPTIMG" --help
for command in create mount umount status info engines; do
  expect_exit 0 "$CRYPTIMG" $command --help
  [ -s "$out" ] || fail "$command --help says nothing"
done
