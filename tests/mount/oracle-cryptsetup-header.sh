#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Headers both ways: every command of cryptsetup that works on a header takes what create made, and
# afterwards cryptimg still serves the same content; and cryptimg serves what cryptsetup made with
# any data offset and any size of metadata and keyslots.
. "$(dirname "$0")/lib.sh"
require cryptsetup
require_fuse

image_size=$(((1 << 20) + 512 * 3))
random_file "$work/plain" $image_size
random_file "$work/second" 31
random_file "$work/third" 4000
printf 'new line\n and\0zero' >"$work/fourth"
chmod 600 "$work"/{second,third,fourth}
uuid=ABCDEF01-2345-6789-abcd-ef0123456789
c=$work/c.img

cs() { expect_exit 0 timeout 60 cryptsetup -q "$@"; }
opens() { cs open --test-passphrase --key-file "$1" "$c"; }
locked() { expect_exit 2 timeout 60 cryptsetup -q open --test-passphrase --key-file "$1" "$c"; }
# Whether the mount still shows the file, opened by this key file.
still_served() {
  expect_exit 0 "$CRYPTIMG" mount --readonly --key-file "$1" "$c" "$mnt"
  cmp -n $image_size "$mnt/image" "$work/plain" || fail "another content"
  umount_image
}

every_command() {  # every_command TYPE
  local type=$1 other
  cs isLuks "$c"
  cs luksDump "$c"
  cs luksUUID "$c"
  [ "$(tr 'A-F' 'a-f' <"$out")" = "$(tr 'A-F' 'a-f' <<<"$uuid")" ] || fail "UUID: $(cat "$out")"
  opens "$key"
  cs luksAddKey "${cheap[@]}" --key-file "$key" --key-slot 3 "$c" "$work/second"
  cs luksChangeKey "${cheap[@]}" --key-file "$work/second" --key-slot 3 "$c" "$work/third"
  locked "$work/second"
  still_served "$work/third"
  cs luksAddKey "${cheap[@]}" --key-file "$work/third" "$c" "$work/fourth"
  still_served "$work/fourth"
  rm -f "$work/backup"
  cs luksHeaderBackup --header-backup-file "$work/backup" "$c"
  cs luksKillSlot --key-file "$work/fourth" "$c" 3
  cs luksRemoveKey "$c" "$work/fourth"
  locked "$work/third"
  cs luksErase "$c"
  expect_error 4 "$CRYPTIMG" mount --key-file "$key" "$c" "$mnt"
  cs luksHeaderRestore --header-backup-file "$work/backup" "$c"
  for file in "$key" "$work/third" "$work/fourth"; do
    opens "$file"
    still_served "$file"
  done
  [ "$type" = luks1 ] && other=luks2 || other=luks1
  cs convert --type $other "$c"
  opens "$key"
  still_served "$work/third"
  cs convert --type "$type" "$c"
  opens "$work/fourth"
  still_served "$key"
}

filled_container() {  # filled_container [create's options]
  rm -f "$c"
  make_container "$c" $image_size --sector-size 512 --uuid "$uuid" "$@"
  mount_image "$c"
  dd if="$work/plain" of="$mnt/image" bs=4k conv=notrunc status=none
  umount_image
}

filled_container --type luks1
every_command luks1
for label in "" " " "-" "--force" "a 'quoted' \"%s\\n\" label; \$(x)" "Größe ☃ 日本語" \
  "exactly forty-seven bytes: the most a label has"; do
  filled_container --label "$label"
  label_now=$(cryptsetup luksDump "$c" | sed -n 's/^Label: *\t//p')
  [ "$label_now" = "${label:-(no label)}" ] || fail "label: $label_now"
  still_served "$key"
done
every_command luks2
cs config --label "another label" --subsystem "a subsystem" "$c"
cs config --key-slot 0 --priority prefer "$c"
cs token add --key-description none "$c"
still_served "$key"
cs luksUUID --uuid 00000000-0000-4000-8000-000000000000 "$c"
still_served "$key"

# What cryptsetup made: served, and read back by cryptsetup.
served() {  # served SIZE [luksFormat's options]
  rm -f "$c"
  make_luks "$c" "$@" >"$out" 2>"$err" || fail "luksFormat: $*"
  mount_image "$c"
  dd if="$work/plain" of="$mnt/image" bs=64k conv=notrunc status=none
  umount_image
  still_served "$key"
  if as_root; then
    # reencrypt takes LUKS2 only.
    [[ "$*" != *luks1* ]] || cs convert --type luks2 "$c"
    decrypt_to "$c" "$work/decrypted" >"$out" 2>"$err" || fail "cryptsetup cannot decipher it: $*"
    cmp -n $image_size "$work/decrypted" "$work/plain" || fail "cryptsetup reads something else: $*"
  fi
}
for metadata in 16k 32k 64k 128k 256k 512k 1m 2m 4m; do
  served 20M --type luks2 --luks2-metadata-size $metadata --luks2-keyslots-size 1m --sector-size 512
done
# Offsets in sectors: the least, an odd one, far behind.
for offset in 4096 4104 12344 61440; do
  served 40M --type luks2 --offset $offset --luks2-keyslots-size 1m --sector-size 512
done
served 40M --type luks2 --offset 32776 --luks2-keyslots-size 8m --sector-size 4096
for offset in 4096 4104 20000; do served 40M --type luks1 --offset $offset; done
