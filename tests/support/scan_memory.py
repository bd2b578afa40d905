#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks for bytes in the whole memory of a process: every page that it has, whatever its protection.

    scan_memory.py keys MODE VOLUME-KEY-FILE      patterns of a key and its schedules, one a line;
                                                  MODE is xts, cbc or essiv
    scan_memory.py find PID PATTERNS-FILE         where they are, now
    scan_memory.py at-exit PID PATTERNS-FILE      sends SIGTERM, and looks when nothing is left to be
                                                  done but to end (the main thread is in exit_group)

A patterns file has lines NAME=HEX. Each finding is a line "NAME KIND ADDRESS MAPPING"; KIND is
guarded (locked, wiped in children, out of dumps), unlocked (the same, but not locked), heap, stack,
file or anonymous. Pages that cannot be read are reported as findings of the name "unreadable".
The last line is "scanned N pages". Needs root."""

import ctypes
import hashlib
import os
import signal
import struct
import sys

from aes_schedule import searched_forms

PAGE = os.sysconf("SC_PAGESIZE")
PIECE_PAGES = 4096
NOT_MEMORY = ("[vvar]", "[vvar_vclock]", "[vsyscall]", "[vdso]")


class Mapping:
    def __init__(self, line):
        words = line.split(None, 5)
        self.start, self.end = (int(x, 16) for x in words[0].split("-"))
        self.name = words[5].strip() if len(words) > 5 else ""
        self.flags = set()

    def kind(self):
        if {"wf", "dd"} <= self.flags:
            return "guarded" if "lo" in self.flags else "unlocked"
        if self.name in ("[heap]", "[stack]"):
            return self.name[1:-1]
        return "file" if self.name.startswith("/") else "anonymous"


def mappings(pid):
    found = []
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as smaps:
        for line in smaps:
            if line.startswith("VmFlags:"):
                found[-1].flags = set(line.split()[1:])
            elif "-" in line.split(None, 1)[0]:
                found.append(Mapping(line))
    return [mapping for mapping in found if mapping.name not in NOT_MEMORY]


def present_runs(pagemap, mapping):
    """The runs of pages, as (address, count), that are in memory or in swap."""
    first = mapping.start // PAGE
    count = (mapping.end - mapping.start) // PAGE
    run = None
    for at in range(0, count, PIECE_PAGES):
        number = min(PIECE_PAGES, count - at)
        words = os.pread(pagemap, 8 * number, 8 * (first + at))
        for index, (word,) in enumerate(struct.iter_unpack("Q", words)):
            page = at + index
            if word >> 62:
                run = (run[0], run[1] + 1) if run else (page, 1)
                if run[1] < PIECE_PAGES:
                    continue
            if run:
                yield mapping.start + run[0] * PAGE, run[1]
                # A pattern may lie across the end of a piece.
                run = (page, 1) if word >> 62 and run[1] == PIECE_PAGES else None
    if run:
        yield mapping.start + run[0] * PAGE, run[1]


def scan(pid, patterns):
    pages = 0
    findings = []
    pagemap = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY)
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    for mapping in mappings(pid):
        where = f"{mapping.name or '-'}"
        for address, count in present_runs(pagemap, mapping):
            pages += count
            try:
                content = os.pread(memory, count * PAGE, address)
            except OSError:
                content = b""
            if len(content) != count * PAGE:
                findings.append(f"unreadable {mapping.kind()} {address:#x} {where}")
            for name, pattern in patterns.items():
                at = content.find(pattern)
                while at >= 0:
                    findings.append(f"{name} {mapping.kind()} {address + at:#x} {where}")
                    at = content.find(pattern, at + 1)
    os.close(memory)
    os.close(pagemap)
    for finding in dict.fromkeys(findings):
        print(finding)
    print(f"scanned {pages} pages")


PTRACE_CONT, PTRACE_DETACH, PTRACE_SEIZE = 7, 17, 0x4206
TRACE_EXIT, TRACE_CLONE = 0x40, 0x8
EVENT_EXIT = 6
WAIT_ALL = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, task, data):
    if LIBC.ptrace(request, task, None, data) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request} of {task}")


def at_exit(pid, patterns):
    # Threads that end earlier do so unseen: the main one is the last.
    ptrace(PTRACE_SEIZE, pid, TRACE_EXIT)
    os.kill(pid, signal.SIGTERM)
    while True:
        _, status = os.waitpid(pid, WAIT_ALL)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            sys.exit("it ended without having been seen")
        if status >> 8 == signal.SIGTRAP | EVENT_EXIT << 8:
            scan(pid, patterns)
            ptrace(PTRACE_CONT, pid, None)
            os.waitpid(pid, WAIT_ALL)
            return
        ptrace(PTRACE_CONT, pid, os.WSTOPSIG(status) if status >> 16 == 0 else None)


def key_patterns(mode, key):
    parts = {"data": key[: len(key) // 2], "tweak": key[len(key) // 2 :]} if mode == "xts" else {"data": key}
    if mode == "xts":
        yield "whole", key
    if mode == "essiv":
        parts["essiv"] = hashlib.sha256(key).digest()
    for name, part in parts.items():
        yield f"{name}.key", part
        for form, block in searched_forms(part).items():
            yield f"{name}.{form}", block


def main():
    command, first, second = sys.argv[1:]
    if command == "keys":
        with open(second, "rb") as file:
            for name, pattern in key_patterns(first, file.read()):
                print(f"{name}={pattern.hex()}")
        return
    with open(second, encoding="ascii") as file:
        patterns = dict(line.strip().split("=") for line in file)
    patterns = {name: bytes.fromhex(value) for name, value in patterns.items()}
    {"find": scan, "at-exit": at_exit}[command](int(first), patterns)


main()
