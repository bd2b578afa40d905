#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# SIGTERM while a mounted file system on a loop device holds the image: served until detached; and to all
# processes at once, with SIGKILL after it.
. "$(dirname "$0")/lib.sh"
require mkfs.ext4 e2fsck losetup jq
require_fuse
require_loop

test_cleanup() { umount "$work/fs" 2>/dev/null; }
mkdir "$work/fs"
make_container "$work/c.img" 16M
mount_image "$work/c.img"
device=$(losetup --find --show --direct-io=on --sector-size 4096 "$mnt/image")
mkfs.ext4 -q "$device"
mount "$device" "$work/fs"
daemon=$(daemon_of)
kill -TERM "$daemon"
random_file "$work/plain" 3000000
cp "$work/plain" "$work/fs/file"
sync -f "$work/fs"
[ -e "/proc/$daemon" ] || fail "the daemon is gone while the image is held"
umount "$work/fs"
losetup -d "$device"
eventually gone "$daemon"
eventually not_mounted
mount_image "$work/c.img" "$mnt" -r
device=$(losetup --find --show --read-only --sector-size 4096 "$mnt/image")
mount -o ro,noload "$device" "$work/fs"
same "$work/fs/file" "$work/plain"
umount "$work/fs"
losetup -d "$device"
umount_image

# As at a shutdown: SIGTERM to every process there is for this mount, at once, while the file system is in use;
# then SIGKILL to all that is left, the file system still mounted. What had been fsynced is there.
mount_image "$work/c.img"
daemon=$(daemon_of)
device=$(losetup --find --show --direct-io=on --sector-size 4096 "$mnt/image")
mount "$device" "$work/fs"
(
  # Not to be ended by the first signal: it goes on writing all the while.
  trap '' TERM
  for ((i = 0; ; ++i)); do
    dd if="$work/plain" of="$work/fs/new.$i" bs=64k count=4 conv=fsync status=none 2>/dev/null || exit 0
    echo $i >"$work/synced"
  done
) &
writer=$!
written() { [ -s "$work/synced" ] && [ "$(cat "$work/synced")" -ge "$1" ]; }
eventually written 2
mapfile -t processes < <(our_daemons)
[ "${#processes[@]}" -ge 2 ] || fail "only these processes: ${processes[*]}"
kill -TERM "${processes[@]}" $writer
eventually written $(($(cat "$work/synced") + 3))
for pid in "${processes[@]}"; do
  [ -e "/proc/$pid" ] || fail "a process ended although the file system is mounted"
done
acknowledged=$(cat "$work/synced")
kill -KILL "${processes[@]}"
kill -KILL $writer
wait $writer 2>/dev/null || true
detached() {
  umount "$work/fs" 2>/dev/null || true
  losetup -d "$device" 2>/dev/null || true
  [ -z "$(our_loops)" ]
}
eventually detached
mount_image "$work/c.img"
device=$(losetup --find --show --direct-io=on --sector-size 4096 "$mnt/image")
mount "$device" "$work/fs"
for ((i = 0; i <= acknowledged; ++i)); do
  cmp -n 262144 "$work/fs/new.$i" "$work/plain" || fail "what was fsynced is lost: file $i of $acknowledged"
done
umount "$work/fs"
e2fsck -fn "$device" >"$out" 2>&1 || fail "fsck finds errors"
losetup -d "$device"
umount_image
