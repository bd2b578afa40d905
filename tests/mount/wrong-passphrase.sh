#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A wrong passphrase or key file is exit 2, in one sentence, and changes nothing.
. "$(dirname "$0")/lib.sh"

make_container "$work/c.img" 1M
before=$(checksum "$work/c.img")
random_file "$work/other" 32
chmod 600 "$work/other"
expect_error 2 "$CRYPTIMG" mount --key-file "$work/other" "$work/c.img" "$mnt"
wrong() { printf 'nonsense\n' | "$CRYPTIMG" mount "$work/c.img" "$mnt"; }
expect_error 2 wrong
not_mounted || fail "mounted all the same"
expect_error 4 "$CRYPTIMG" mount --key-file "$work/absent" "$work/c.img" "$mnt"
no_stdin() { "$CRYPTIMG" mount "$work/c.img" "$mnt" </dev/null; }
expect_error 1 no_stdin
[ "$(checksum "$work/c.img")" = "$before" ] || fail "the container changed"
eventually no_daemons
