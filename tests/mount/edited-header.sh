#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Someone who can write to the file, without the key, edits the header (checksums valid): what
# contradicts the device, or is not served, or asks for absurd work, is refused; what is valid all the
# same reads as noise and can be refused by --require-cipher; nothing crashes or hangs.
. "$(dirname "$0")/lib.sh"
require python3

edited() {  # edited EXIT KEY=VALUE...
  rm -f "$work/c.img"
  make_container "$work/c.img" 4M
  python3 "$here/../support/fix_segment_size.py" "$work/c.img" "${@:2}"
  local before
  before=$(checksum "$work/c.img")
  expect_error "$1" "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
  not_mounted || fail "mounted with ${*:2}"
  [ "$(checksum "$work/c.img")" = "$before" ] || fail "refusing changed the container (${*:2})"
}

edited 4 'size="18446744073709551104"'
edited 4 'size="9223372036854775807"'
edited 4 'size="0"'
edited 4 'size="4097"'
edited 4 'offset="18446744073709547520"'
edited 4 'offset="99999999999999"'
edited 4 'offset="4096"' 'size="4096"'
edited 4 'sector_size=8192'
edited 4 'sector_size=0'
edited 4 'encryption="null"'
edited 4 'encryption="cipher_null-ecb"'
edited 4 'encryption="aes-xts-essiv:sha256"'
edited 4 'encryption="aes"'
edited 4 'iv_tweak="8"'
edited 4 'type="linear"'
edited 4 'integrity={"type":"hmac(sha256)","journal_encryption":"none","journal_integrity":"none"}'
edited 4 'flags=["backup-final"]'

# Segments that overlap header, keyslots or each other, or are not aligned.
edited 4 'offset="0"'
edited 4 'offset="32768"'
edited 4 'offset="16777217"'
edited 4 'offset="16777215"'
edited 4 'segments.1={"type":"crypt","offset":"16777216","size":"dynamic","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":4096}'
edited 4 'keyslots.0.area.offset="16384"'
edited 4 'keyslots.0.area.offset="16777216"'
edited 4 'keyslots.0.area.size="18446744073709551104"'
edited 4 'keyslots.0.area.key_size=2147483647'
edited 4 'keyslots.0.key_size=1073741824'
edited 4 'config.keyslots_size="18446744073709547520"'

# A digest that accepts every key, for libcryptsetup: a wrong passphrase would mount noise.
for digest in 'digests.0.hash="sh1e999a256"' 'digests.0.digest=""' 'digests.0.digest="AA=="' 'digests.0.iterations=0'; do
  edited 4 "$digest"
  expect_error 4 "$CRYPTIMG" mount --key-file <(echo wrong) "$work/c.img" "$mnt"
done

# What a key derivation may cost: one sentence each, at once, and well within the machine's memory.
within() { timeout 20 "$@"; }
costly() {  # costly EXIT SAYS KEY=VALUE...
  rm -f "$work/c.img"
  make_container "$work/c.img" 4M
  python3 "$here/../support/fix_segment_size.py" "$work/c.img" "${@:3}"
  expect_error "$1" within "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
  expect_said "$2"
}
argon() { echo "keyslots.0.kdf={\"type\":\"argon2id\",\"time\":$1,\"memory\":$2,\"cpus\":$3,\"salt\":\"$(printf %044d 0 | tr 0 A)\"}"; }
costly 4 4294967295 keyslots.0.kdf.iterations=4294967295
costly 4 4294967295 keyslots.0.kdf.iterations=99999999999999999999
costly 4 4294967295 digests.0.iterations=4294967295
costly 3 '4294967295 KiB' "$(argon 4 4294967295 4)"
costly 3 '4294967295 KiB' "$(argon 4 4294967296 4)"
costly 4 4294967295 "$(argon 4294967295 1024 1)"
costly 4 '16777215 threads' "$(argon 4 1024 16777215)"

# Another keyslot still opens it.
rm -f "$work/c.img"
make_container "$work/c.img" 1M
cryptsetup -q luksAddKey "${cheap[@]}" --key-file "$key" --new-keyfile "$key" --key-slot 1 "$work/c.img"
python3 "$here/../support/fix_segment_size.py" "$work/c.img" keyslots.0.kdf.iterations=4294967295
require_fuse
mount_image "$work/c.img"
umount_image
expect_error 4 within "$CRYPTIMG" mount --key-file "$key" --key-slot 0 "$work/c.img" "$mnt"

# Valid changes: the bytes are there, but nothing of the plaintext.
plain=$work/plain
random_file "$plain" $((1 << 20))
noise() {  # noise KEY=VALUE...
  rm -f "$work/c.img"
  expect_exit 0 "$CRYPTIMG" create "$work/c.img" --from "$plain" --key-file "$key" "${cheap[@]}" --key-size 256
  python3 "$here/../support/fix_segment_size.py" "$work/c.img" "$@"
  local before
  before=$(checksum "$work/c.img")
  mount_image "$work/c.img" "$mnt" --readonly
  [ "$(dd if="$mnt/image" bs=4k count=1 skip=3 status=none | sha256sum)" != "$(dd if="$plain" bs=4k count=1 skip=3 status=none | sha256sum)" ] ||
    fail "the plaintext is there in spite of $*"
  umount_image
  [ "$(checksum "$work/c.img")" = "$before" ] || fail "the container changed ($*)"
}
noise 'encryption="aes-cbc-plain64"'
expect_error 4 "$CRYPTIMG" mount --require-cipher aes-xts-plain64 --key-file "$key" "$work/c.img" "$mnt"
expect_said aes-cbc-plain64
noise sector_size=512
noise 'offset="16781312"'

# What nobody reads changes nothing.
rm -f "$work/c.img"
expect_exit 0 "$CRYPTIMG" create "$work/c.img" --from "$plain" --key-file "$key" "${cheap[@]}"
python3 "$here/../support/fix_segment_size.py" "$work/c.img" keyslots.0.af.stripes=2147483647
mount_image "$work/c.img" "$mnt" --readonly
same "$mnt/image" "$plain"
umount_image
