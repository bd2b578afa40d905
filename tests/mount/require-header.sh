#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# --require-cipher and --uuid refuse a header that was put in the place of another, before the
# passphrase is read; on the command line, by -o, and for a detached header.
. "$(dirname "$0")/lib.sh"
require_fuse

uuid=12345678-abcd-4321-9876-0123456789ab
make_container "$work/c.img" 256K --uuid $uuid
make_container "$work/other.img" 256K --key-size 256 --cipher aes-cbc-essiv:sha256
make_container "$work/luks1.img" 256K --type luks1 --uuid $uuid

refused() {  # refused SAYS CONTAINER OPTIONS...
  # A key file that would wait for ever shows that it was not opened.
  expect_error 4 timeout 20 "$CRYPTIMG" mount "${@:3}" --key-file "$work/fifo" "$2" "$mnt"
  expect_said "$1"
  not_mounted || fail "mounted"
}
mkfifo "$work/fifo"
refused aes-cbc-essiv:sha256 "$work/other.img" --require-cipher aes-xts-plain64
refused 'is not the container that is meant' "$work/other.img" --uuid $uuid
refused aes-xts-plain64 "$work/c.img" -o require-cipher=aes-cbc-plain64
refused $uuid "$work/c.img" -o uuid=12345678-abcd-4321-9876-0123456789ac
refused $uuid "$work/luks1.img" --uuid ''$uuid''0
expect_error 1 "$CRYPTIMG" mount --require-cipher aes --key-file "$key" "$work/c.img" "$mnt"
expect_error 1 "$CRYPTIMG" mount --uuid '' --key-file "$key" "$work/c.img" "$mnt"

for container in c luks1; do
  mount_image "$work/$container.img" "$mnt" --require-cipher aes-xts-plain64 --uuid ${uuid^^}
  umount_image
done
expect_exit 0 "$CRYPTIMG" create "$work/d.img" --header "$work/d.header" --size 256K --key-file "$key" "${cheap[@]}"
expect_error 4 "$CRYPTIMG" mount --uuid $uuid --header "$work/d.header" --key-file "$key" "$work/d.img" "$mnt"
