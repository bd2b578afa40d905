# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# In the guest: a key added while the container is mounted, and dm-crypt with each key.
export CRYPTIMG=/out/cryptimg
# shellcheck source=tests/mount/lib.sh
. /out/lib.sh

random_file "$work/plain" $((2 << 20))
random_file "$work/second" 32
random_file "$work/third" 32
chmod 600 "$work/second" "$work/third"

for type in luks2 luks1; do
  rm -f "$work/c.img"
  make_container "$work/c.img" 2M --type $type
  mount_image "$work/c.img"
  dd if="$work/plain" of="$mnt/image" bs=64K count=16 conv=notrunc status=none
  expect_exit 0 timeout 60 cryptsetup -q luksAddKey "${cheap[@]}" --key-file "$key" "$work/c.img" "$work/second"
  dd if="$work/plain" of="$mnt/image" bs=64K skip=16 seek=16 conv=notrunc status=none
  same "$mnt/image" "$work/plain"
  umount_image

  expect_exit 2 cryptsetup open --key-file "$work/third" "$work/c.img" oracle
  for one in "$work/second" "$key"; do
    cryptsetup open --key-file "$one" "$work/c.img" oracle || fail "dm-crypt does not open the container ($type)"
    same /dev/mapper/oracle "$work/plain"
    cryptsetup close oracle
  done
done
