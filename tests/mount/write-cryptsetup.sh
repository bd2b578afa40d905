#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What is written through the mount, cryptsetup decrypts to the same bytes.
. "$(dirname "$0")/lib.sh"
require cryptsetup
require_fuse
require_root

random_file "$work/plain" $((8 << 20))
for form in "luks2 aes-xts-plain64 512 4096" "luks2 aes-xts-plain64 256 512" "luks2 aes-xts-plain 512 2048" \
  "luks2 aes-cbc-essiv:sha256 256 4096" "luks2 aes-cbc-plain64 192 1024" "luks2 aes-cbc-plain 128 512" \
  "luks1 aes-xts-plain64 512 512" "luks1 aes-cbc-essiv:sha256 256 512"; do
  read -r type cipher bits sector <<<"$form"
  rm -f "$work/c.img"
  make_container "$work/c.img" 8M --type "$type" --cipher "$cipher" --key-size "$bits" --sector-size "$sector"
  mount_image "$work/c.img"
  dd if="$work/plain" of="$mnt/image" bs=1M conv=notrunc status=none
  # A write that is not aligned to anything, and one through direct I/O.
  dd if="$work/plain" of="$mnt/image" bs=1 skip=100 seek=4567 count=3333 conv=notrunc status=none
  dd if="$work/plain" of="$mnt/image" bs=512 skip=8 seek=33 count=7 oflag=direct conv=notrunc status=none
  cp "$work/plain" "$work/expected"
  dd if="$work/plain" of="$work/expected" bs=1 skip=100 seek=4567 count=3333 conv=notrunc status=none
  dd if="$work/plain" of="$work/expected" bs=512 skip=8 seek=33 count=7 conv=notrunc status=none
  umount_image
  if [ "$type" = luks1 ]; then
    cryptsetup -q convert --type luks2 "$work/c.img"
  fi
  decrypt_to "$work/c.img" "$work/decrypted"
  cmp -n $((8 << 20)) "$work/decrypted" "$work/expected" || fail "cryptsetup reads something else ($form)"
done
