#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The images of cryptsetup's own test suite, where they are at hand (CRYPTIMG_IMAGES): old ones
# open, hostile ones are refused, and no byte of any changes.
. "$(dirname "$0")/lib.sh"
require xz tar
require_fuse
images=${CRYPTIMG_IMAGES:-$root/../shared/images}
[ -d "$images" ] || skip "no CRYPTIMG_IMAGES"

printf compatkey >"$key"
for name in compatimage compatimage2 compatv10image; do
  xz -dc "$images/$name.img.xz" >"$work/$name.img"
  before=$(checksum "$work/$name.img")
  expect_exit 0 "$CRYPTIMG" info "$work/$name.img"
  code=0
  "$CRYPTIMG" mount -r --key-file "$key" "$work/$name.img" "$mnt" >"$out" 2>"$err" || code=$?
  case $code in
    0)
      cat "$mnt/image" >/dev/null
      umount_image
      ;;
    4) grep -q . "$err" || fail "refused without a word: $name" ;;
    *) fail "exit $code: $name" ;;
  esac
  [ "$(checksum "$work/$name.img")" = "$before" ] || fail "$name changed"
done

tar -xJf "$images/luks1-images.tar.xz" -C "$work"
tar -xJf "$images/luks2_header_requirements.tar.xz" -C "$work"
for name in keyslot_overlap luks_hdr_damage payload_overwrite small_luks_device stripes_payload_dmg; do
  tar -xJf "$images/evil_hdr-$name.xz" -C "$work" 2>/dev/null || xz -dc "$images/evil_hdr-$name.xz" >"$work/evil_hdr-$name"
done
find "$work" -type f -size +0 \( -name 'evil_hdr*' -o -name '*requirements*' -o -path '*luks1*' \) ! -name '*.xz' | sort >"$work/list"
[ -s "$work/list" ] || fail "nothing unpacked"
while read -r file; do
  before=$(checksum "$file")
  code=0
  "$CRYPTIMG" info "$file" >"$out" 2>"$err" || code=$?
  case $code in 0 | 4) ;; *) fail "info exit $code: $file" ;; esac
  code=0
  "$CRYPTIMG" mount --key-file "$key" "$file" "$mnt" >"$out" 2>"$err" || code=$?
  case $code in 2 | 4) ;; *) fail "mount exit $code: $file" ;; esac
  [ "$(wc -l <"$err")" = 1 ] || fail "not one line on stderr: $file"
  [ "$(checksum "$file")" = "$before" ] || fail "$file changed"
done <"$work/list"
