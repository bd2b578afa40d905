#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# fio writes blocks that carry a checksum and their place, at random and in order, with a queue, and reads
# each back: a judge that knows nothing of this program. Some seconds a job; with CRYPTIMG_SOAK=1, two minutes.
. "$(dirname "$0")/lib.sh"
require fio jq
require_fuse

seconds=3
size=16M
if [ -n "${CRYPTIMG_SOAK:-}" ]; then seconds=120 size=256M; fi

# job NAME OPTIONS...: must find all it has written.
job() {
  local name=$1
  shift
  expect_exit 0 fio --name="$name" --filename="$mnt/image" --size=$size --output-format=json --output="$work/fio.json" \
    --ioengine=libaio --iodepth=16 --verify=crc32c --verify_fatal=1 --verify_backlog=512 --time_based --runtime=$seconds \
    --allow_file_create=0 --verify_state_save=0 --randrepeat=0 "$@"
  jq -e '.jobs[0] | .error == 0 and .write.io_bytes > 0 and .read.io_bytes > 0' "$work/fio.json" >/dev/null ||
    fail "$name: fio verified nothing: $(jq -c '.jobs[0] | {error, written: .write.io_bytes, read: .read.io_bytes}' "$work/fio.json")"
}
make_container "$work/c.img" $size
mount_image "$work/c.img"
job random --rw=randwrite --bs=4k --direct=1
job pieces --rw=randrw --bs=6k --direct=1
job order --rw=write --bs=128k --direct=1
job cached --rw=randwrite --bs=6k --direct=0 --fsync=64
umount_image

# What it last wrote is there after a remount.
mount_image "$work/c.img"
expect_exit 0 fio --name=once --filename="$mnt/image" --size=$size --output="$work/fio.txt" --ioengine=libaio --iodepth=16 \
  --rw=randwrite --bs=16k --direct=1 --verify=crc32c --do_verify=0 --randseed=7 --allow_file_create=0 --verify_state_save=0
umount_image
mount_image "$work/c.img"
expect_exit 0 fio --name=once --filename="$mnt/image" --size=$size --output="$work/fio.txt" --ioengine=libaio --iodepth=16 \
  --rw=randwrite --bs=16k --direct=1 --verify=crc32c --verify_only=1 --randseed=7 --allow_file_create=0 --verify_state_save=0
umount_image
