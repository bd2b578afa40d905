#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits the JSON of a LUKS2 header, in both copies, with valid checksums.

fix_segment_size.py FILE BYTES         gives segment 0 a fixed size
fix_segment_size.py FILE KEY=VALUE...  sets members of segment 0 (JSON values), or, where KEY has
                                       dots, of the whole: keyslots.0.kdf.iterations=7

This is what an attacker who can write to the file can do too: nothing here needs a key.
"""
import hashlib
import json
import sys


def edit(data, start, members):
    header_bytes = int.from_bytes(data[start + 8:start + 16], "big")
    area = data[start + 4096:start + header_bytes]
    metadata = json.loads(area[:area.index(b"\0")])
    for name, value in members.items():
        *path, last = name.split(".") if "." in name else ("segments", "0", name)
        target = metadata
        for step in path:
            target = target.setdefault(step, {})
        target[last] = value
    text = json.dumps(metadata, separators=(",", ":")).encode()
    data[start + 4096:start + header_bytes] = text.ljust(header_bytes - 4096, b"\0")
    data[start + 448:start + 512] = bytes(64)
    digest = hashlib.sha256(data[start:start + header_bytes]).digest()
    data[start + 448:start + 480] = digest
    return header_bytes


def main():
    path, arguments = sys.argv[1], sys.argv[2:]
    if "=" in arguments[0]:
        pairs = (argument.split("=", 1) for argument in arguments)
        members = {name: json.loads(value) for name, value in pairs}
    else:
        members = {"size": arguments[0]}
    with open(path, "r+b") as file:
        header_bytes = int.from_bytes(file.read(16)[8:16], "big")
        file.seek(0)
        data = bytearray(file.read(2 * header_bytes))
        edit(data, 0, members)
        edit(data, header_bytes, members)
        file.seek(0)
        file.write(data)


main()
