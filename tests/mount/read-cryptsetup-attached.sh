#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The common case: one file with header and data, made by cryptsetup; also after the LUKS2 header's
# data offset has been moved.
. "$(dirname "$0")/lib.sh"
require cryptsetup
require_fuse
require_root

random_file "$work/plain" $((8 << 20))
for shift in 16M 32M; do
  cp "$work/plain" "$work/c.img"
  truncate -s +$shift "$work/c.img"
  cryptsetup -q reencrypt --encrypt --type luks2 --reduce-device-size $shift "${cheap[@]}" \
    --key-file "$key" "$work/c.img"
  mount_image "$work/c.img"
  cmp -n $((8 << 20)) "$mnt/image" "$work/plain" || fail "the content differs ($shift)"
  umount_image
done
