# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# In the guest: one file system by way of the mount, of dm-crypt, and of the mount again.
export CRYPTIMG=/out/cryptimg
# shellcheck source=tests/mount/lib.sh
. /out/lib.sh

fs=$work/fs
mkdir "$fs" "$work/files"
for i in 1 2 3 4 5; do random_file "$work/files/$i" $((i * 234567)); done

test_cleanup() {
  umount "$fs" 2>/dev/null
  cryptsetup close oracle 2>/dev/null
}
# attach yes|no: $device is the image as a block device, with direct I/O or without.
attach() {
  device=$(losetup --find --show --direct-io="$([ "$1" = yes ] && echo on || echo off)" --sector-size 4096 "$mnt/image")
  [ "$(cat "/sys/block/${device#/dev/}/loop/dio")" = "$([ "$1" = yes ] && echo 1 || echo 0)" ] ||
    fail "direct I/O of the loop device is not as asked for ($1)"
}
clean() { e2fsck -fn "$1" >"$out" 2>&1 || fail "fsck finds errors on $1"; }
holds() {  # holds DEVICE FOLDER: the file system on DEVICE is clean, and has the files of FOLDER
  clean "$1"
  mount -o ro "$1" "$fs"
  diff -r "$2" "$fs" -x lost+found || fail "other files than were written"
  umount "$fs"
}

for direct in yes no; do
  rm -f "$work/c.img"
  make_container "$work/c.img" 48M
  mount_image "$work/c.img"
  attach $direct
  mkfs.ext4 -q "$device"
  mount "$device" "$fs"
  cp "$work"/files/* "$fs/"
  dd if="$work/files/5" of="$fs/flushed" bs=64K conv=fsync status=none
  dd if="$work/files/4" of="$fs/1" bs=512 seek=3 count=100 conv=notrunc,fdatasync status=none
  cp -r "$fs" "$work/expected"
  umount "$fs"
  holds "$device" "$work/expected"
  losetup -d "$device"
  umount_image

  # The kernel's dm-crypt on the same container: the same files, and a new one.
  cryptsetup open --key-file "$key" "$work/c.img" oracle || fail "dm-crypt does not open the container"
  holds /dev/mapper/oracle "$work/expected"
  mount /dev/mapper/oracle "$fs"
  cp "$work/files/3" "$fs/by-dm-crypt"
  rm "$fs/2"
  umount "$fs"
  cryptsetup close oracle
  cp "$work/files/3" "$work/expected/by-dm-crypt"
  rm "$work/expected/2"

  mount_image "$work/c.img"
  attach $direct
  holds "$device" "$work/expected"
  # The check itself: a file that differs by one byte is found.
  printf 'x' >>"$work/expected/by-dm-crypt"
  mount -o ro "$device" "$fs"
  ! diff -rq "$work/expected" "$fs" -x lost+found >/dev/null || fail "a changed byte was not noticed"
  umount "$fs"
  losetup -d "$device"
  umount_image
  rm -r "$work/expected"
done
