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

# Nothing at all, an empty line and an empty file are what cryptsetup takes them for.
touch "$work/empty"
chmod 600 "$work/empty"
nothing() { "$@" </dev/null; }
from_empty() { "$@" <"$work/empty"; }
newline() { printf '\n' | "$@"; }
expect_exit 0 newline create blank
for input in newline nothing from_empty; do
  for option in "" "--key-file -" "--key-file $work/empty" "--key-file /dev/null"; do
    code=0
    # shellcheck disable=SC2086  # meant to be split
    "$input" opens blank $option >/dev/null 2>&1 || code=$?
    # shellcheck disable=SC2086
    check "$code" "$input" mounts blank $option
  done
done
expect_exit 0 opens blank --key-file "$work/empty"
expect_exit 1 nothing opens blank
expect_exit 0 create void --key-file "$work/empty"
expect_said "passphrase is empty"
expect_exit 0 newline opens void
for input in nothing from_empty; do
  expect_error 1 "$input" create none
done
[ ! -e "$work/none.img" ] || fail "a container without a passphrase"

# A key file that is a folder cannot be read, however it is named.
in_folder() { "$@" <"$work"; }
expect_error 4 create none --key-file "$work"
expect_error 4 in_folder create none --key-file -
expect_error 4 in_folder create none

# Only the named keyslot is tried.
cryptsetup -q luksAddKey "${cheap[@]}" --key-slot 5 --key-file "$work/line" "$work/piped.img" "$work/both"
check 0 mounts piped --key-file "$work/both"
check 0 mounts piped --key-file "$work/both" --key-slot 5
check 2 mounts piped --key-file "$work/both" --key-slot 0
check 4 mounts piped --key-file "$work/both" --key-slot 3
