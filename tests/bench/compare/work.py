# SPDX-License-Identifier: GPL-3.0-or-later
"""What is measured: the rows, each some work and the targets that do it, and three sizes of it all.

A target is a label: cryptimg, plain, null, raw, a peer, or "cryptimg OPTIONS" for one mounted with
these options. cryptimg-cbc is a container with aes-cbc-essiv:sha256.
"""

import os
from dataclasses import dataclass, field

from .measure import Scale, Work
from .peers import PEERS
from .servers import MIB

KIB = 1024
CORE = ("cryptimg", "plain", "null")
EVERY = CORE + tuple(PEERS)
PAIR = ("cryptimg", "plain")
OPENSSL = "cryptimg --engine openssl"
SWEEP_SIZES = (64, 128, 256, 512, 1024)  # KiB


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    section: str
    work: Work
    targets: tuple
    mounts: int = 1

    @property
    def unit(self):
        if self.work.tool == "memory":
            return "bytes"
        return "IOPS" if self.work.count_iops else "B/s"

    @property
    def place(self):
        """Writes go to memory, so that a flush at dd's close measures no disk; the rest is on the
        disk's file system, through the page cache."""
        return "memory" if "write" in self.work.operation and not self.work.loaded else "disk"


@dataclass(frozen=True)
class Plan:
    """One size of it all."""
    name: str
    image_bytes: int
    small_bytes: int        # of images that are one of several
    repetitions: int        # of cryptimg, plain and null
    peer_repetitions: int
    scale: Scale
    rows: list = field(default_factory=list)


def size_name(block):
    return f"{block // MIB}M" if block >= MIB else f"{block // KIB}k"


def dd(operation, block, **more):
    name = f"dd-{operation}-{size_name(block).lower()}"
    title = f"dd {size_name(block)} direct {operation}"
    return name, title, Work("dd", operation, block, **more)


def fio(operation, block, depth, **more):
    name = f"fio-{operation}-{size_name(block).lower()}-d{depth}"
    title = f"fio {size_name(block)} {operation}, depth {depth}"
    return name, title, Work("fio", operation, block, depth=depth,
                             count_iops="rand" in operation and block < 65536, **more)


def main_rows(targets):
    sizes = (4 * KIB, 128 * KIB, 512 * KIB, MIB)
    rows = [dd("read", size) for size in sizes] + [dd("write", size) for size in sizes]
    for side in ("read", "write"):
        rows.append(fio(side, MIB, 4))
        rows += [fio(f"rand{side}", 4 * KIB, depth) for depth in (1, 32)]
        rows.append(fio(f"rand{side}", 64 * KIB, 8))
    return [Row(name, title, "main", work, targets) for name, title, work in rows]


def buffered_rows(targets, with_cold):
    work = Work("dd", "read", MIB, direct=False, cache="image")
    rows = [Row("dd-read-1m-warm", "dd 1M buffered read, container cached", "buffered", work,
                targets)]
    if with_cold:
        cold = Work("dd", "read", MIB, direct=False, cache="cold")
        rows.append(Row("dd-read-1m-cold", "dd 1M buffered read, nothing cached", "buffered", cold,
                        targets + ("raw",)))
    return rows


def raw_rows(sizes):
    """What reading the file costs without FUSE: with the null server's figure, the most that plain
    can reach on this machine."""
    return [Row(f"raw-read-{size_name(size).lower()}", f"dd {size_name(size)} read of the file itself, cached",
                "raw", Work("dd", "read", size, direct=False), ("raw",)) for size in sizes]


def openssl_rows():
    rows = [dd("read", MIB), fio("randread", 4 * KIB, 1), fio("randread", 4 * KIB, 32),
            fio("randwrite", 4 * KIB, 1), fio("randwrite", 4 * KIB, 32)]
    return [Row(f"openssl-{name}", f"{title}, engine openssl", "openssl", work, (OPENSSL, "plain"))
            for name, title, work in rows]


def worker_options():
    """One core, and all of them: the session thread ciphers too."""
    return "--workers 0", f"--workers {max((os.cpu_count() or 1) - 1, 1)}"


def worker_rows():
    rows = []
    for kind, engine in (("cryptimg", ""), ("cryptimg-cbc", " --engine openssl")):
        targets = tuple(f"{kind}{engine} {workers}" for workers in worker_options())
        for operation in ("read", "write"):
            name, title, work = dd(operation, MIB)
            cipher = "aes-cbc-essiv, openssl" if engine else "aes-xts"
            rows.append(Row(f"workers-{kind}-{name}", f"{title}, {cipher}: one core, all cores",
                            "workers", work, targets))
    return rows


def mounts_rows():
    rows = []
    for mounts in (1, 2, 4):
        name, title, work = fio("read", MIB, 1)
        rows.append(Row(f"mounts-{mounts}-{name}", f"{title}, {mounts} mounts at once", "mounts",
                        work, PAIR, mounts))
    name, title, work = fio("read", MIB, 1, jobs=4)
    rows.append(Row(f"readers-4-{name}", f"{title}, 4 readers of one image", "mounts", work, PAIR))
    return rows


def loaded_rows():
    rows = [dd("read", size, loaded=True) for size in (4 * KIB, 128 * KIB, MIB)]
    rows += [dd("write", MIB, loaded=True), fio("read", MIB, 4, loaded=True)]
    for side in ("read", "write"):
        rows += [fio(f"rand{side}", 4 * KIB, depth, loaded=True) for depth in (1, 32)]
    rows.append(fio("randread", 64 * KIB, 8, loaded=True))
    return [Row(f"loaded-{name}", f"{title}, another client writing", "loaded", work, PAIR)
            for name, title, work in rows]


def sweep_rows():
    rows = []
    for operation in ("read", "write"):
        name, title, work = dd(operation, MIB)
        targets = tuple(f"cryptimg --max-{operation}-size {size}K" for size in SWEEP_SIZES)
        rows.append(Row(f"sweep-{name}", f"{title} by max_{operation}_size", "sweep", work, targets))
    return rows


def coalesce_rows():
    name, title, work = fio("read", 4 * KIB, 32)
    return [Row(f"coalesce-{name}", f"{title}: coalescing on, off", "coalesce", work,
                ("cryptimg --coalesce on", "cryptimg --coalesce off"))]


def backing_rows():
    rows = [dd("read", MIB), fio("read", MIB, 4), fio("randread", 64 * KIB, 8)]
    targets = tuple(f"cryptimg --backing-io {way}" for way in ("auto", "mapped", "buffered"))
    return [Row(f"backing-{name}", f"{title} by backing-io", "backing", work, targets)
            for name, title, work in rows]


def sandbox_rows():
    rows = [dd("read", MIB), fio("randread", 4 * KIB, 1)]
    return [Row(f"sandbox-{name}", f"{title}: sandbox on, off", "sandbox", work,
                ("cryptimg", "cryptimg --no-sandbox")) for name, title, work in rows]


def memory_rows():
    work = Work("memory", "randrw", MIB, depth=8, jobs=4)
    return [Row("memory", "anonymous memory under full load", "memory", work, ("cryptimg",))]


def tiny_plan():
    scale = Scale(100, {4 * KIB: 2 * MIB, 128 * KIB: 8 * MIB, 512 * KIB: 8 * MIB, MIB: 16 * MIB})
    keep = {"dd-read-4k", "dd-read-1m", "dd-write-1m", "fio-randread-4k-d1"}
    rows = [row for row in main_rows(CORE) if row.name in keep]
    return Plan("tiny", 16 * MIB, 8 * MIB, 1, 1, scale, rows)


def quick_plan():
    scale = Scale(250, {4 * KIB: 24 * MIB, 128 * KIB: 192 * MIB, 512 * KIB: 256 * MIB,
                        MIB: 256 * MIB})
    skip = {"dd-read-512k", "dd-write-512k", "dd-write-128k", "dd-write-4k"}
    rows = [row for row in main_rows(EVERY) if row.name not in skip]
    rows += buffered_rows(PAIR, False) + raw_rows((128 * KIB, MIB))
    rows += [row for row in openssl_rows() if row.work.tool == "dd"]
    rows += [row for row in worker_rows() if "cbc" in row.name] + coalesce_rows() + memory_rows()
    return Plan("quick", 256 * MIB, 64 * MIB, 5, 1, scale, rows)


def full_plan():
    scale = Scale(1000, {4 * KIB: 96 * MIB, 128 * KIB: 1024 * MIB, 512 * KIB: 1024 * MIB,
                         MIB: 1024 * MIB})
    rows = main_rows(EVERY) + buffered_rows(EVERY, True) + raw_rows((4 * KIB, 128 * KIB, MIB))
    rows += openssl_rows() + worker_rows()
    rows += mounts_rows() + loaded_rows() + sweep_rows() + backing_rows() + coalesce_rows()
    rows += sandbox_rows() + memory_rows()
    return Plan("full", 1024 * MIB, 256 * MIB, 11, 5, scale, rows)


PLANS = {"tiny": tiny_plan, "quick": quick_plan, "full": full_plan}
