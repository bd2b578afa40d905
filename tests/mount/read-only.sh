#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# --readonly never changes a byte or a timestamp of the container, not even to repair a header whose
# first copy is damaged; writes are EROFS.
. "$(dirname "$0")/lib.sh"
require cryptsetup
require_fuse

make_container "$work/c.img" 1M
printf 'X' | dd of="$work/c.img" bs=1 seek=5000 conv=notrunc status=none  # in the first JSON area
state() { echo "$(checksum "$work/c.img") $(stat -c '%Y %Z %s %b' "$work/c.img")"; }
for damaged in yes no; do
  if [ $damaged = no ]; then
    rm "$work/c.img"
    make_container "$work/c.img" 1M
  fi
  before=$(state)
  expect_exit 0 "$CRYPTIMG" info "$work/c.img"
  mount_image "$work/c.img" "$mnt" --readonly
  cat "$mnt/image" >/dev/null
  expect_exit 1 dd if=/dev/zero of="$mnt/image" bs=4k count=1 conv=notrunc
  as_root || grep -q "Read-only file system\|Permission denied" "$err" || fail "not EROFS: $(cat "$err")"
  if as_root; then grep -q "Read-only file system" "$err" || fail "not EROFS: $(cat "$err")"; fi
  expect_exit 1 truncate -s 0 "$mnt/image"
  umount_image
  [ "$(state)" = "$before" ] || fail "reading changed the container (damaged: $damaged)"
done
# Also from a file that can only be read.
chmod 400 "$work/c.img"
mount_image "$work/c.img" "$mnt" -r
umount_image
