#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What is no LUKS container, or one that is not served, is refused with exit 4 in one sentence that
# names what was found; no byte changes.
. "$(dirname "$0")/lib.sh"
require cryptsetup

refuse() {  # refuse FILE SAID [options]
  local before
  before=$(checksum "$1")
  expect_error 4 "$CRYPTIMG" mount --key-file "$key" "${@:3}" "$1" "$mnt"
  [ -z "$2" ] || expect_said "$2"
  [ "$(checksum "$1")" = "$before" ] || fail "refusing changed $1"
  not_mounted || fail "mounted: $1"
}

random_file "$work/junk" $((1 << 20))
refuse "$work/junk" LUKS
: >"$work/empty"
refuse "$work/empty" LUKS
expect_error 4 "$CRYPTIMG" mount --key-file "$key" "$work/absent" "$mnt"
expect_said "$work/absent"
expect_error 4 "$CRYPTIMG" mount --key-file "$key" "$work" "$mnt"
expect_error 4 "$CRYPTIMG" info "$work/junk"
expect_error 4 "$CRYPTIMG" info "$work/absent"

make_luks "$work/ctr.img" 20M --type luks2 -c aes-ctr-plain64 -s 256
refuse "$work/ctr.img" aes-ctr-plain64
make_luks "$work/ecb.img" 20M --type luks1 -c aes-ecb -s 256
refuse "$work/ecb.img" aes-ecb
make_luks "$work/be.img" 20M --type luks2 -c aes-xts-plain64be -s 512
refuse "$work/be.img" aes-xts-plain64be
expect_exit 0 "$CRYPTIMG" info "$work/be.img"

# A header cut off in the middle.
make_luks "$work/cut.img" 20M --type luks2
truncate -s 2048 "$work/cut.img"
refuse "$work/cut.img" ""

# Re-encryption under way.
if as_root; then
  make_luks "$work/re.img" 20M --type luks2
  cryptsetup -q reencrypt --init-only --force-offline-reencrypt "${cheap[@]}" --key-file "$key" "$work/re.img"
  refuse "$work/re.img" re
fi

# Where no container can be made, force or not.
for place in "$work" /dev/null; do
  expect_error 4 "$CRYPTIMG" create "$place" --key-file "$key"
  expect_said "neither a regular file nor a block device"
done
