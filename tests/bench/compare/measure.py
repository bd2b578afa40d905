# SPDX-License-Identifier: GPL-3.0-or-later
"""How one figure comes about: one run of dd or fio, in bytes (or operations) a second."""

import contextlib
import json
import os
import re
import subprocess
import time
from dataclasses import dataclass

from .peers import backing_files
from .servers import Failure, run

DROP_CACHES = "/proc/sys/vm/drop_caches"


@dataclass(frozen=True)
class Work:
    """What a client does. `count_iops`: the figure is operations a second, else bytes a second."""
    tool: str               # dd, fio, or memory: the daemon's anonymous memory under full load
    operation: str          # read, write, randread, randwrite
    block: int
    depth: int = 1
    jobs: int = 1           # readers on each image
    direct: bool = True
    cache: str = "warm"     # warm; image: its own pages dropped; cold: the container's too
    count_iops: bool = False
    loaded: bool = False    # while somebody else writes elsewhere in the image


@dataclass(frozen=True)
class Scale:
    """How long one measurement lasts."""
    fio_ms: int
    dd_bytes: dict          # by block size, at most


def drop_pages(path):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def warm(server):
    """Brings what is served into the page cache."""
    for path in backing_files(server):
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 22):
                pass


def set_cache(work, server):
    if work.cache in ("image", "cold") and server.image != server.backing:
        drop_pages(server.image)
    if work.cache == "cold":
        for path in backing_files(server):
            drop_pages(path)
        if os.access(DROP_CACHES, os.W_OK):
            with contextlib.suppress(OSError), open(DROP_CACHES, "w", encoding="ascii") as file:
                file.write("1")


def span_of(work, server):
    """The part of the image that is worked on: not the last quarter, where the other client is."""
    return server.size_bytes // 4 * 3 if work.loaded else server.size_bytes


def run_dd(work, server, scale):
    span = min(span_of(work, server), scale.dd_bytes[work.block])
    count = max(span // work.block, 1)
    image = str(server.image)
    if work.operation == "read":
        words = [f"if={image}", "of=/dev/null"] + (["iflag=direct"] if work.direct else [])
    else:
        words = ["if=/dev/zero", f"of={image}", "conv=notrunc"]
        words += ["oflag=direct"] if work.direct else []
    done = run(["dd", f"bs={work.block}", f"count={count}", *words])
    found = re.search(r"^(\d+) bytes .* copied, ([0-9.e+-]+) s", done.stderr, re.MULTILINE)
    if not found or int(found.group(1)) != count * work.block or float(found.group(2)) <= 0:
        raise Failure(f"dd says something else: {done.stderr.strip()}")
    return int(found.group(1)) / float(found.group(2))


def fio_command(work, images, span, runtime_ms):
    engine = ["--ioengine=psync"] if work.depth == 1 else ["--ioengine=libaio",
                                                             f"--iodepth={work.depth}"]
    command = ["fio", "--output-format=json", f"--rw={work.operation}", f"--bs={work.block}",
               f"--direct={int(work.direct)}", "--time_based", f"--runtime={runtime_ms}ms",
               "--thread", "--group_reporting", "--invalidate=0", "--randrepeat=0", "--norandommap",
               "--allow_file_create=0", *engine]
    for number, image in enumerate(images):
        command += [f"--name=job{number}", f"--filename={image}", f"--size={span}",
                    f"--numjobs={work.jobs}"]
        if work.jobs > 1:
            part = span // work.jobs // work.block * work.block
            command += [f"--size={part}", f"--offset_increment={part}"]
    return command


def run_fio(work, servers, scale):
    span = span_of(work, servers[0])
    text = run(fio_command(work, [server.image for server in servers], span, scale.fio_ms)).stdout
    try:
        jobs = json.loads(text[text.index("{"):])["jobs"]
    except ValueError:
        raise Failure(f"fio says something else: {text[:200]}") from None
    side = "read" if "read" in work.operation else "write"
    key = "iops" if work.count_iops else "bw_bytes"
    if any(job["error"] != 0 for job in jobs):
        raise Failure("fio met an error")
    figure = sum(float(job[side][key]) for job in jobs)
    if figure <= 0:
        raise Failure("fio moved nothing")
    return figure


def anonymous_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    raise Failure("no RssAnon in /proc")


def run_memory(work, server, scale):
    """The most anonymous memory that is seen while many clients read and write."""
    command = fio_command(work, [server.image], server.size_bytes, max(scale.fio_ms, 500))
    pid = server.pid()
    most = anonymous_bytes(pid)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as load:
        while load.poll() is None:
            most = max(most, anonymous_bytes(pid))
            time.sleep(0.02)
        if load.returncode != 0:
            raise Failure("fio met an error")
    return most


@contextlib.contextmanager
def other_client(work, server):
    """A second client that writes 32 MiB a second into the last quarter of the image."""
    if not work.loaded:
        yield
        return
    quarter = server.size_bytes // 4
    command = ["fio", "--name=other", f"--filename={server.image}", f"--offset={3 * quarter}",
               f"--size={quarter}", "--rw=randwrite", "--bs=64k", "--rate=32m", "--direct=1",
               "--ioengine=psync", "--time_based", "--runtime=600", "--thread", "--invalidate=0",
               "--allow_file_create=0"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as writer:
        time.sleep(0.4)  # until it writes; what it does before counts for every server alike
        try:
            if writer.poll() is not None:
                raise Failure("the second client could not write")
            yield
        finally:
            writer.terminate()
            try:
                writer.wait(timeout=30)
            except subprocess.TimeoutExpired:
                writer.kill()


def measure(work, servers, scale):
    """One figure of one target, which may be several mounts at once."""
    for server in servers:
        set_cache(work, server)
    with other_client(work, servers[0]):
        if work.tool == "memory":
            return run_memory(work, servers[0], scale)
        if work.tool == "fio":
            return run_fio(work, servers, scale)
        return run_dd(work, servers[0], scale)
