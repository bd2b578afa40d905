# SPDX-License-Identifier: GPL-3.0-or-later
"""Other programs that serve a decrypted file through FUSE. Each is a word where it is not there."""

import os
import shutil
import subprocess
from pathlib import Path

from .servers import Absent, Cryptimg, Daemon, Failure, fill, run


def need(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            raise Absent(f"{tool} is not installed")


def version(command):
    words = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=20, check=False)
    lines = (words.stdout or words.stderr).strip().splitlines()
    return lines[0] if lines else command[0]


class Luks1Peer(Daemon):
    """Serves a LUKS1 container (aes-xts-plain64, 512-bit key, 512-byte sectors) that cryptimg made."""

    def prepare(self):
        if not self.backing.exists():
            maker = Cryptimg(self.site, self.backing.parent, self.name, self.size_bytes,
                             create=["--type", "luks1"])
            maker.prepare()


class Qemu(Luks1Peer):
    def prepare(self):
        need("qemu-storage-daemon")
        if "FUSE" not in run(["qemu-storage-daemon", "--help"]).stdout:
            raise Absent("qemu-storage-daemon has no FUSE export")
        super().prepare()
        self.image.touch()

    def mounted_path(self):
        return self.image

    def command(self):
        return ["qemu-storage-daemon",
                "--object", f"secret,id=key,format=raw,file={self.site.key}",
                "--blockdev", f"driver=file,node-name=file,filename={self.backing}",
                "--blockdev", "driver=luks,node-name=luks,file=file,key-secret=key",
                "--export", f"type=fuse,id=export,node-name=luks,mountpoint={self.image},writable=on"]

    def unmount(self):
        # Its export is also gone when it ends, and it does not end when it is unmounted.
        self.process.terminate()
        super().unmount()

    @staticmethod
    def what():
        return version(["qemu-storage-daemon", "--version"])


class Nbdfuse(Luks1Peer):
    def prepare(self):
        need("nbdfuse", "nbdkit")
        try:
            run(["nbdkit", "--filter=luks", "null", "--version"])
        except Failure:
            raise Absent("nbdkit has no luks filter") from None
        super().prepare()

    def command(self):
        return ["nbdfuse", str(self.image), "[", "nbdkit", "--exit-with-parent", "--filter=luks",
                "file", str(self.backing), f"passphrase=+{self.site.key}", "]"]

    @staticmethod
    def what():
        return version(["nbdkit", "--version"]) + ", " + version(["nbdfuse", "--version"])


class Gocryptfs(Daemon):
    """A folder of encrypted files; one file in it is the image."""

    def prepare(self):
        need("gocryptfs")
        self.backing = Path(f"{self.mountpoint}.dir")
        if self.backing.exists():
            return
        self.backing.mkdir()
        run(["gocryptfs", "-q", "-init", "-scryptn", "10", "-passfile", str(self.site.key),
             str(self.backing)])
        self.image, image = self.mountpoint, self.image  # ready as soon as it is mounted
        self.mount()
        self.image = image
        fill(self.image, self.size_bytes)
        self.unmount()

    def command(self):
        return ["gocryptfs", "-q", "-fg", "-passfile", str(self.site.key), str(self.backing),
                str(self.mountpoint)]

    @staticmethod
    def what():
        return version(["gocryptfs", "--version"])


PEERS = {"qemu": Qemu, "nbdfuse": Nbdfuse, "gocryptfs": Gocryptfs}


def backing_files(server):
    """The files whose pages are what the server reads from."""
    if os.path.isdir(server.backing):
        return [path for path in Path(server.backing).rglob("*") if path.is_file()]
    return [server.backing]
