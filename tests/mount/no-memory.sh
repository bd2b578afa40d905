#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A daemon that gets no more memory once it serves (its address space is limited): requests of every kind, by
# several threads at once, end once each, served or with ENOMEM, never wrongly; it lives, and works as
# ever when there is memory again.
. "$(dirname "$0")/lib.sh"
require jq prlimit python3
require_root
require_fuse
[ -z "${CRYPTIMG_SANITIZED:-}" ] || skip "sanitizers need address space of their own"

test_cleanup() { exec 7>&-; [ -z "${client:-}" ] || kill "$client" 2>/dev/null; }

make_container "$work/c.img" 8M
random_file "$work/plain" $((8 << 20))
mount_image "$work/c.img" "$mnt"
daemon=$(daemon_of)

# The soft limit: it is to be lifted again, by whoever runs this.
limit() { prlimit --pid "$daemon" --as="$1"; }

# Threads, each with descriptors of its own that were opened before, do every kind of request in its part of
# the image, once the first line comes on stdin, and tell what became of each: "ok", or the errno.
cat >"$work/client.py" <<'PY'
import collections, ctypes, errno, mmap, os, sys, threading
path, threads, part = sys.argv[1], 6, 1 << 20
libc = ctypes.CDLL(None, use_errno=True)
tally, lock = collections.Counter(), threading.Lock()

class Client(threading.Thread):
    def __init__(self, number):
        super().__init__()
        self.first = number * part
        self.cached = os.open(path, os.O_RDWR)
        self.direct = os.open(path, os.O_RDWR | os.O_DIRECT)
        self.page = mmap.mmap(-1, part)
        self.page.write(os.urandom(part))
        self.truth = self.page[:]

    def attempt(self, what, *arguments):
        try:
            answer = what(*arguments)
        except OSError as error:
            answer = error
        with lock:
            tally[errno.errorcode[answer.errno] if isinstance(answer, OSError) else "ok"] += 1
        return answer

    def zero(self):
        if libc.fallocate(self.direct, 0x10, ctypes.c_long(self.first), ctypes.c_long(65536)) != 0:
            raise OSError(ctypes.get_errno(), "fallocate")

    def run(self):
        for size in 4096, 65536, part:
            for _ in range(8):
                view = memoryview(self.page)[:size]
                view[:] = self.truth[:size]
                wrote = self.attempt(os.pwritev, self.direct, [view], self.first)
                self.attempt(os.pwrite, self.cached, self.truth[100:777], self.first + 100)
                self.attempt(os.fsync, self.cached)
                view[:] = bytes(size)
                read = self.attempt(os.preadv, self.direct, [view], self.first)
                if wrote == size and read == size and view != self.truth[:size]:
                    os.write(1, b"reads something else\n")
        self.attempt(self.zero)
        self.attempt(os.fsync, self.direct)

clients = [Client(number) for number in range(threads)]
os.write(1, b"open\n")
sys.stdin.readline()
for client in clients:
    client.start()
for client in clients:
    client.join()
os.write(1, (" ".join("%s %d" % each for each in sorted(tally.items())) + "\n").encode())
PY
mkfifo "$work/go"
timeout 100 python3 "$work/client.py" "$mnt/image" <"$work/go" >"$work/answers" 2>&1 &
client=$!
exec 7>"$work/go"
eventually grep -q open "$work/answers"
limit 1048576:
[ "$(awk '/Max address space/ { print $4 }' "/proc/$daemon/limits")" = 1048576 ] || fail "no limit"
echo >&7
wait $client || fail "the client ended badly: $(cat "$work/answers")"
cat "$work/answers"
! grep -q "something else" "$work/answers" || fail "a request that worked was not served right"
read -ra words < <(tail -n 1 "$work/answers")
# Served, or refused for want of memory; every one of them answered: 6 threads, 3 sizes, 8 times 4, and 2.
total=0 good=0
for ((i = 0; i < ${#words[@]}; i += 2)); do
  total=$((total + words[i + 1]))
  case ${words[i]} in
    ok) good=${words[i + 1]} ;;
    ENOMEM) ;;
    *) fail "an errno that means something else: ${words[*]}" ;;
  esac
done
[ $total = $((6 * (3 * 8 * 4 + 2))) ] || fail "$total requests were answered"
[ $good -gt $((total / 2)) ] || fail "hardly anything was served, though requests need no memory: ${words[*]}"

# What needs some: a new handle, an answer to a command. They may be refused, and do no harm.
opened=0
for i in 1 2 3 4 5 6 7 8; do
  head -c 4096 "$mnt/image" >/dev/null 2>"$err" || opened=$((opened + 1))
done
echo "$opened of 8 opens refused"
timeout 30 "$CRYPTIMG" status "$mnt" >/dev/null 2>&1 || true

limit unlimited:
[ "$(daemon_of)" = "$daemon" ] || fail "the daemon is another"
dd if="$work/plain" of="$mnt/image" bs=1M conv=notrunc,fsync status=none || fail "cannot write when there is memory again"
dd if="$mnt/image" of="$work/seen" bs=64k iflag=direct status=none
same "$work/seen" "$work/plain"
umount_image
gone "$daemon" || fail "the daemon outlived umount"
