#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the seeds of the fuzz targets: make_seeds.py FOLDER. One folder a target; the same each time.

The headers are written from the format's specification, by no program under test: "LUKS2 On-Disk
Format Specification" 1.1 and "LUKS1 On-Disk Format Specification" 1.2.3.
"""
import base64
import copy
import json
import os
import struct
import sys

SALT = base64.b64encode(bytes(range(32))).decode()
KIB, MIB = 1 << 10, 1 << 20


def luks2_json(header_bytes=16 * KIB):
    keyslots_bytes = MIB - 2 * header_bytes
    return {
        "keyslots": {"0": {
            "type": "luks2", "key_size": 64,
            "af": {"type": "luks1", "stripes": 4000, "hash": "sha256"},
            "area": {"type": "raw", "offset": str(2 * header_bytes), "size": str(256 * KIB - 4 * KIB),
                     "encryption": "aes-xts-plain64", "key_size": 64},
            "kdf": {"type": "pbkdf2", "hash": "sha256", "iterations": 1000, "salt": SALT}}},
        "tokens": {},
        "segments": {"0": {"type": "crypt", "offset": str(MIB), "size": "dynamic", "iv_tweak": "0",
                           "encryption": "aes-xts-plain64", "sector_size": 512}},
        "digests": {"0": {"type": "pbkdf2", "keyslots": ["0"], "segments": ["0"], "hash": "sha256",
                          "iterations": 1000, "salt": SALT, "digest": SALT}},
        "config": {"json_size": str(header_bytes - 4096), "keyslots_size": str(keyslots_bytes)}}


def edited(*edits):
    """A header with members set: (path with dots, value), None removes."""
    header = luks2_json()
    for path, value in edits:
        *steps, last = path.split(".")
        target = header
        for step in steps:
            target = target.setdefault(step, {})
        if value is None:
            del target[last]
        else:
            target[last] = value
    return header


ARGON = {"type": "argon2id", "time": 4, "memory": 32, "cpus": 1, "salt": SALT}
SECOND = luks2_json()["keyslots"]["0"]
SEGMENT = luks2_json()["segments"]["0"]

JSONS = {
    "plain": edited(),
    "sectors": edited(("segments.0.sector_size", 4096)),
    "fixed": edited(("segments.0.size", str(MIB))),
    "long": edited(("segments.0.size", str(8 * MIB))),
    "odd": edited(("segments.0.size", "4097")),
    "huge": edited(("segments.0.size", "18446744073709551104")),
    "far": edited(("segments.0.offset", "9223372036854775296")),
    "inside": edited(("segments.0.offset", str(32 * KIB))),
    "misaligned": edited(("segments.0.offset", str(MIB + 1))),
    "cbc": edited(("segments.0.encryption", "aes-cbc-essiv:sha256"), ("keyslots.0.key_size", 32)),
    "null": edited(("segments.0.encryption", "cipher_null-ecb")),
    "tweak": edited(("segments.0.iv_tweak", "8")),
    "linear": edited(("segments.0.type", "linear")),
    "integrity": edited(("segments.0.integrity", {"type": "hmac(sha256)", "journal_encryption": "none",
                                                  "journal_integrity": "none"})),
    "flags": edited(("segments.0.flags", ["backup-final"])),
    "two-segments": edited(("segments.1", SEGMENT)),
    "no-segment": edited(("segments", {}), ("digests.0.segments", [])),
    "argon": edited(("keyslots.0.kdf", ARGON)),
    "terabytes": edited(("keyslots.0.kdf", {**ARGON, "memory": 2 ** 31 - 1})),
    "threads": edited(("keyslots.0.kdf", {**ARGON, "cpus": 2 ** 24 - 1})),
    "iterations": edited(("keyslots.0.kdf.iterations", 2 ** 32 - 1)),
    "digest": edited(("digests.0.iterations", 2 ** 32 - 1)),
    "digest-hash": edited(("digests.0.hash", "sh1e999a256")),
    "digest-empty": edited(("digests.0.digest", "")),
    "digest-short": edited(("digests.0.digest", "AA==")),
    "area": edited(("keyslots.0.area.key_size", 2 ** 31 - 1)),
    "priority": edited(("keyslots.0.priority", 0)),
    "slots": edited(("keyslots.7", {**copy.deepcopy(SECOND), "priority": 2,
                                    "area": {**SECOND["area"], "offset": str(288 * KIB)}}),
                    ("digests.0.keyslots", ["0", "7"])),
    "unbound": edited(("digests.0.segments", [])),
    "overlap": edited(("keyslots.7", SECOND), ("digests.0.keyslots", ["0", "7"])),
    "required": edited(("config.requirements", {"mandatory": ["time-travel"]})),
    "reencrypt": edited(("config.requirements", {"mandatory": ["offline-reencrypt"]})),
    "token": edited(("tokens.0", {"type": "luks2-keyring", "keyslots": ["0"], "key_description": "\u001b[2J"})),
    "control": edited(("segments.0.encryption", "aes\u001b[31m-xts\n")),
    "many": edited(*[(f"keyslots.{n}", {**SECOND, "area": {**SECOND["area"], "offset": str(32 * KIB + n * 4096),
                                                           "size": "4096"}}) for n in range(32)]),
}


def luks2_fields(header_bytes=16 * KIB, label=b"a label", subsystem=b"", uuid=b"12345678-1234-1234-1234-123456789abc"):
    fields = bytearray(512)
    struct.pack_into(">6sHQQ48s32s64s40s48sQ", fields, 0, b"LUKS\xba\xbe", 2, header_bytes, 3, label,
                     b"sha256", bytes(64), uuid, subsystem, 0)
    return bytes(fields)


def luks2_seeds():
    for name, header in JSONS.items():
        yield name, b"\0" + luks2_fields() + json.dumps(header).encode()
    plain = json.dumps(luks2_json()).encode()
    for name, choice in ("checksums", 1), ("first", 2), ("second", 4), ("both", 6), ("short", 8):
        yield name, bytes([choice]) + luks2_fields() + plain
    yield "large", b"\0" + luks2_fields(64 * KIB) + json.dumps(luks2_json(64 * KIB)).encode()
    yield "odd-size", b"\0" + luks2_fields(20000) + plain
    yield "label", b"\0" + luks2_fields(label=b"\x1b[2J\xff\xe2\x80\xae", subsystem=b"\n\x07") + plain
    yield "uuid", b"\0" + luks2_fields(uuid=b"\x9b" * 40) + plain
    yield "empty", b"\0" + luks2_fields()


def luks2_json_seeds():
    facts = struct.pack(">QB", 8 * MIB, 1)
    for name, header in JSONS.items():
        yield name, facts + json.dumps(header).encode()
    yield "foreign", struct.pack(">QBH", 8 * MIB, 0, 4096) + json.dumps(luks2_json()).encode()
    yield "detached", struct.pack(">QBH", 8 * MIB, 0, 0) + json.dumps(luks2_json()).encode()
    yield "small", struct.pack(">QB", MIB, 1) + json.dumps(luks2_json()).encode()
    for name, text in ("list", "[]"), ("cut", '{"segments":'), ("deep", "[" * 5000), ("nothing", ""):
        yield name, facts + text.encode()


def luks1(cipher=b"aes", mode=b"xts-plain64", payload=2048, key_bytes=64, iterations=1000, digest=1000,
          stripes=4000, slot_offset=8, active=0x00AC71F3, version=1, size=b"\x20"):
    header = bytearray(1024)
    struct.pack_into(">6sH32s32s32sII20s32sI40s", header, 0, b"LUKS\xba\xbe", version, cipher, mode, b"sha256",
                     payload, key_bytes, bytes(20), bytes(32), digest, b"12345678-1234-1234-1234-123456789abc")
    for slot in range(8):
        struct.pack_into(">II32sII", header, 208 + 48 * slot, active if slot == 0 else 0x0000DEAD, iterations,
                         bytes(32), slot_offset + slot * (504 if key_bytes > 32 else 256), stripes)
    return bytes(header) + size


def luks1_seeds():
    yield "plain", luks1(payload=8192, size=b"\x80")
    yield "cbc", luks1(mode=b"cbc-essiv:sha256", key_bytes=32, payload=4096, size=b"\x80")
    yield "ecb", luks1(mode=b"ecb", key_bytes=32, payload=4096, size=b"\x80")
    yield "null", luks1(cipher=b"cipher_null", mode=b"ecb", key_bytes=32, payload=4096, size=b"\x80")
    yield "short", luks1(payload=8192, size=b"\x01")
    yield "inside", luks1(payload=16, size=b"\x80")
    yield "far", luks1(payload=2 ** 32 - 1, size=b"\x80")
    yield "iterations", luks1(payload=8192, iterations=2 ** 32 - 1, size=b"\x80")
    yield "digest", luks1(payload=8192, digest=2 ** 32 - 1, size=b"\x80")
    yield "stripes", luks1(payload=8192, stripes=2 ** 31, size=b"\x80")
    yield "offset", luks1(payload=8192, slot_offset=2 ** 31, size=b"\x80")
    yield "unused", luks1(payload=8192, active=0x0000DEAD, size=b"\x80")
    yield "version", luks1(payload=8192, version=3, size=b"\x80")
    yield "name", luks1(cipher=b"\x1b[2J" * 8, payload=8192, size=b"\x80")
    yield "noise", bytes(range(256)) * 4
    yield "nothing", b""


def options_seeds():
    texts = {
        0: ["0", "1", "512M", "7k", "9223372036854775807", "9223372036854775808", "8388608T", "8388607T",
            "18446744073709551616", "-1", "+1", " 1", "1 ", "K", "0777", "1000", "1.5K", "12KK", ""],
        1: ["ro,allow_other", "rw,allow_root,uid=0,gid=0,umask=077", "key-file=/a\\,b,key-slot=3",
            "max-read-size=4K,max_write_size=0,workers=2,log-level=debug", "nofail,x-systemd.automount,_netdev",
            "remount", "allow_other,allow_root", "uid=root,gid=root", "uid=nobody-such", "engine=,", "=", ",,,",
            "require-cipher=aes-xts-plain64,uuid=1-2,allow-costly-kdf", "umask=1000", "foreground,readonly"],
        2: ["/etc/key", "/a,b\\c,d", "=", ",", "\\", ""],
        3: ["mount\nc.img\n/mnt\n-r\n--key-file\nk\n-o\nallow_other", "umount\n-l\na\n[b,c]", "status\n--json",
            "create\nc.img\n--size\n1G\n--cipher\naes-xts-plain64", "info\nc.img\n--json", "engines", "--version",
            "mount\n--help", "mount\na\nb\nc", "mount\n-o\n-o\n-o", "--\nmount", "", "mount\n--max-read-size=9T\na\nb"],
        4: ["/c.img\n/mnt\n-o\nro,noauto", "/c.img\n/mnt\n-sfnv", "/c.img\n/mnt\n-N\n/proc/1/ns/mnt\n-t\nfuse.cryptimg",
            "-o", "a", "a\nb\n-x", "--help"],
    }
    for mode, some in texts.items():
        for number, text in enumerate(some):
            yield f"{mode}-{number}", bytes([mode]) + text.encode()


def passphrase_seeds():
    yield "line", b"correct horse\nand more\n"
    yield "whole", b"no newline"
    yield "empty", b""
    yield "newline", b"\n"
    yield "zeros", b"\0\0\n\0"
    yield "page", b"k" * 4096
    yield "more", b"k" * 8191 + b"\n" + b"k" * 100


def control_seeds():
    for number, request in enumerate([
            '{"command":"status"}', '{"command":"set","max_read_size":65536,"max_write_size":0}',
            '{"command":"set","max_read_size":-1}', '{"command":"set","max_read_size":4294967296}',
            '{"command":"set","max_read_size":1.5}', '{"command":"set","max_write_size":7}', '{"command":"set"}',
            '{"command":"wait-end"}', '{"command":"lock","hold":true}', '{"command":"unlock"}', '{"command":"fly"}', '{"command":7}', "[]", "{", "", "\n", '"status"',
            '{"container":"/c","mountpoint":"/m","read_only":true}', '{"container":1,"mountpoint":"/m"}',
            '{"command":"status"}\n{"command":"status"}', "[" * 2000, '{"command":"\\ud800"}']):
        yield str(number), request.encode()
    yield "binary", bytes(range(256))


def extent_seeds():
    for number, (shift, offset, length, chunk, at, run, size) in enumerate([
            (0, 0, 1, 0, 0, 0, 0), (0, 511, 2, 0, 1, 2, 3), (3, 4095, 65535, 255, 2 ** 64 - 1, 1, 2 ** 64 - 1),
            (1, 21845, 4096, 3, 2 ** 63, 2 ** 63, 2 ** 64 - 1), (2, 1000, 30000, 7, 0, 2 ** 64 - 1, 2 ** 64 - 1)]):
        yield str(number), struct.pack(">BHHBQQQ", shift, offset, length, chunk, at, run, size)


def text_seeds():
    for number, text in enumerate([
            b"plain", "\u00e9\u20ac\U0001f600".encode(), b"\x1b[31mred\x1b[0m", b"\xc0\xaf", b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xe2\x80\xae", b"\xe2\x81\xa8x\xe2\x81\xa9", b"\x7f\x80\x9f",
            b"\xc2\x85\xc2\xa0", b"\xe2\x80", b"", b"\0", b"a\nb\tc", "\u2028\u2029".encode(), b"x" * 5000]):
        yield str(number), text


def mount_table_seeds():
    line = b"70 23 0:52 / /mnt/a\\040b rw,nosuid shared:9 - fuse.cryptimg /srv/c\\012.img rw,user_id=7\n"
    yield "ours", line
    yield "others", b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + line + b"30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    yield "dash", b"70 23 0:52 / /m rw - - fuse.cryptimg\n"
    yield "short", b"70 23 0:52"
    yield "octal", b"70 23 0:52 / /m\\4 rw - fuse.cryptimg \\777\\08 ro\n"
    yield "numbers", b"-1 99999999999999999999 4294967296:-1 / /m rw - fuse.cryptimg /c rw,user_id=-1\n"
    yield "cgroup", b"0::/a/b\n4:memory:/x\n37 25 0:32 /x /cg rw - cgroup cgroup rw,memory\n"
    yield "names", b"srv/c d\\.img\nmnt\t\n"
    yield "nothing", b""


def main():
    makers = {name[:-len("_seeds")]: maker for name, maker in globals().items() if name.endswith("_seeds")}
    for target, maker in makers.items():
        folder = os.path.join(sys.argv[1], target)
        os.makedirs(folder, exist_ok=True)
        for name, content in maker():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)


main()
