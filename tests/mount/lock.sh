#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# lock and unlock: no key, no plaintext and no cached page while locked; the data the same afterwards;
# wrong keys, strangers, unmounting, and requests that are held.
. "$(dirname "$0")/lib.sh"
require jq python3
require_fuse

locked() { status_of "${1:-$mnt}" .locked; }
expect_locked() { [ "$(locked)" = "$1" ] || fail "locked is '$(locked)', not '$1'"; }
lock() { expect_exit 0 "$CRYPTIMG" lock "$@" && [ ! -s "$err" ] || fail "lock says: $(cat "$err")"; }
unlock() { expect_exit 0 "$CRYPTIMG" unlock --key-file "$key" "$@"; }

random_file "$work/plain" $((8 << 20))
make_container "$work/c.img" 8M --from "$work/plain"
mount_image "$work/c.img" "$mnt" --log-file "$work/log"
daemon=$(daemon_of)
expect_locked no
expect_error 5 "$CRYPTIMG" unlock --key-file "$key" "$mnt"
expect_said "is not locked"
expect_error 4 "$CRYPTIMG" lock "$work/plain"

# Requests fail, metadata does not; nothing is cached.
same "$mnt/image" "$work/plain"
head -c 100000 /dev/urandom | tee "$work/piece" | dd of="$mnt/image" conv=notrunc status=none
dd if="$work/piece" of="$work/plain" conv=notrunc status=none
lock "$mnt"
expect_locked fail
[ "$("$CRYPTIMG" status --json "$mnt" | jq -r '.mounts[0].state')" = locked ] || fail "state is not locked"
"$CRYPTIMG" status >"$out"
grep -q ': locked, read-write$' "$out" || fail "status does not show it: $(cat "$out")"
errors=$(status_of "$mnt" .counters.read_errors)
expect_exit 1 dd if="$mnt/image" of=/dev/null bs=4k count=1 iflag=direct
grep -q "Input/output error" "$err" || fail "not EIO: $(cat "$err")"
expect_exit 1 dd if="$mnt/image" of=/dev/null bs=4k count=1
expect_exit 1 dd if=/dev/zero of="$mnt/image" bs=4k count=1 conv=notrunc
expect_exit 1 fallocate --zero-range --offset 0 --length 1M "$mnt/image"
[ "$(status_of "$mnt" .counters.read_errors)" -gt "$errors" ] || fail "nothing was counted"
[ "$(stat -c %s "$mnt/image")" = $((8 << 20)) ] || fail "no size"
if command -v fincore >/dev/null; then
  fincore --bytes --noheadings --output RES "$mnt/image" >"$out" || true
  [ "$(tr -d ' ' <"$out")" = 0 ] || fail "the kernel has pages of the image: $(cat "$out")"
fi
expect_error 5 "$CRYPTIMG" lock "$mnt"
expect_said "locked already"

# Only the right key.
head -c 32 /dev/urandom >"$work/other-key"
chmod 600 "$work/other-key"
expect_error 2 "$CRYPTIMG" unlock --key-file "$work/other-key" "$mnt"
expect_locked fail
# Of another container under the same name, whose header the passphrase opens.
mv "$work/c.img" "$work/c.away"
make_container "$work/c.img" 8M
expect_error 4 "$CRYPTIMG" unlock --key-file "$key" "$mnt"
expect_said "not the container that is meant"
uuid=$(status_of "$mnt" .uuid)
make_container "$work/c.img" 8M --force --uuid "$uuid"
expect_error 2 "$CRYPTIMG" unlock --key-file "$key" "$mnt"
expect_said "not the key of the container that is mounted"
expect_locked fail
mv -f "$work/c.away" "$work/c.img"
expect_exit 0 "$CRYPTIMG" unlock --key-file - "$work/c.img" <"$key"
expect_locked no
same "$mnt/image" "$work/plain"
[ "$(status_of "$mnt" .refused_calls)" = 0 ] || fail "the sandbox refused calls that locking makes"
[ "$(daemon_of)" = "$daemon" ] || fail "another daemon"

# What a program has mapped goes with it, and what it had written there is kept.
python3 - "$mnt/image" "$CRYPTIMG" "$mnt" <<'PYTHON'
import mmap, os, subprocess, sys
image, program, mountpoint = sys.argv[1:]
fd = os.open(image, os.O_RDWR)
memory = mmap.mmap(fd, 1 << 20)
memory[5000:5004] = b"here"
done = subprocess.run([program, "lock", mountpoint], capture_output=True, text=True)
assert done.returncode == 0 and done.stderr == "", done
PYTHON
unlock "$mnt"
[ "$(dd if="$mnt/image" bs=4 count=1 skip=5000 iflag=direct,skip_bytes status=none)" = here ] || fail "a dirty page is lost"
printf here | dd of="$work/plain" bs=1 seek=5000 conv=notrunc status=none
same "$mnt/image" "$work/plain"

# Unmounting while locked; the lock of the container is free then.
lock "$work/c.img"
umount_image
mount_image "$work/c.img"
same "$mnt/image" "$work/plain"

# Held: a request waits for unlock, and is right then.
lock --hold "$mnt"
expect_locked hold
dd if="$mnt/image" of="$work/read" bs=1M iflag=direct status=none &
reader=$!
dd if="$work/piece" of="$mnt/image" oflag=seek_bytes seek=200000 conv=notrunc status=none &
writer=$!
# They are in the kernel, which waits for the daemon.
waits() { grep -qE 'request_wait_answer|fuse' "/proc/$1/wchan" "/proc/$1/stack" 2>/dev/null; }
if as_root; then eventually waits $reader; fi
expect_error 2 "$CRYPTIMG" unlock --key-file "$work/other-key" "$mnt"
expect_locked hold
kill -0 $reader $writer || fail "a request was not held"
unlock "$mnt"
wait $reader $writer || fail "a held request failed"
dd if="$work/piece" of="$work/plain" oflag=seek_bytes seek=200000 conv=notrunc status=none
same "$mnt/image" "$work/plain"
[ "$(status_of "$mnt" .counters.read_errors)" = 0 ] || fail "a request failed though held"

# Unmounting and SIGTERM while held, also when the kernel would have to ask for attributes again.
make_container "$work/e.img" 4M
lock --hold "$mnt"
sleep 1.5
expect_error 5 "$CRYPTIMG" mount --key-file "$key" "$work/e.img" "$mnt"
expect_said "already has an image mounted on it"
umount_image
mount_image "$work/c.img"
daemon=$(daemon_of)
lock --hold "$mnt"
kill -TERM "$daemon"
eventually gone "$daemon"
not_mounted || fail "SIGTERM while held leaves the mount"
mount_image "$work/c.img" "$mnt" --log-file "$work/log2"
daemon=$(daemon_of)
lock --hold "$mnt"
dd if="$mnt/image" of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null &
reader=$!
if as_root; then eventually waits $reader; fi
kill -TERM "$daemon"
eventually grep -q 'goes on serving' "$work/log2"
unlock "$mnt"
wait $reader || fail "a held request was lost by SIGTERM"
eventually gone "$daemon"

# Read-only, on a file, with a header elsewhere, with engine openssl.
make_container "$work/d.img" 4M --header "$work/d.header"
touch "$work/image"
mount_image "$work/d.img" "$work/image" --header "$work/d.header"
dd if="$work/piece" of="$work/image" conv=notrunc status=none
umount_image "$work/image"
mount_image "$work/d.img" "$work/image" --header "$work/d.header" -r --engine openssl
lock "$work/image"
expect_exit 1 cat "$work/image"
unlock "$work/image"
cmp -n 100000 "$work/image" "$work/piece" || fail "not the same after unlock"
umount_image "$work/image"
