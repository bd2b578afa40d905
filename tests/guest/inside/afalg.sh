# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# In the guest: containers mounted with --engine afalg:DRIVER, for the kernel's software drivers, and
# dm-crypt as the oracle in both directions.
export CRYPTIMG=/out/cryptimg
# shellcheck source=tests/mount/lib.sh
. /out/lib.sh

# shellcheck source=tests/guest/inside/driver.sh
. /out/driver.sh

check "afalg:ecb(aes-generic)" writes aes-xts-plain64 512 4096
check "afalg:ecb(aes-generic)" reads aes-cbc-essiv:sha256 192 1024
check "afalg:cbc(aes-generic)" writes aes-cbc-essiv:sha256 256 512
check "afalg:cbc(aes-generic)" reads aes-xts-plain64 512 512
check "afalg:xts(ecb(aes-generic))" writes aes-xts-plain64 256 2048
check "afalg:cryptd(cbc(aes-generic))" writes aes-cbc-plain 256 512

# One operation for many sectors, or one each: 64 KiB an operation, or 512 bytes.
for unit in extent sector; do
  mount_image "$work/c.img" "$mnt" --engine "afalg:cbc(aes-generic)" --offload-unit $unit --readahead 0 --readonly
  before=$(status_of "$mnt" .counters.driver_operations)
  read_image 512K
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
read_image 512K
same "$work/seen" "$work/second"
helpers=$(grep -lx cryptimg-afalg /proc/[0-9]*/comm | cut -d/ -f3)
[ "$(wc -w <<<"$helpers")" = 1 ] || fail "not one helper: $helpers"
kill -9 "$helpers"
read_image 512K
same "$work/seen" "$work/second"
[ "$(status_of "$mnt" .counters.driver_quarantines)" = 1 ] || fail "the driver is not given up"
[ "$(status_of "$mnt" .counters.driver_fallbacks)" -ge 1 ] || fail "no fallback is counted"
[ "$(grep -c "given up" "$work/log")" = 1 ] || fail "not one line in the log: $(cat "$work/log")"
umount_image

# The daemon is killed: the helper goes too.
mount_image "$work/c.img" "$mnt" --engine "afalg:ecb(aes-generic)" --readonly
kill -9 "$(daemon_of)"
eventually no_daemons
