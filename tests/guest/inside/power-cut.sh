# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# In the guest: a container on ext4 on dm-log-writes. power-cut.py writes through the mount, then replays
# the log to many points and looks at each through dm-crypt.
export CRYPTIMG=/out/cryptimg
# shellcheck source=tests/mount/lib.sh
. /out/lib.sh
modprobe dm-log-writes

read -r seed cuts </out/wanted
fs=$work/fs
test_cleanup() {
  cryptsetup close oracle 2>/dev/null
  umount "$fs" 2>/dev/null
  dmsetup remove logged 2>/dev/null
}
mkdir "$fs"

for type in luks2 luks1; do
  # The disk as it is before the first write that is logged.
  truncate -s $([ $type = luks2 ] && echo 26M || echo 12M) "$work/disk"
  truncate -s 160M "$work/log"
  mkfs.ext4 -q -b 4096 "$work/disk"
  disk=$(losetup --find --show "$work/disk")
  mount "$disk" "$fs"
  make_container "$fs/c.img" 1M --type $type
  umount "$fs"
  cp --sparse=always "$work/disk" "$work/before"

  log=$(losetup --find --show "$work/log")
  dmsetup create logged --table "0 $(blockdev --getsz "$disk") log-writes $disk $log"
  dmsetup mknodes
  mount /dev/mapper/logged "$fs"
  mount_image "$fs/c.img"
  python3 /out/power-cut.py write "$mnt/image" "$work/history" "$seed"
  umount_image
  umount "$fs"
  dmsetup remove logged
  losetup -d "$log"
  losetup -d "$disk"

  python3 /out/power-cut.py cut "$work" "$key" "$seed" "$cuts" >>/out/result
  # The judge itself: where nothing was flushed, it has to complain.
  if python3 /out/power-cut.py cut "$work" "$key" "$seed" "$cuts" lie >"$out" 2>"$err"; then
    fail "the judge did not notice that flushes did nothing"
  fi
  grep -q "none of the" "$err" || fail "the judge failed for another reason"
  rm -f "$work/disk" "$work/log" "$work/before" "$work/history"
done
