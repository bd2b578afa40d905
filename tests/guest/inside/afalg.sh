# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# In the guest: containers mounted with --engine afalg:DRIVER, for the kernel's software drivers, and
# dm-crypt as the oracle in both directions.
export CRYPTIMG=/out/cryptimg
# shellcheck source=tests/mount/lib.sh
. /out/lib.sh

bytes=$((2 << 20))
random_file "$work/first" $bytes
random_file "$work/second" $bytes

# At least 95 % of the image went through the driver since driver_bytes was $1, and nothing failed.
by_driver() {
  local counters
  counters=$(status_of "$mnt" '.counters | "\(.driver_bytes) \(.driver_fallbacks) \(.driver_quarantines)"')
  read -r now fallbacks quarantines <<<"$counters"
  [ $(((now - $1) * 100)) -ge $((bytes * 95)) ] || fail "only $((now - $1)) of $bytes bytes went through $driver ($2)"
  [ "$fallbacks $quarantines" = "0 0" ] || fail "$driver failed at $2: $counters"
}
driver_bytes() { status_of "$mnt" .counters.driver_bytes; }
on_dm_crypt() {
  cryptsetup open --key-file "$key" "$work/c.img" oracle || fail "dm-crypt does not open the container"
  "$@"
  cryptsetup close oracle
}
fill() { dd if="$1" of="$2" bs=512K conv=notrunc,fsync status=none; }

# check DRIVER WRITES CIPHER KEY-SIZE SECTOR-SIZE: WRITES says whether it has a form for writing.
check() {
  driver=$1
  local before
  rm -f "$work/c.img"
  make_container "$work/c.img" $bytes --cipher "$3" --key-size "$4" --sector-size "$5"
  on_dm_crypt fill "$work/first" /dev/mapper/oracle

  mount_image "$work/c.img" "$mnt" --engine "afalg:$driver"
  [ "$(status_of "$mnt" .engine)" = "afalg:$driver" ] || fail "status does not name the driver"
  before=$(driver_bytes)
  dd if="$mnt/image" of="$work/seen" bs=512K iflag=direct status=none
  same "$work/seen" "$work/first"
  by_driver "$before" "reading $*"
  before=$(driver_bytes)
  fill "$work/second" "$mnt/image"
  if [ "$2" = writes ]; then by_driver "$before" "writing $*"; fi
  # Read again past the page cache, in small pieces.
  dd if="$mnt/image" of="$work/seen" bs=12K iflag=direct status=none
  same "$work/seen" "$work/second"
  umount_image
  no_daemons || fail "a process stays behind after umount ($*)"
  on_dm_crypt same /dev/mapper/oracle "$work/second"
}

check "ecb(aes-generic)" writes aes-xts-plain64 512 4096
check "ecb(aes-generic)" writes aes-xts-plain 256 512
check "ecb(aes-generic)" reads aes-cbc-essiv:sha256 192 1024
check "cbc(aes-generic)" writes aes-cbc-essiv:sha256 256 512
check "cbc(aes-generic)" writes aes-cbc-plain64 128 4096
check "cbc(aes-generic)" reads aes-xts-plain64 512 512
check "cbc(aes-generic)" reads aes-xts-plain64 256 4096
check "xts(ecb(aes-generic))" writes aes-xts-plain64 512 512
check "xts(ecb(aes-generic))" writes aes-xts-plain64 256 2048
check "cryptd(cbc(aes-generic))" writes aes-cbc-plain 256 512

# One operation for many sectors, or one each: 64 KiB an operation, or 512 bytes.
for unit in extent sector; do
  mount_image "$work/c.img" "$mnt" --engine "afalg:cbc(aes-generic)" --offload-unit $unit --readahead 0 --readonly
  before=$(status_of "$mnt" .counters.driver_operations)
  dd if="$mnt/image" of="$work/seen" bs=512K iflag=direct status=none
  same "$work/seen" "$work/second"
  operations=$(($(status_of "$mnt" .counters.driver_operations) - before))
  case $unit in
    extent) [ $operations = $((bytes >> 16)) ] ;;
    sector) [ $operations = $((bytes >> 9)) ] ;;
  esac || fail "$operations operations of one $unit"
  umount_image
done

# Software is never taken for hardware, also where it is asynchronous.
grep -qF "cryptd(cbc(aes-generic))" /proc/crypto || fail "the asynchronous driver is not listed"
expect_exit 0 "$CRYPTIMG" engines
grep -q "no hardware" "$out" || fail "engines does not say that there is no hardware"
expect_error 4 "$CRYPTIMG" mount --key-file "$key" --engine afalg "$work/c.img" "$mnt"
expect_said "no hardware"
expect_error 4 "$CRYPTIMG" mount --key-file "$key" --engine "afalg:cbc-aes-nosuch" "$work/c.img" "$mnt"
expect_said "cbc-aes-nosuch"
expect_error 4 "$CRYPTIMG" mount --key-file "$key" --engine "afalg:cbc(nosuch)" "$work/c.img" "$mnt"

# The helper is killed: every byte is served all the same, once noticed by the CPU.
mount_image "$work/c.img" "$mnt" --engine "afalg:cbc(aes-generic)" --log-file "$work/log"
dd if="$mnt/image" of="$work/seen" bs=512K iflag=direct status=none
same "$work/seen" "$work/second"
helpers=$(grep -lx cryptimg-afalg /proc/[0-9]*/comm | cut -d/ -f3)
[ "$(wc -w <<<"$helpers")" = 1 ] || fail "not one helper: $helpers"
kill -9 "$helpers"
dd if="$mnt/image" of="$work/seen" bs=512K iflag=direct status=none
same "$work/seen" "$work/second"
[ "$(status_of "$mnt" .counters.driver_quarantines)" = 1 ] || fail "the driver is not given up"
[ "$(status_of "$mnt" .counters.driver_fallbacks)" -ge 1 ] || fail "no fallback is counted"
[ "$(grep -c "given up" "$work/log")" = 1 ] || fail "not one line in the log: $(cat "$work/log")"
umount_image

# The daemon is killed: the helper goes too.
mount_image "$work/c.img" "$mnt" --engine "afalg:ecb(aes-generic)" --readonly
kill -9 "$(daemon_of)"
eventually no_daemons
