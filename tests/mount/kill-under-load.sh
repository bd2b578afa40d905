#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# kill -9 of the daemon, or of daemon and janitor, at random moments under load: several threads write
# by direct I/O through the image, one through a loop device on it. Nothing that was acknowledged is
# lost, each other sector is old or new, the loop device gives I/O errors and can be detached, and the
# next mount clears the dead one and just works. 25 kills; with CRYPTIMG_SOAK=1, 250.
#   CRYPTIMG_SEED=N   for these moments again
. "$(dirname "$0")/lib.sh"
require python3 losetup
require_fuse
require_loop

kills=25
[ -z "${CRYPTIMG_SOAK:-}" ] || kills=250
make_container "$work/c.img" 1M --sector-size 512

cat >"$work/kill.py" <<'PY'
import errno, json, mmap, os, random, signal, subprocess, sys, threading, time
program, work, key, kills = sys.argv[1:4] + [int(sys.argv[4])]
seed = int(os.environ.get("CRYPTIMG_SEED") or random.SystemRandom().getrandbits(32))
print("CRYPTIMG_SEED=%d" % seed, flush=True)
mnt, container = work + "/mnt", work + "/c.img"
image = mnt + "/image"
SECTOR, SECTORS, WRITERS = 512, 2048, 4  # the last writer goes through the loop device
SHARE = SECTORS // WRITERS

def run(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

def content(generation, sector):
    return (generation * 65536 + sector).to_bytes(8, "little") * (SECTOR // 8)

class Writer(threading.Thread):
    """Writes its share, over and over, and remembers what it was told."""
    def __init__(self, number, path, truth, seed):
        super().__init__()
        self.path, self.truth, self.random = path, truth, random.Random(seed)
        self.first = number * SHARE
        self.acknowledged = 0
        self.error = None

    def run(self):
        buffer = mmap.mmap(-1, 32 * SECTOR)
        view = memoryview(buffer)
        fd = os.open(self.path, os.O_RDWR | os.O_DIRECT)
        try:
            while True:
                count = self.random.randint(1, 32)
                start = self.first + self.random.randrange(SHARE - count)
                for i in range(count):
                    newest = self.truth[start + i][-1] + 1
                    self.truth[start + i].append(newest)
                    view[i * SECTOR:(i + 1) * SECTOR] = content(newest, start + i)
                if os.pwritev(fd, [view[:count * SECTOR]], start * SECTOR) != count * SECTOR:
                    raise OSError(errno.EIO, "short")
                for i in range(count):
                    self.truth[start + i] = self.truth[start + i][-1:]
                self.acknowledged += 1
        except OSError as error:
            self.error = error.errno
        finally:
            try:
                os.close(fd)
            except OSError:
                pass

def processes():
    """The daemon first, then its janitor."""
    daemon = json.loads(run(program, "status", "--json", mnt).stdout)
    daemon = (daemon.get("mounts") or [daemon])[0]["pid"]
    children = open("/proc/%d/task/%d/children" % (daemon, daemon)).read().split()
    return [daemon] + [int(child) for child in children]

def mount():
    done = run(program, "mount", "--key-file", key, container, mnt)
    assert done.returncode == 0, "the next mount does not just work: " + done.stderr

def judge(truth, round):
    with open(image, "rb") as file:
        data = file.read()
    for sector, possible in enumerate(truth):
        found = data[sector * SECTOR:(sector + 1) * SECTOR]
        fit = [g for g in possible if content(g, sector) == found]
        assert fit, "round %d: sector %d is none of the generations %s (%s...)" % (
            round, sector, possible, found[:16].hex())
        truth[sector] = fit[-1:]

# What each sector may hold: the acknowledged generation, and those that were tried after it.
truth = [[0] for sector in range(SECTORS)]
chance = random.Random(seed)
mount()
with open(image, "r+b", buffering=0) as file:
    for sector in range(SECTORS):
        file.write(content(0, sector))
acknowledged = [0] * WRITERS
for round in range(kills):
    loop = run("losetup", "--find", "--show", "--direct-io=on", image)
    assert loop.returncode == 0, loop.stderr
    device = loop.stdout.strip()
    victims = processes()
    assert len(victims) == 2, "no janitor: %s" % victims
    writers = [Writer(n, device if n == WRITERS - 1 else image, truth, seed * 1000 + round * 10 + n)
               for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    time.sleep(chance.random() * 0.08)
    for victim in victims if chance.random() < 0.5 else victims[:1]:
        os.kill(victim, signal.SIGKILL)
    for n, writer in enumerate(writers):
        writer.join(30)
        assert not writer.is_alive(), "round %d: a write hangs after the daemon was killed" % round
        assert writer.error in (errno.EIO, errno.ENOTCONN, errno.ECONNABORTED), writer.error
        acknowledged[n] += writer.acknowledged
    detached = run("losetup", "-d", device)
    assert detached.returncode == 0, detached.stderr
    mount()
    judge(truth, round)
assert min(acknowledged) > 0, "some writer was never answered: %s" % acknowledged
print("%d kills, acknowledged writes: %s" % (kills, acknowledged))
PY
# A round takes a third of a second.
timeout $((60 + kills * 2)) python3 "$work/kill.py" "$CRYPTIMG" "$work" "$key" "$kills" >"$out" 2>"$err" || fail "see below"
cat "$out"
grep -q "^$kills kills" "$out" || fail "not all kills were done"
no_loops() { [ -z "$(our_loops)" ]; }
eventually no_loops
umount_image
