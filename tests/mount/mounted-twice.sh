#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Read-write excludes every other mount of the same container, under any of its names; several
# read-only ones are fine.
. "$(dirname "$0")/lib.sh"
require_fuse

make_container "$work/c.img" 1M
ln "$work/c.img" "$work/hard.img"
ln -s c.img "$work/soft.img"
mkdir "$work/other" "$work/third"

mount_image "$work/c.img"
for name in c hard soft; do
  expect_error 5 "$CRYPTIMG" mount --key-file "$key" "$work/$name.img" "$work/other"
  expect_said "already mounted: on $mnt"
  expect_error 5 "$CRYPTIMG" mount --key-file "$key" --readonly "$work/$name.img" "$work/other"
done
expect_error 5 "$CRYPTIMG" create "$work/c.img" --size 1M --force --key-file "$key" "${cheap[@]}"
expect_said "on $mnt"
[ -e "$mnt/image" ] || fail "the mount was disturbed"
umount_image

mount_image "$work/c.img" "$mnt" -r
mount_image "$work/hard.img" "$work/other" --readonly
mount_image "$work/soft.img" "$work/third" -o ro
expect_error 5 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$work/other"
cmp "$mnt/image" "$work/other/image" || fail "two read-only mounts differ"
umount_image
umount_image "$work/other"
umount_image "$work/third"

mount_image "$work/hard.img"
umount_image
