#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A container that cryptsetup made and filled is read correctly, by any size of read.
. "$(dirname "$0")/lib.sh"
require cryptsetup jq
require_fuse
require_root

random_file "$work/plain" $((12 << 20))
for form in "aes-xts-plain64 512 4096" "aes-xts-plain64 256 512" "aes-cbc-essiv:sha256 256 512" \
  "aes-xts-plain 512 1024" "aes-cbc-plain64 128 2048" "aes-cbc-plain 192 512"; do
  read -r cipher bits sector <<<"$form"
  cp "$work/plain" "$work/data"
  rm -f "$work/header"
  cryptsetup -q reencrypt --encrypt --type luks2 -c "$cipher" -s "$bits" --sector-size "$sector" \
    --header "$work/header" "${cheap[@]}" --key-file "$key" "$work/data"
  before=$(checksum "$work/data")
  mount_image "$work/data" "$mnt" --header "$work/header" --readonly
  same "$mnt/image" "$work/plain"
  for size in 512 4k 128k 1M; do
    dd if="$mnt/image" of="$work/read" bs=$size iflag=direct status=none
    same "$work/read" "$work/plain"
  done
  # Odd offsets and lengths, through the page cache.
  dd if="$mnt/image" of="$work/read" bs=1 skip=511 count=1027 status=none
  dd if="$work/plain" of="$work/expected" bs=1 skip=511 count=1027 status=none
  same "$work/read" "$work/expected"
  umount_image
  [ "$(checksum "$work/data")" = "$before" ] || fail "reading changed the container ($form)"
done
