#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The images of cryptsetup's own test suite, where they are at hand (CRYPTIMG_IMAGES): what can be
# opened is read, to the same bytes as by cryptsetup or, where its tools cannot decipher it, openssl
# with the key cryptsetup finds; the rest, hostile headers among it, is refused in one sentence, at
# once. No byte of any changes.
. "$(dirname "$0")/lib.sh"
require xz tar jq cryptsetup openssl xxd blkid
require_fuse
images=${CRYPTIMG_IMAGES:-$root/../shared/images}
[ -d "$images" ] || skip "no CRYPTIMG_IMAGES"

printf compatkey >"$key"
cd "$work"
for file in "$images"/*.xz; do
  name=${file##*/}
  case $name in
    *.tar.xz) tar -xJ --no-same-owner -f "$file" ;;
    *) xz -dc "$file" >"${name%.xz}" ;;
  esac
done
chmod -R u+w .
chmod 600 luks1-images/keyfile1

# sector_by_openssl CONTAINER NUMBER: that sector of an aes-cbc container, by its definition.
sector_by_openssl() {
  local cipher offset counter vk iv
  cipher=$("$CRYPTIMG" info --json "$1" | jq -r .cipher)
  offset=$("$CRYPTIMG" info --json "$1" | jq -r .data_offset)
  rm -f "$work/vk"
  cryptsetup -q luksDump --dump-volume-key --volume-key-file "$work/vk" --key-file "$key" "$1" >/dev/null
  vk=$(xxd -p -c 64 "$work/vk")
  counter=$(printf '%02x%02x%02x%02x' $(($2 & 255)) $(($2 >> 8 & 255)) $(($2 >> 16 & 255)) $(($2 >> 24 & 255)))
  iv=${counter}000000000000000000000000
  if [ "$cipher" = aes-cbc-essiv:sha256 ]; then
    iv=$(xxd -r -p <<<"$iv" | openssl enc -aes-256-ecb -nopad -K "$(sha256sum <"$work/vk" | cut -d' ' -f1)" | xxd -p)
  else
    [ "$cipher" = aes-cbc-plain ] || fail "not reckoned with: $cipher"
  fi
  dd if="$1" bs=1 skip=$((offset + 512 * $2)) count=512 status=none |
    openssl enc -d "-aes-$((${#vk} * 4))-cbc" -nopad -K "$vk" -iv "$iv"
}

# readable FILE SIZE: opens, and has this size; leaves it mounted.
readable() {
  before=$(checksum "$1")
  expect_exit 0 "$CRYPTIMG" info "$1"
  expect_exit 0 timeout 10 "$CRYPTIMG" mount -r --key-file "${3:-$key}" "$work/$1" "$mnt"
  [ "$(stat -c %s "$mnt/image")" = "$2" ] || fail "$1 has $(stat -c %s "$mnt/image") bytes"
  cat "$mnt/image" >"$work/plain" || fail "$1 cannot be read"
}
done_with() {
  umount_image
  [ "$(checksum "$1")" = "$before" ] || fail "$1 changed"
  opened=$((opened + 1))
}

opened=0
while read -r name size; do
  readable "$name" "$size"
  for sector in 0 1 $((size / 512 - 1)); do
    [ $((sector * 512)) -lt "$size" ] || continue
    sector_by_openssl "$name" $sector >"$work/expected"
    dd if="$work/plain" of="$work/sector" bs=512 skip=$sector count=1 status=none
    same "$work/sector" "$work/expected"
  done
  done_with "$name"
done <<'END'
compatimage.img 9711616
compatimage2.img 512
compatv10image.img 9722880
END

for name in aes-cbc-essiv-sha256-sha1 aes-xts-plain64-sha1 aes-xts-plain64-sha256 aes-xts-plain64-whirlpool; do
  name=luks1-images/luks1_$name.img
  readable "$name" 6291456 "$work/luks1-images/keyfile1"
  [ "$(blkid -p -o value -s TYPE "$work/plain")" = vfat ] || fail "no file system in $name"
  if as_root; then
    cp "$name" copy
    rm -f copy-header
    expect_exit 0 cryptsetup -q convert --type luks2 copy
    expect_exit 0 cryptsetup -q reencrypt --decrypt --force-offline-reencrypt --header copy-header \
      --key-file luks1-images/keyfile1 copy
    cmp -n 6291456 "$work/plain" copy || fail "cryptsetup reads something else: $name"
  fi
  done_with "$name"
done

readable luks2_keyslot_unassigned.img 38861312
if as_root; then
  # cryptsetup wants whole sectors: the file's torn last one is cut off, as the mount does.
  cp luks2_keyslot_unassigned.img copy
  truncate -s %512 copy
  rm -f copy-header
  expect_exit 0 cryptsetup -q reencrypt --decrypt --force-offline-reencrypt --header copy-header --key-file "$key" copy
  cmp -n 38861312 "$work/plain" copy || fail "cryptsetup reads something else: luks2_keyslot_unassigned.img"
fi
done_with luks2_keyslot_unassigned.img

# refused EXIT FILE SAID
refused=0
refused() {
  local before option
  before=$(checksum "$2")
  for option in --readonly --; do
    expect_error "$1" timeout 10 "$CRYPTIMG" mount --key-file "$key" $option "$work/$2" "$mnt"
    expect_said "$3"
    not_mounted || fail "mounted: $2"
  done
  timeout 10 "$CRYPTIMG" info "$2" >"$out" 2>"$err" || [ $? = 4 ] || fail "info: $2"
  [ "$(checksum "$2")" = "$before" ] || fail "$2 changed"
  refused=$((refused + 1))
}
refused 4 evil_hdr-keyslot_overlap "keyslot 1 is invalid"
refused 4 evil_hdr-luks_hdr_damage "keyslot 2 is invalid"
refused 4 evil_hdr-payload_overwrite "keyslot 3 is invalid"
refused 4 evil_hdr-small_luks_device "only 1049088"
refused 4 evil_hdr-stripes_payload_dmg "keyslot 5 is invalid"
for cipher in serpent-xts-plain64 twofish-xts-plain64; do
  for hash in sha1 sha256 whirlpool; do refused 4 luks1-images/luks1_$cipher-$hash.img "$cipher"; done
done
refused 4 luks1-images/luks1_aes-lrw-plain64-sha1.img aes-lrw-plain64
refused 4 luks1-images/luks1_aes-xts-essiv-wp256-whirlpool.img aes-xts-essiv:wp256
refused 4 luks2_invalid_cipher.img "capi:xts(ecb(aes-generic))"
refused 4 luks2_header_requirements "req0, req1"
refused 4 luks2_header_requirements_free "only 4194304"
refused 4 luks2_valid_hdr.img "keyslot 0"
# Of these no passphrase is published: their headers are read, whatever their size.
for size in 16 32 64 128 256 512 1024 2048 4096; do
  expect_exit 0 "$CRYPTIMG" info test_image_$size
  grep -q "Metadata: *$((size * 1024)) bytes" "$out" || fail "metadata of test_image_$size"
  refused 2 test_image_$size "no keyslot opens"
done
echo "$opened images read, $refused refused"
