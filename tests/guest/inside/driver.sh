# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# In a guest, after lib.sh: an image behind an AES driver of the kernel, with dm-crypt as the oracle in both
# directions, and the share of the bytes that the driver ciphered, by counters.
bytes=$((2 << 20))
random_file "$work/first" $bytes
random_file "$work/second" $bytes

driver_bytes() { status_of "$mnt" .counters.driver_bytes; }
# by_driver BEFORE WHAT: at least 95 % of the image ($share_percent) went through the driver since driver_bytes
# was BEFORE, and nothing failed.
share_percent=95
by_driver() {
  local counters now fallbacks quarantines
  counters=$(status_of "$mnt" '.counters | "\(.driver_bytes) \(.driver_fallbacks) \(.driver_quarantines)"')
  read -r now fallbacks quarantines <<<"$counters"
  [ $(((now - $1) * 100)) -ge $((bytes * share_percent)) ] || fail "only $((now - $1)) of $bytes bytes went through the driver ($2)"
  [ "$fallbacks $quarantines" = "0 0" ] || fail "the driver failed at $2: $counters"
}
on_dm_crypt() {
  cryptsetup open --key-file "$key" "$work/c.img" oracle || fail "dm-crypt does not open the container"
  "$@"
  cryptsetup close oracle
}
# mount_with ENGINE OPTIONS...: what auto measures may be disturbed by the machine's other work, so it has some tries.
mount_with() {
  local name
  for _ in 1 2 3 4 5; do
    mount_image "$work/c.img" "$mnt" --engine "$@"
    name=$(status_of "$mnt" .engine)
    [ "$name" != "${engine_name:-$1}" ] || return 0
    umount_image
  done
  fail "the engine is $name instead of ${engine_name:-$1}"
}
fill() { dd if="$1" of="$2" bs=512K conv=notrunc,fsync status=none; }
read_image() { dd if="$mnt/image" of="$work/seen" bs="$1" iflag=direct status=none; }

# check ENGINE WRITES CIPHER KEY-SIZE SECTOR-SIZE: what dm-crypt wrote is read, and the reverse, by the driver.
# WRITES says whether it has a form for writing; engine_name is what status calls it, where that is another.
check() {
  local before
  rm -f "$work/c.img"
  make_container "$work/c.img" $bytes --cipher "$3" --key-size "$4" --sector-size "$5"
  on_dm_crypt fill "$work/first" /dev/mapper/oracle

  mount_with "$1"
  before=$(driver_bytes)
  read_image 512K
  same "$work/seen" "$work/first"
  by_driver "$before" "reading $*"
  before=$(driver_bytes)
  fill "$work/second" "$mnt/image"
  if [ "$2" = writes ]; then by_driver "$before" "writing $*"; fi
  # Read again past the page cache, in small pieces.
  read_image 12K
  same "$work/seen" "$work/second"
  umount_image
  no_daemons || fail "a process stays behind after umount ($*)"
  on_dm_crypt same /dev/mapper/oracle "$work/second"
}
