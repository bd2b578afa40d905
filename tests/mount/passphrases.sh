#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Passphrases byte for byte as cryptsetup reads them: a pipe up to the first newline, a key file
# whole with its newline, --key-file - all of stdin.
. "$(dirname "$0")/lib.sh"
require cryptsetup
require_fuse

create() { "$CRYPTIMG" create "$work/$1.img" --size 1M "${cheap[@]}" "${@:2}"; }
opens() { cryptsetup open --test-passphrase "${@:2}" "$work/$1.img"; }
mounts() { "$CRYPTIMG" mount "${@:2}" "$work/$1.img" "$mnt"; }
check() { expect_exit "$@"; if is_mounted; then umount_image; fi; }

pipe() { printf 'first line\nsecond line\n' | "$@"; }
bare() { printf 'first line' | "$@"; }
printf 'first line' >"$work/line"
printf 'first line\n' >"$work/newline"
printf 'first line\nsecond line\n' >"$work/both"
chmod 600 "$work/line" "$work/newline" "$work/both"

expect_exit 0 pipe create piped
expect_exit 0 pipe opens piped
expect_exit 0 opens piped --key-file "$work/line"
expect_exit 2 opens piped --key-file "$work/newline"
check 0 pipe mounts piped
check 0 bare mounts piped
check 0 mounts piped --key-file "$work/line"
check 2 mounts piped --key-file "$work/newline"
check 2 pipe mounts piped --key-file -
check 0 bare mounts piped --key-file -

expect_exit 0 create filed --key-file "$work/both"
expect_exit 0 opens filed --key-file "$work/both"
check 0 mounts filed --key-file "$work/both"
check 0 pipe mounts filed --key-file -
check 2 pipe mounts filed

expect_exit 0 pipe create stdin --key-file -
expect_exit 0 opens stdin --key-file "$work/both"

# Bytes are bytes: also not UTF-8, also zero.
printf '\377\000\001pass\000' >"$work/bytes"
chmod 600 "$work/bytes"
expect_exit 0 create bytes --key-file "$work/bytes"
expect_exit 0 opens bytes --key-file "$work/bytes"
check 0 mounts bytes --key-file "$work/bytes"

# Only the named keyslot is tried.
cryptsetup -q luksAddKey "${cheap[@]}" --key-slot 5 --key-file "$work/line" "$work/piped.img" "$work/both"
check 0 mounts piped --key-file "$work/both"
check 0 mounts piped --key-file "$work/both" --key-slot 5
check 2 mounts piped --key-file "$work/both" --key-slot 0
check 4 mounts piped --key-file "$work/both" --key-slot 3
