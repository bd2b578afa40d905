#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# qemu-img, an implementation of LUKS1 of its own, reads what was written here, and the reverse:
# every cipher that both know (192-bit keys qemu takes but aborts on: their keyslots end in half a
# sector).
. "$(dirname "$0")/lib.sh"
require qemu-img
require_fuse

size=$(((1 << 20) + 3 * 512))
random_file "$work/plain" $size
random_file "$work/noise" $size
secret=(--object "secret,id=key,format=raw,file=$key")
printf 'a passphrase' >"$key"  # qemu wants text

luks() { echo "driver=luks,key-secret=key,file.filename=$1"; }

# Creates with qemu-img, whose measuring of the KDF fails now and then ("Unable to get accurate CPU
# usage"): that, and nothing else, is tried again.
qemu_creates() {
  for _ in {1..20}; do
    rm -f "$work/q.img"
    if qemu-img create -q "${secret[@]}" -f luks -o "key-secret=key,iter-time=10,$1" "$work/q.img" $size >"$out" 2>"$err"; then
      return
    fi
    grep -qF "Unable to get accurate CPU usage" "$err" || fail "qemu-img create: $(cat "$err")"
  done
  skip "qemu-img could not make a LUKS container"
}

forms="aes-xts-plain64 256 aes-128 xts plain64
aes-xts-plain64 512 aes-256 xts plain64
aes-xts-plain 256 aes-128 xts plain
aes-xts-plain 512 aes-256 xts plain
aes-cbc-plain64 128 aes-128 cbc plain64
aes-cbc-plain64 256 aes-256 cbc plain64
aes-cbc-plain 128 aes-128 cbc plain
aes-cbc-plain 256 aes-256 cbc plain
aes-cbc-essiv:sha256 128 aes-128 cbc essiv,ivgen-hash-alg=sha256
aes-cbc-essiv:sha256 256 aes-256 cbc essiv,ivgen-hash-alg=sha256"
while read -r cipher bits _; do
  rm -f "$work/c.img"
  make_container "$work/c.img" $size --type luks1 --cipher "$cipher" --key-size "$bits"
  mount_image "$work/c.img"
  dd if="$work/plain" of="$mnt/image" bs=100001 iflag=fullblock conv=notrunc status=none
  umount_image
  expect_exit 0 timeout 60 qemu-img convert "${secret[@]}" --image-opts "$(luks "$work/c.img")" -O raw "$work/read"
  same "$work/read" "$work/plain"
done <<<"$forms"

while read -r cipher bits algorithm mode ivgen; do
  qemu_creates "cipher-alg=$algorithm,cipher-mode=$mode,ivgen-alg=$ivgen"
  expect_exit 0 timeout 60 qemu-img convert "${secret[@]}" -n -f raw --target-image-opts "$work/plain" "$(luks "$work/q.img")"
  cp "$work/q.img" "$work/made"
  expect_exit 0 "$CRYPTIMG" info "$work/q.img"
  grep -qE "^Cipher: +$cipher\$" "$out" || fail "not $cipher: $(cat "$out")"
  grep -qE "^Key size: +$bits bits" "$out" || fail "not $bits bits: $(cat "$out")"
  mount_image "$work/q.img"
  same "$mnt/image" "$work/plain"
  # Noise, and the content again: the same container, byte for byte.
  dd if="$work/noise" of="$mnt/image" bs=1M conv=notrunc status=none
  dd if="$work/plain" of="$mnt/image" bs=77777 iflag=fullblock conv=notrunc status=none
  umount_image
  same "$work/q.img" "$work/made"
done <<<"$forms"
