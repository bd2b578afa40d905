#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The backing file system fills up: the writer is told, and what was written before stays.
. "$(dirname "$0")/lib.sh"
require_fuse
require_root

mkdir "$work/small"
mount -t tmpfs -o size=24m tmpfs "$work/small"
make_container "$work/small/c.img" 7M
used=$(df --output=avail -B1 "$work/small" | tail -n 1)
random_file "$work/plain" $((7 << 20))
mount_image "$work/small/c.img"
# Leave room for 3 MiB of the 7.
head -c $((used - (3 << 20))) /dev/zero >"$work/small/filler"
dd if="$work/plain" of="$mnt/image" bs=64k count=32 oflag=direct conv=notrunc,fsync status=none
expect_exit 1 dd if="$work/plain" of="$mnt/image" bs=64k skip=32 seek=32 oflag=direct conv=notrunc
grep -q "No space left on device" "$err" || fail "the writer was not told ENOSPC: $(cat "$err")"
cmp -n $((2 << 20)) "$mnt/image" "$work/plain" || fail "earlier data is gone"
rm "$work/small/filler"
dd if="$work/plain" of="$mnt/image" bs=64k skip=32 seek=32 oflag=direct conv=notrunc status=none
umount_image
mount_image "$work/small/c.img" "$mnt" -r
same "$mnt/image" "$work/plain"
umount_image

# create checks the space first, and leaves nothing behind.
before=$(ls -A "$work/small")
expect_error 4 "$CRYPTIMG" create "$work/small/big.img" --size 1G --preallocate --key-file "$key" "${cheap[@]}"
[ "$(ls -A "$work/small")" = "$before" ] || fail "create left something behind"
