#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A file that a loop device holds is refused read-write; so is a loop device on a mounted file.
. "$(dirname "$0")/lib.sh"
require_fuse
require_loop

make_container "$work/c.img" 1M
device=$(losetup --find --show "$work/c.img")
expect_error 5 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
expect_said "$device"
losetup -d "$device"
detached() { [ -z "$(our_loops)" ]; }
eventually detached
mount_image "$work/c.img"
umount_image

# A loop device made later is another name of the container, and so is one on top of that: what is
# mounted by one name is refused by the others.
test_cleanup() { [ -z "$upper" ] || losetup -d "$upper"; }
upper=
mkdir "$work/other"
mount_image "$work/c.img"
lower=$(losetup --find --show "$work/c.img")
upper=$(losetup --find --show "$lower")
for device in "$lower" "$upper"; do
  expect_error 5 "$CRYPTIMG" mount --key-file "$key" "$device" "$work/other"
  expect_said "$device"
  expect_error 5 "$CRYPTIMG" mount --readonly --key-file "$key" "$device" "$work/other"
  expect_error 5 "$CRYPTIMG" create "$device" --force --key-file "$key" "${cheap[@]}"
done
umount_image
eventually no_daemons

mount_image "$upper"
expect_error 5 "$CRYPTIMG" mount --key-file "$key" "$lower" "$work/other"
expect_error 5 "$CRYPTIMG" mount --readonly --key-file "$key" "$work/c.img" "$work/other"
umount_image
eventually no_daemons

mount_image "$lower" "$mnt" --readonly
mount_image "$work/c.img" "$work/other" --readonly
expect_error 5 "$CRYPTIMG" mount --key-file "$key" "$upper" "$mnt"
umount_image "$work/other"
umount_image
losetup -d "$upper"
upper=
losetup -d "$lower"
