#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A block device as the container: created over its whole size, --force for one with a signature,
# mounted, and held exclusively.
. "$(dirname "$0")/lib.sh"
require mkfs.ext4 losetup jq
require_fuse
require_loop

truncate -s 40M "$work/disk"
device=$(losetup --find --show "$work/disk")
mkfs.ext4 -q "$device"
expect_error 5 "$CRYPTIMG" create "$device" --key-file "$key" "${cheap[@]}"
expect_exit 0 "$CRYPTIMG" create "$device" --force --key-file "$key" "${cheap[@]}"
expect_error 5 "$CRYPTIMG" create "$device" --key-file "$key" "${cheap[@]}"
mount_image "$device"
size=$(stat -c %s "$mnt/image")
[ "$size" -ge $((20 << 20)) ] && [ "$size" -lt $((40 << 20)) ] || fail "the image has $size bytes"
random_file "$work/plain" "$size"
dd if="$work/plain" of="$mnt/image" bs=1M status=none
mkdir "$work/other"
expect_error 5 "$CRYPTIMG" mount --key-file "$key" "$device" "$work/other"
umount_image
mount_image "$device" "$mnt" -r
same "$mnt/image" "$work/plain"
umount_image
losetup -d "$device"
