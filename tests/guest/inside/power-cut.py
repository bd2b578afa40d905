# SPDX-License-Identifier: GPL-3.0-or-later
"""Power cuts in the guest; see power-cut.sh.
  write IMAGE HISTORY SEED     random writes and flushes; each answer is marked in the log as it comes
  cut FOLDER KEY SEED CUTS [lie]
                               replays FOLDER/log over FOLDER/before up to CUTS points, and compares
                               what dm-crypt reads with FOLDER/history. `lie`: as if every write had
                               been promised to be on the disk, which has to be found untrue.
The log's form is that of Documentation/admin-guide/device-mapper/log-writes.rst."""
import json, os, random, struct, subprocess, sys

CELL = 512  # what is judged by itself: a sector, or less of one
CELLS = 2048
OPERATIONS = 80
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
    if done.returncode != 0:
        sys.exit("%s: exit %d: %s" % (" ".join(command), done.returncode, done.stderr))
    return done.stdout


def content(operation, cell):
    return struct.pack("<IHH", operation, cell, 0xC0DE) * (CELL // 8)


def write(image, history, seed):
    chance = random.Random(seed)
    operations = []
    plain = os.open(image, os.O_RDWR)
    durable = os.open(image, os.O_RDWR | os.O_DSYNC)
    for number in range(1, OPERATIONS + 1):
        kind = chance.choice(["write", "write", "write", "durable", "flush"])
        # Whole sectors of 4096 bytes, or cells, which are pieces of such a sector.
        unit = chance.choice([1, 8])
        count = chance.randint(1, 160 // unit) * unit
        first = chance.randrange((CELLS - count) // unit + 1) * unit
        if kind == "flush":
            os.fsync(plain)
        else:
            data = b"".join(content(number, cell) for cell in range(first, first + count))
            fd = durable if kind == "durable" else plain
            if os.pwrite(fd, data, first * CELL) != len(data):
                sys.exit("a short write")
        operations.append([kind, first, count])
        # Only the end of a flush is a promise.
        if kind != "write":
            run("dmsetup", "message", "logged", "0", "mark", str(number))
    json.dump(operations, open(history, "w"))


def read_log(path):
    """The entries: (flags, byte offset, data); a mark's data is its number."""
    log = open(path, "rb")
    magic, version, count, unit = struct.unpack("<QQQI", log.read(28))
    if magic != 0x6A736677736872 or count < OPERATIONS:
        sys.exit("no log of writes: %x, %d entries" % (magic, count))
    position = unit
    entries = []
    for _ in range(count):
        log.seek(position)
        sector, sectors, flags, length = struct.unpack("<QQQQ", log.read(32))
        if flags & MARK:
            mark = log.read(length).split(b"\0")[0].decode()
            if mark.isdecimal():  # the target makes one of its own when it ends
                entries.append((flags, 0, mark))
        elif flags & DISCARD:
            sys.exit("a discard was not expected")
        else:
            log.seek(position + unit)
            entries.append((flags, sector * unit, log.read(sectors * unit)))
        position += unit + (0 if flags & (MARK | DISCARD) else sectors * unit)
    return entries


def possible(operations, promised, begun):
    """For each cell: which operations' content it may have; 0 is what was there before all."""
    cells = [{0} for _ in range(CELLS)]
    for number, (kind, first, count) in enumerate(operations[:begun], 1):
        for cell in range(first, first + count) if kind != "flush" else ():
            cells[cell].add(number)
        if number <= promised:
            if kind == "flush":
                cells = [{max(cell)} for cell in cells]
            elif kind == "durable":
                for cell in range(first, first + count):
                    cells[cell] = {max(cells[cell])}
    return cells


def look(folder, key, disk):
    """The image that dm-crypt finds in the container on a disk."""
    with open(folder + "/disk", "wb") as file:
        file.write(disk)
    run("mount", "-o", "loop", folder + "/disk", folder + "/fs")
    run("cryptsetup", "open", "--readonly", "--key-file", key, folder + "/fs/c.img", "oracle")
    with open("/dev/mapper/oracle", "rb") as oracle:
        image = oracle.read()
    run("cryptsetup", "close", "oracle")
    run("umount", folder + "/fs")
    return image


def cut(folder, key, seed, cuts, lie):
    chance = random.Random(seed + 1)
    operations = json.load(open(folder + "/history"))
    if lie:
        operations = [["durable", first, count] if kind == "write" else [kind, first, count]
                      for kind, first, count in operations]
    entries = read_log(folder + "/log")
    marks = [index for index, entry in enumerate(entries) if entry[0] & MARK]
    made = sum(kind != "write" for kind, _, _ in json.load(open(folder + "/history")))
    if len(marks) != made:
        sys.exit("%d marks were made, %d of %d entries are marks" % (made, len(marks), len(entries)))
    exact = older = newer = 0
    before = open(folder + "/before", "rb").read()
    noise = look(folder, key, before)  # what a sparse container reads as
    for round in range(cuts):
        # Everything from before the first write to the very end.
        end = len(entries) if round == 0 else chance.randrange(len(entries) + 1)
        disk = bytearray(before)
        answered = 0
        for flags, offset, data in entries[:end]:
            if flags & MARK:
                answered = int(data)
            else:
                disk[offset:offset + len(data)] = data
        # Those after the last mark may have been under way, up to the next that is marked.
        begun = next((n for n in range(answered + 1, len(operations) + 1) if operations[n - 1][0] != "write"),
                     len(operations))
        if lie:
            answered = begun
        image = look(folder, key, disk)
        for cell, numbers in enumerate(possible(operations, answered, begun)):
            found = image[cell * CELL:(cell + 1) * CELL]
            fit = [n for n in numbers if found == (content(n, cell) if n else noise[cell * CELL:(cell + 1) * CELL])]
            if not fit:
                sys.exit("seed %d, cut at entry %d of %d, after operation %d: cell %d is none of the operations %s (%s)" %
                         (seed, end, len(entries), answered, cell, sorted(numbers), found[:8].hex()))
            exact += len(numbers) == 1
            older += fit[0] < max(numbers)
            newer += fit[0] > min(numbers)
    if not lie and not (exact > cuts and older > 0 and newer > 0):
        sys.exit("not all kinds of outcome were met: %d, %d, %d" % (exact, older, newer))
    print("%d cuts of a log of %d entries, %d of them marks; cells: %d exact, %d older and %d newer than could be" %
          (cuts, len(entries), len(marks), exact, older, newer))


if sys.argv[1] == "write":
    write(sys.argv[2], sys.argv[3], int(sys.argv[4]))
else:
    cut(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), "lie" in sys.argv)
