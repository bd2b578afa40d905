#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A file system on a loop device on the image: made, filled, checked, and found again after a
# remount. The loop device does direct I/O, and umount names it while it holds the image.
. "$(dirname "$0")/lib.sh"
require mkfs.ext4 e2fsck losetup
require_fuse
require_loop

test_cleanup() { umount "$work/fs" 2>/dev/null; }
mkdir "$work/fs" "$work/files"
make_container "$work/c.img" 64M
for i in 1 2 3 4 5; do random_file "$work/files/$i" $((i * 1234567)); done

mount_image "$work/c.img"
grep -qF -- "losetup" "$out" || fail "mount does not say how to attach a loop device"
grep -qF -- "--sector-size 4096" "$out" || fail "the losetup line lacks the sector size"
device=$(losetup --find --show --direct-io=on --sector-size 4096 "$mnt/image")
[ "$(cat "/sys/block/${device#/dev/}/loop/dio")" = 1 ] || fail "the loop device does no direct I/O"
mkfs.ext4 -q "$device"
mount "$device" "$work/fs"
cp "$work"/files/* "$work/fs/"
sync -f "$work/fs"

expect_error 5 "$CRYPTIMG" umount "$mnt"
expect_said "$device"
expect_said "$work/fs"
is_mounted || fail "a refused umount unmounted"

umount "$work/fs"
e2fsck -fn "$device" >/dev/null || fail "fsck found errors"
losetup -d "$device"
umount_image

mount_image "$work/c.img" "$mnt" -r
device=$(losetup --find --show --read-only --direct-io=on --sector-size 4096 "$mnt/image")
e2fsck -fn "$device" >/dev/null || fail "fsck found errors after a remount"
mount -o ro,noload "$device" "$work/fs"
diff -r "$work/files" "$work/fs" -x lost+found || fail "the files differ"
umount "$work/fs"
losetup -d "$device"
umount_image
