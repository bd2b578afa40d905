# SPDX-License-Identifier: GPL-3.0-or-later
"""What is measured: a server mounts one image file. cryptimg, the plain server, and what they share."""

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
CHEAP_KDF = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]
CREATE_OPTIONS = {
    "cryptimg": [],
    "cryptimg-cbc": ["--cipher", "aes-cbc-essiv:sha256"],
}


class Failure(Exception):
    """A server or a tool did not do what it should; the message says what."""


class Absent(Exception):
    """Something that a measurement needs is not on this machine; the message is the word for it."""


def run(command, timeout_s=120):
    """Runs to the end; a failure is a Failure with the command's own words."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout_s, env={**os.environ, "LC_ALL": "C"})
    except subprocess.TimeoutExpired:
        raise Failure(f"{command[0]} did not end within {timeout_s} s") from None
    except OSError as error:
        raise Failure(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise Failure(f"{command[0]} failed: {words[-1] if words else done.returncode}")
    return done


def wait_until(condition, what, timeout_s=30):
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"never came true: {what}")
        time.sleep(0.01)


def is_mounted(path):
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as table:
        return any(line.split(" ")[4] == str(path) for line in table)


def unmount(path):
    """Lazily where it must be, so that nothing is left."""
    for command in (["umount"], ["fusermount3", "-u"], ["umount", "-l"], ["fusermount3", "-uz"]):
        if not is_mounted(path):
            return
        if shutil.which(command[0]):
            subprocess.run([*command, str(path)], stdin=subprocess.DEVNULL, capture_output=True,
                           timeout=60, check=False)


def fill(path, size_bytes):
    """Every byte written, so that nothing measured later is a hole."""
    block = os.urandom(MIB)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        written = 0
        while written < size_bytes:
            written += os.write(fd, block[:size_bytes - written])
        os.fsync(fd)
    finally:
        os.close(fd)


@dataclass
class Site:
    """Where and with what it all happens."""
    cryptimg: str
    plain_server: str
    key: Path
    session_threads: int = 4


class Server:
    """One mount. `image` is the file to measure, `backing` the file (or folder) behind it."""

    def __init__(self, site, folder, name, size_bytes):
        self.site = site
        self.name = name
        self.size_bytes = size_bytes
        self.mountpoint = folder / f"{name}.mnt"
        self.image = self.mountpoint / "image"
        self.backing = folder / f"{name}.img"
        self.is_up = False

    def prepare(self):
        """Makes what is served, once."""

    def start(self):
        if self.is_up:
            return
        self.mountpoint.mkdir(exist_ok=True)
        self.prepare()
        self.mount()
        self.is_up = True

    def mount(self):
        raise NotImplementedError

    def stop(self):
        if self.is_up:
            self.is_up = False
            self.unmount()

    def unmount(self):
        unmount(self.mountpoint)

    def pid(self):
        """The process that serves."""
        raise NotImplementedError


class Daemon(Server):
    """A server that is a process in the foreground."""
    process = None

    def command(self):
        raise NotImplementedError

    def mounted_path(self):
        return self.mountpoint

    def mount(self):
        with open(f"{self.mountpoint}.log", "wb") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log)
        wait_until(self.is_ready, f"{self.name} serves ({self.mountpoint}.log)")

    def pid(self):
        return self.process.pid

    def is_ready(self):
        if self.process.poll() is not None:
            words = Path(f"{self.mountpoint}.log").read_text(errors="replace").strip()
            raise Failure(f"{self.name} ended at once: {words.splitlines()[-1] if words else ''}")
        return is_mounted(self.mounted_path()) and self.image.exists()

    def unmount(self):
        unmount(self.mounted_path())
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Cryptimg(Server):
    def __init__(self, site, folder, name, size_bytes, kind="cryptimg", options=(), create=()):
        super().__init__(site, folder, name, size_bytes)
        self.kind = kind
        self.options = list(options)
        self.create = list(create) or CREATE_OPTIONS[kind]

    def prepare(self):
        if self.backing.exists():
            return
        for option in self.options:
            if option.startswith("--"):
                self.check_option(option)
        run([self.site.cryptimg, "create", str(self.backing), "--size", str(self.size_bytes),
             "--key-file", str(self.site.key), *CHEAP_KDF, *self.create])
        self.mount()
        fill(self.image, self.size_bytes)
        self.unmount()

    def check_option(self, option):
        if option not in run([self.site.cryptimg, "mount", "--help"]).stdout:
            raise Absent(f"this cryptimg has no {option}")

    def mount(self):
        for option in self.options:
            if option.startswith("--"):
                self.check_option(option)
        run([self.site.cryptimg, "mount", "--key-file", str(self.site.key), *self.options,
             str(self.backing), str(self.mountpoint)])

    def status(self):
        text = run([self.site.cryptimg, "status", "--json", str(self.mountpoint)]).stdout
        return json.loads(text)["mounts"][0]

    def pid(self):
        return self.status()["pid"]

    def unmount(self):
        try:
            run([self.site.cryptimg, "umount", str(self.mountpoint)])
        finally:
            unmount(self.mountpoint)


class Plain(Daemon):
    """The plain server, or its null mode. As many session threads as cryptimg has."""

    def __init__(self, site, folder, name, size_bytes, null=False):
        super().__init__(site, folder, name, size_bytes)
        self.null = null

    def prepare(self):
        if self.backing.exists():
            return
        if self.null:
            with open(self.backing, "wb") as file:
                file.truncate(self.size_bytes)
        else:
            fill(self.backing, self.size_bytes)

    def command(self):
        mode = ["--null"] if self.null else []
        return [self.site.plain_server, *mode, "--threads", str(self.site.session_threads),
                str(self.backing), str(self.mountpoint)]


class Raw(Server):
    """No server at all: the file itself."""

    def __init__(self, site, folder, name, size_bytes):
        super().__init__(site, folder, name, size_bytes)
        self.image = self.backing

    def prepare(self):
        if not self.backing.exists():
            fill(self.backing, self.size_bytes)

    def mount(self):
        pass

    def unmount(self):
        pass
