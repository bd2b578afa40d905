#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A container shorter than its header says is refused read-write, naming both sizes; --readonly
# serves it, and reads past the end are EIO.
. "$(dirname "$0")/lib.sh"
require cryptsetup
require_fuse

make_container "$work/c.img" 4M
mount_image "$work/c.img"
random_file "$work/plain" $((4 << 20))
dd if="$work/plain" of="$mnt/image" bs=1M status=none
umount_image
full=$(stat -c %s "$work/c.img")

# The size of a LUKS segment is mostly "dynamic": so cut where the data begins, and with a fixed size.
short=$((full - (2 << 20)))
if command -v python3 >/dev/null; then
  python3 "$here/../support/fix_segment_size.py" "$work/c.img" $((4 << 20))
  expect_exit 0 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
  same "$mnt/image" "$work/plain"
  umount_image
  truncate -s $short "$work/c.img"
  expect_error 4 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
  expect_said "$short"
  expect_said "$full"
  mount_image "$work/c.img" "$mnt" --readonly
  [ "$(stat -c %s "$mnt/image")" = $((4 << 20)) ] || fail "not the size the header says"
  cmp -n $((2 << 20)) "$mnt/image" "$work/plain" || fail "what is there differs"
  expect_exit 1 dd if="$mnt/image" of=/dev/null bs=4k skip=600 count=1 iflag=direct
  grep -q "Input/output error" "$err" || fail "reading past the end is not EIO"
  umount_image
fi

# Cut into the header's own area: nothing of the data is left.
truncate -s $((1 << 20)) "$work/c.img"
expect_error 4 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
