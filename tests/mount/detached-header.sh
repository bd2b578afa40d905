#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A detached header: created by either side, mounted with --header, the data file all data.
. "$(dirname "$0")/lib.sh"
require cryptsetup
require_fuse

random_file "$work/plain" $((2 << 20))
expect_exit 0 "$CRYPTIMG" create "$work/data" --size 2M --header "$work/header" --key-file "$key" "${cheap[@]}"
[ "$(stat -c %s "$work/data")" = $((2 << 20)) ] || fail "the data file has not the image's size"
cryptsetup open --test-passphrase --key-file "$key" "$work/header" || fail "cryptsetup does not open the header"
mount_image "$work/data" "$mnt" --header "$work/header"
dd if="$work/plain" of="$mnt/image" bs=64k status=none
umount_image
expect_exit 0 "$CRYPTIMG" info --header "$work/header" "$work/data"
expect_error 4 "$CRYPTIMG" mount --key-file "$key" "$work/data" "$mnt"
if as_root; then
  cp "$work/header" "$work/header2"
  cryptsetup -q reencrypt --decrypt --force-offline-reencrypt --header "$work/header2" --key-file "$key" "$work/data"
  same "$work/data" "$work/plain"
fi

# Nothing half made: the data file exists, so neither appears.
rm "$work/header"
expect_error 5 "$CRYPTIMG" create "$work/data" --size 2M --header "$work/header" --key-file "$key" "${cheap[@]}"
[ ! -e "$work/header" ] || fail "a header was left behind"

# A container that has a header of its own where the foreign one's data would begin: writing there
# would destroy it.
make_container "$work/own.img" 256K
before=$(sha256sum <"$work/own.img")
expect_exit 0 "$CRYPTIMG" create "$work/data2" --size 256K --header "$work/header3" --key-file "$key" "${cheap[@]}"
expect_error 4 "$CRYPTIMG" mount --key-file "$key" --header "$work/header3" "$work/own.img" "$mnt"
expect_said "header of its own"
[ "$(sha256sum <"$work/own.img")" = "$before" ] || fail "the refused container was changed"
# A backup of its own header is another matter.
cryptsetup luksHeaderBackup --header-backup-file "$work/backup" "$work/own.img"
mount_image "$work/own.img" "$mnt" --header "$work/backup"
umount_image
