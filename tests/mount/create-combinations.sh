#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Every type, cipher, key and sector size that create takes makes a container that cryptsetup
# accepts, and shows as it was asked for.
. "$(dirname "$0")/lib.sh"
require cryptsetup

check() {  # check TYPE CIPHER BITS SECTOR
  rm -f "$work/c.img"
  make_container "$work/c.img" 256K --type "$1" --cipher "$2" --key-size "$3" --sector-size "$4"
  cryptsetup luksDump "$work/c.img" >"$work/dump" || fail "luksDump fails ($*)"
  if [ "$1" = luks1 ]; then
    grep -qE "^MK bits:\s+$3\$" "$work/dump" || fail "wrong key size ($*)"
    [ "$(awk '/^Cipher name/ {n = $3} /^Cipher mode/ {print n "-" $3}' "$work/dump")" = "$2" ] || fail "wrong cipher ($*)"
  else
    grep -qE "^\s+cipher: $2\$" "$work/dump" || fail "wrong cipher ($*)"
    grep -qE "^\s+sector: $4 " "$work/dump" || fail "wrong sector size ($*)"
    grep -qE "^\s+Key:\s+$3 bits" "$work/dump" || fail "wrong key size ($*)"
  fi
  cryptsetup open --test-passphrase --key-file "$key" "$work/c.img" || fail "the passphrase is not accepted ($*)"
}

for cipher in aes-xts-plain64 aes-xts-plain; do
  for bits in 256 512; do
    check luks1 $cipher $bits 512
    for sector in 512 1024 2048 4096; do check luks2 $cipher $bits $sector; done
  done
done
for cipher in aes-cbc-essiv:sha256 aes-cbc-plain64 aes-cbc-plain; do
  for bits in 128 192 256; do
    check luks1 $cipher $bits 512
    for sector in 512 1024 2048 4096; do check luks2 $cipher $bits $sector; done
  done
done
