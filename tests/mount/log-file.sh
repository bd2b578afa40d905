#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# --log-file is appended to; a file of the mount itself, under whatever name, is refused before a
# byte of it changes; so is what could block: a FIFO without a reader.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

make_container "$work/c.img" 1M
make_container "$work/d.img" 1M --header "$work/d.header"
ln "$work/c.img" "$work/hard.img"
ln -s c.img "$work/soft.img"
ln "$work/d.header" "$work/hard.header"
ln "$key" "$work/hard.key"
echo stays >"$work/point"
cat "$work/c.img" "$work/d.img" "$work/d.header" "$key" "$work/point" >"$work/before"
sum=$(checksum "$work/before")
unchanged() {
  cat "$work/c.img" "$work/d.img" "$work/d.header" "$key" "$work/point" | cmp - "$work/before" || fail "a byte changed: $*"
}

for log in c.img hard.img soft.img hard.key key; do
  for how in --readonly --log-level=trace; do
    expect_error 1 "$CRYPTIMG" mount $how --key-file "$key" --log-file "$work/$log" "$work/c.img" "$mnt"
    expect_said "is the $([[ $log == *key ]] && echo 'key file' || echo container)"
    unchanged "$log"
  done
done
for log in d.img d.header hard.header; do
  expect_error 1 "$CRYPTIMG" mount --key-file "$key" --header "$work/d.header" --log-file "$work/$log" "$work/d.img" "$mnt"
  unchanged "$log"
done
expect_error 1 "$CRYPTIMG" mount --key-file "$key" --log-file "$work/point" "$work/c.img" "$work/point"
expect_said "is the mount point"
expect_error 1 "$CRYPTIMG" mount --key-file - --log-file "$work/hard.key" "$work/c.img" "$mnt" <"$key"
expect_said "is the key file"
unchanged
[ "$(checksum "$work/before")" = "$sum" ] || fail "the copy changed"
not_mounted || fail "mounted"

mkfifo "$work/fifo"
expect_error 4 timeout 20 "$CRYPTIMG" mount --key-file "$key" --log-file "$work/fifo" "$work/c.img" "$mnt"
expect_said "neither a regular file nor a character device"
exec 8<>"$work/fifo"
expect_error 4 timeout 20 "$CRYPTIMG" mount --key-file "$key" --log-file "$work/fifo" "$work/c.img" "$mnt"
exec 8>&-

echo "older line" >"$work/log"
mount_image "$work/c.img" "$mnt" --log-file "$work/log"
umount_image
[ "$(head -n 1 "$work/log")" = "older line" ] || fail "the log was not appended to"
grep -q serves "$work/log" || fail "nothing in the log: $(cat "$work/log")"
mount_image "$work/c.img" "$mnt" --log-file /dev/null
umount_image

# What a loop device stands on is no log either.
if as_root && (require_loop) >/dev/null; then
  loop=$(losetup --find --show --sector-size 4096 "$work/c.img")
  expect_error 1 "$CRYPTIMG" mount -r --key-file "$key" --log-file "$work/c.img" "$loop" "$mnt"
  losetup -d "$loop"
  unchanged "the file below a loop device"
fi
