# SPDX-License-Identifier: GPL-3.0-or-later
"""In what order it is measured: the targets of a row take turns, so that what disturbs the machine
disturbs them alike, and each turn begins with another one."""

import dataclasses
import shutil
import sys
import time
from pathlib import Path

from .measure import measure, warm
from .peers import PEERS
from .servers import Absent, Cryptimg, Failure, Plain, Raw, is_mounted

MAIN_TARGETS = ("cryptimg", "plain", "null", "raw")


def say(text):
    print(text, file=sys.stderr, flush=True)


class Pool:
    """Every server, made when it is first asked for and kept until the end. One with options is up
    only while it is measured: all of a kind share one container, which has one writer."""

    def __init__(self, site, folders, plan):
        self.site = site
        self.folders = folders
        self.plan = plan
        self.servers = {}
        self.absent = {}

    def make(self, label, folder, name, size_bytes):
        words = label.split()
        if words[0].startswith("cryptimg"):
            return Cryptimg(self.site, folder, name, size_bytes, words[0], words[1:])
        if label in ("plain", "null"):
            return Plain(self.site, folder, name, size_bytes, label == "null")
        if label == "raw":
            return Raw(self.site, folder, name, size_bytes)
        return PEERS[label](self.site, folder, name, size_bytes)

    def get(self, label, place, index=0):
        key = (label, place, index)
        if key not in self.servers:
            words = label.split()
            name = words[0] + ("-options" if len(words) > 1 else "") + (f"-{index}" if index else "")
            size = self.plan.small_bytes if index else self.plan.image_bytes
            self.servers[key] = self.make(label, self.folders[place], name, size)
        return self.servers[key]

    def of_row(self, row, label):
        """The servers that do a row."""
        first = 0 if row.mounts == 1 else 1
        return [self.get(label, row.place, first + number) for number in range(row.mounts)]

    def close(self):
        for server in self.servers.values():
            try:
                server.stop()
            except (Failure, OSError) as error:
                say(f"compare: {server.name}: {error}")

    def leftovers(self):
        return [server for server in self.servers.values() if is_mounted(server.mountpoint)]


def is_transient(label):
    return len(label.split()) > 1


class Runner:
    def __init__(self, pool, plan):
        self.pool = pool
        self.plan = plan
        self.warmed = set()

    def ready(self, row, label):
        """Brings a target up, once for a row; tells why where it is not there."""
        if label in self.pool.absent:
            return None
        try:
            servers = self.pool.of_row(row, label)
            for server in servers:
                server.start()
                if server.backing not in self.warmed:
                    warm(server)
                    self.warmed.add(server.backing)
                if is_transient(label):
                    server.stop()
            return servers
        except (Absent, Failure) as error:
            if isinstance(error, Failure) and label in MAIN_TARGETS:
                raise
            self.pool.absent[label] = str(error)
            say(f"  {label}: {error}")
            return None

    def one(self, row, label, servers):
        for server in servers:
            server.start()
        try:
            return measure(row.work, servers, self.plan.scale)
        finally:
            if is_transient(label):
                for server in servers:
                    server.stop()

    def run_row(self, row):
        targets = {label: self.ready(row, label) for label in row.targets}
        targets = {label: servers for label, servers in targets.items() if servers}
        runs = {label: [] for label in targets}
        order = list(targets)
        for turn in range(self.plan.repetitions):
            shift = turn % max(len(order), 1)
            for label in order[shift:] + order[:shift]:
                is_over = label in PEERS and turn >= self.plan.peer_repetitions
                if is_over or label in self.pool.absent:
                    continue
                try:
                    runs[label].append(self.one(row, label, targets[label]))
                except Failure as error:
                    if label not in PEERS:
                        raise
                    self.pool.absent[label] = str(error)
                    say(f"  {label}: {error}")
        if row.work.cache == "cold":
            self.warmed.clear()
        return {label: figures for label, figures in runs.items() if figures}

    def run_all(self):
        rows = []
        begin = time.monotonic()
        for row in self.plan.rows:
            say(f"[{time.monotonic() - begin:5.0f} s] {row.title}")
            runs = self.run_row(row)
            rows.append({"name": row.name, "title": row.title, "section": row.section,
                         "unit": row.unit, "place": row.place,
                         "work": dataclasses.asdict(row.work), "mounts": row.mounts, "runs": runs})
        say(f"[{time.monotonic() - begin:5.0f} s] done")
        return rows


def space_needed(plan):
    """Bytes in each place, generously."""
    count = {"disk": 0, "memory": 0}
    seen = set()
    for row in plan.rows:
        for label in row.targets:
            kind = label.split()[0] + ("+" if is_transient(label) else "")
            for index in range(row.mounts):
                key = (kind, row.place, 0 if row.mounts == 1 else index + 1)
                if key not in seen:
                    seen.add(key)
                    size = plan.image_bytes if row.mounts == 1 else plan.small_bytes
                    count[row.place] += size + (32 << 20)
    return count


def fits(folder, needed_bytes):
    return Path(folder).is_dir() and shutil.disk_usage(folder).free > needed_bytes * 5 // 4
