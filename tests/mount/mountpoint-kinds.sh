#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# MOUNTPOINT may be a directory (image below it) or a regular file (which becomes the image).
. "$(dirname "$0")/lib.sh"
require_fuse

make_container "$work/c.img" 1M
random_file "$work/plain" $((1 << 20))

mount_image "$work/c.img"
[ "$(ls -A "$mnt")" = image ] || fail "more than the image in the mount"
[ "$(stat -c '%s %a %F' "$mnt/image")" = "$((1 << 20)) 600 regular file" ] || fail "wrong attributes: $(stat "$mnt/image")"
[ "$(stat -c %o "$mnt/image")" -ge 4096 ] || fail "st_blksize is below the sector size"
[ "$(stat -c %u "$mnt/image")" = "$(id -u)" ] || fail "the image is not the user's"
dd if="$work/plain" of="$mnt/image" bs=64k status=none
umount_image

expect_error 4 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$work/absent"
expect_said mkdir
cp "$key" "$work/key-point"
expect_error 1 "$CRYPTIMG" mount --key-file "$work/key-point" "$work/c.img" "$work/key-point"
expect_said "key file"

echo "stays" >"$work/point"
mount_image "$work/c.img" "$work/point"
same "$work/point" "$work/plain"
[ "$(stat -c %s "$work/point")" = $((1 << 20)) ] || fail "wrong size"
dd if="$work/plain" of="$work/point" bs=4k oflag=direct status=none
umount_image "$work/point"
[ "$(cat "$work/point")" = stays ] || fail "the file under the mount changed"

mount_image "$work/c.img" "$mnt" -r
[ "$(stat -c %a "$mnt/image")" = 400 ] || fail "a read-only image is not mode 0400"
if (printf x >"$mnt/image") 2>/dev/null; then fail "a read-only image took a write"; fi
umount_image

expect_error 4 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$work/absent"
expect_error 1 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" /
expect_said "root folder"
if grep -F -- "- fuse.cryptimg $work/c.img " /proc/self/mountinfo; then fail "mounted on /"; fi
ln "$work/c.img" "$work/hard.img"
ln -s c.img "$work/soft.img"
for name in c hard soft; do
  expect_error 1 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$work/$name.img"
  expect_said "cannot be its own mount point"
done
mkfifo "$work/fifo"
expect_error 4 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$work/fifo"
for name in other image/below; do
  if (: >"$mnt/$name/x") 2>/dev/null; then fail "made a file in the mount"; fi
done
