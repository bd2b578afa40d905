#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# ZERO_RANGE writes encrypted zeros; PUNCH_HOLE and COLLAPSE_RANGE are EOPNOTSUPP; everything is data.
. "$(dirname "$0")/lib.sh"
require fallocate python3
require_fuse

make_container "$work/c.img" 4M
random_file "$work/plain" $((4 << 20))
mount_image "$work/c.img"
dd if="$work/plain" of="$mnt/image" bs=64k status=none
# fallocate(1) falls back to writing where it may; the system call is asked directly.
cat >"$work/call.py" <<'PY'
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
fd = os.open(sys.argv[1], os.O_RDWR)
mode, offset, length = (int(word, 0) for word in sys.argv[2:5])
got = 0 if libc.fallocate(fd, mode, offset, length) == 0 else ctypes.get_errno()
names = {0: "OK", errno.EOPNOTSUPP: "EOPNOTSUPP"}
print(names.get(got) or errno.errorcode[got])
PY
call() { python3 "$work/call.py" "$mnt/image" "$@"; }
zero() { dd if=/dev/zero of="$work/plain" bs=1 seek="$1" count="$2" conv=notrunc status=none; }

[ "$(call 0x10 8192 65536)" = OK ] || fail "ZERO_RANGE"
zero 8192 65536
[ "$(call 0x11 300001 12345)" = OK ] || fail "ZERO_RANGE | KEEP_SIZE, unaligned"
zero 300001 12345
same "$mnt/image" "$work/plain"
dd if="$mnt/image" of="$work/read" bs=1M iflag=direct status=none
same "$work/read" "$work/plain"

[ "$(call 0x3 0 65536)" = EOPNOTSUPP ] || fail "PUNCH_HOLE: $(call 0x3 0 65536)"
case $(call 0x8 0 65536) in EOPNOTSUPP | EINVAL) ;; *) fail "COLLAPSE_RANGE" ;; esac
case $(call 0x10 $((4 << 20)) 4096) in ENOSPC | EFBIG | EINVAL | EOPNOTSUPP) ;; *) fail "ZERO_RANGE past the end" ;; esac
[ "$(stat -c %s "$mnt/image")" = $((4 << 20)) ] || fail "the size changed"
[ "$(call 0 0 65536)" = OK ] || fail "plain fallocate inside the image"
same "$mnt/image" "$work/plain"

python3 - "$mnt/image" <<'PY' || fail "SEEK_DATA or SEEK_HOLE"
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
assert os.lseek(fd, 4096, os.SEEK_DATA) == 4096
assert os.lseek(fd, 4096, os.SEEK_HOLE) == size
PY
umount_image
