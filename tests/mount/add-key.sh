#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# cryptsetup luksAddKey works on a mounted container, and the mount goes on.
. "$(dirname "$0")/lib.sh"
require cryptsetup
require_fuse

make_container "$work/c.img" 1M
random_file "$work/plain" $((1 << 20))
random_file "$work/second" 32
chmod 600 "$work/second"
mount_image "$work/c.img"
dd if="$work/plain" of="$mnt/image" bs=64k status=none
expect_exit 0 timeout 60 cryptsetup -q luksAddKey "${cheap[@]}" --key-file "$key" "$work/c.img" "$work/second"
same "$mnt/image" "$work/plain"
umount_image
expect_exit 0 "$CRYPTIMG" mount --key-file "$work/second" "$work/c.img" "$mnt"
same "$mnt/image" "$work/plain"
umount_image
