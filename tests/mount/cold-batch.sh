#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Random reads of a container that is not in memory: what was drained together is asked of the disk together.
. "$(dirname "$0")/lib.sh"
require jq fio fincore
require_fuse

c=$work/c.img
make_container "$c" 64M
mount_image "$c" "$mnt" --readahead 0
dd if=/dev/urandom of="$mnt/image" bs=1M count=64 iflag=fullblock conv=notrunc,fsync status=none
sum=$(checksum "$mnt/image")

emptied() {
  dd if="$c" iflag=nocache count=0 status=none
  [ "$(fincore --bytes --noheadings --output RES "$c")" -lt $((32 << 20)) ]
}
read_randomly() {
  fio --name=cold --filename="$mnt/image" --rw=randread --bs=4k --iodepth=32 --ioengine=libaio --direct=1 \
    --size=64M --io_size=16M --allow_file_create=0 --output="$work/fio"
}
fetched_some() {
  emptied && read_randomly && [ "$(status_of "$mnt" .counters.fetched)" -gt 0 ]
}
sync "$c"
emptied || skip "this file system keeps its page cache"
# How many requests meet in a batch is up to the system.
eventually fetched_some
[ "$(checksum "$mnt/image")" = "$sum" ] || fail "the image reads differently"
umount_image
