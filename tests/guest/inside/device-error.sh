# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# In the guest: the disk below the container turns bad and good again.
export CRYPTIMG=/out/cryptimg
# shellcheck source=tests/mount/lib.sh
. /out/lib.sh
modprobe dm-flakey

fs=$work/fs
mkdir "$fs"
test_cleanup() {
  cryptsetup close oracle 2>/dev/null
  umount "$fs" 2>/dev/null
  dmsetup remove --force disk 2>/dev/null
}
truncate -s 48M "$work/disk"
backing=$(losetup --find --show "$work/disk")
sectors=$(blockdev --getsz "$backing")
good="0 $sectors linear $backing 0"
become() {  # become TABLE: what the disk is from now on
  dmsetup suspend --nolockfs --noflush disk
  dmsetup load disk --table "$1"
  dmsetup resume disk
}
forget_pages() { echo 3 >/proc/sys/vm/drop_caches; }
dmsetup create disk --table "$good"
dmsetup mknodes
disk=/dev/mapper/disk

read_at() { dd if="$mnt/image" of="$work/found" bs=4k skip="$1" count=1 iflag=direct status=none; }
write_at() { dd if="$work/new" of="$mnt/image" bs=4k seek="$1" count=1 oflag=direct conv="notrunc${2:-}" status=none; }
is_eio() {
  expect_exit 1 "$@"
  grep -q "Input/output error" "$err" || fail "not EIO: $(cat "$err")"
}
random_file "$work/plain" $((4 << 20))
random_file "$work/new" 4096
# What was written there at first, again. It works; but after a failed flush dd's close says so.
restore() {
  expect_exit 1 dd if="$work/plain" of="$mnt/image" bs=4k skip="$1" seek="$1" count=1 oflag=direct conv=notrunc
  grep -q "closing output file" "$err" && ! grep -q "error writing" "$err" || fail "writing does not work after the fault: $(cat "$err")"
}
fill() { dd if="$work/plain" of="$mnt/image" bs=1M conv=notrunc,fsync status=none; }
judge() {  # judge CONTAINER: what was flushed is there, for us and for dm-crypt
  mount_image "$1" "$mnt" -r
  cmp -n $((4 << 20)) "$mnt/image" "$work/plain" || fail "the mount shows something else than was flushed"
  umount_image
  cryptsetup open --readonly --key-file "$key" "$1" oracle || fail "dm-crypt does not open the container"
  cmp -n $((4 << 20)) /dev/mapper/oracle "$work/plain" || fail "dm-crypt reads something else than was flushed"
  cryptsetup close oracle
}
suffer() {  # suffer CONTAINER: with a mount on it, the disk gone, until the mount is ended
  local daemon
  rm -f "$work/log"
  mount_image "$1" "$mnt" --log-file "$work/log"
  daemon=$(daemon_of)
  fill
  forget_pages
  become "0 $sectors error"
  is_eio read_at 100
  is_eio read_at 101
  # Into the page cache it still goes, but it cannot be made to last; and that is so for ever.
  is_eio write_at 200 ,fsync
  [ "$(daemon_of)" = "$daemon" ] || fail "the daemon is another"
  become "$good"
  expect_exit 0 read_at 100
  cmp -n 4096 -i 0:$((100 * 4096)) "$work/found" "$work/plain" || fail "what is read after the fault is wrong"
  is_eio write_at 300 ,fsync
  restore 200
  restore 300
  expect_exit 4 "$CRYPTIMG" umount "$mnt"
  expect_said "flush"
  gone "$daemon" || fail "the daemon outlived umount"
  for what in "read failed: Input/output error" "flush failed: Input/output error" "the last flush failed"; do
    grep -q "$what" "$work/log" || fail "the log does not say: $what: $(cat "$work/log")"
  done
}

# The container is the device.
expect_exit 0 "$CRYPTIMG" create "$disk" --key-file "$key" "${cheap[@]}"
suffer "$disk"
judge "$disk"

# A disk that fails writes only: reading goes on.
mount_image "$disk"
fill
become "0 $sectors flakey $backing 0 0 1000 1 error_writes"
is_eio write_at 200 ,fsync
expect_exit 0 read_at 100
become "$good"
restore 200
expect_exit 4 "$CRYPTIMG" umount "$mnt"
judge "$disk"

# The container is a file on ext4, which turns read-only or aborts its journal by itself.
mkfs.ext4 -q -b 4096 -F "$disk"
mount -o errors=continue "$disk" "$fs"
make_container "$fs/c.img" 4M
suffer "$fs/c.img"
umount "$fs"
mount "$disk" "$fs"
judge "$fs/c.img"
umount "$fs"
dmsetup remove disk
