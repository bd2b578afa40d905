#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# qemu-img, an implementation of LUKS1 of its own, reads what was written here, and the reverse.
. "$(dirname "$0")/lib.sh"
require qemu-img
require_fuse

random_file "$work/plain" $((4 << 20))
secret=(--object "secret,id=key,format=raw,file=$key")
printf 'a passphrase' >"$key"  # qemu wants text

make_container "$work/c.img" 4M --type luks1
mount_image "$work/c.img"
dd if="$work/plain" of="$mnt/image" bs=64k conv=notrunc status=none
umount_image
qemu-img convert "${secret[@]}" --image-opts "driver=luks,key-secret=key,file.filename=$work/c.img" \
  -O raw "$work/read"
same "$work/read" "$work/plain"

made=no
for _ in 1 2 3 4 5; do  # its KDF benchmark sometimes fails, and says so
  rm -f "$work/q.img"
  qemu-img create -q "${secret[@]}" -f luks -o key-secret=key,iter-time=10 "$work/q.img" 4M >/dev/null 2>&1 && made=yes && break
done
[ $made = yes ] || skip "qemu-img could not make a LUKS container"
qemu-img convert "${secret[@]}" -n -f raw --target-image-opts "$work/plain" \
  "driver=luks,key-secret=key,file.filename=$work/q.img"
mount_image "$work/q.img" "$mnt" -r
same "$mnt/image" "$work/plain"
umount_image
