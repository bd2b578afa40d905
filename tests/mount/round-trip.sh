#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# dd both ways, direct and buffered, by every block size, over a remount.
. "$(dirname "$0")/lib.sh"
require_fuse

for sector in 512 4096; do
  rm -f "$work/c.img"
  make_container "$work/c.img" 4M --sector-size $sector
  for size in 512 4k 128k 1M; do
    for flag in direct none; do
      random_file "$work/plain" $((4 << 20))
      oflag=() iflag=()
      [ $flag = none ] || oflag=(oflag=direct) iflag=(iflag=direct)
      mount_image "$work/c.img"
      dd if="$work/plain" of="$mnt/image" bs=$size "${oflag[@]}" status=none
      same "$mnt/image" "$work/plain"
      umount_image
      mount_image "$work/c.img"
      dd if="$mnt/image" of="$work/read" bs=$size "${iflag[@]}" status=none
      same "$work/read" "$work/plain"
      umount_image
    done
  done
done
