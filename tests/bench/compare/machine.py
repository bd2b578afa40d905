# SPDX-License-Identifier: GPL-3.0-or-later
"""What the figures were measured on and with."""

import os
import platform
import re
import subprocess
from pathlib import Path

from .peers import PEERS
from .servers import run

FLAGS = ("aes", "vaes", "vpclmulqdq", "avx2", "avx512f")


def cpu():
    model, flags = platform.machine(), ""
    for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            model = value.strip()
        if name.strip() in ("flags", "Features"):
            flags = value.split()
    return model, [flag for flag in FLAGS if flag in flags]


def memory_bytes():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def distribution():
    for line in Path("/etc/os-release").read_text(errors="replace").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.split("=", 1)[1].strip('"')
    return "unknown"


def file_system(folder):
    done = subprocess.run(["df", "--output=fstype", str(folder)], capture_output=True, text=True,
                          check=False, timeout=20)
    lines = done.stdout.split()
    return lines[-1] if lines else "unknown"


def kernel():
    """Its version, without what its builder added."""
    return re.match(r"[0-9.]*", platform.release()).group().rstrip(".")


def library(name):
    done = subprocess.run(["pkg-config", "--modversion", name], capture_output=True, text=True,
                          check=False, timeout=20)
    return done.stdout.strip() or "unknown"


def describe(site, folders):
    model, flags = cpu()
    return {
        "cpu": model, "cpu_flags": flags, "cores": os.cpu_count(), "memory": memory_bytes(),
        "kernel": kernel(), "distribution": distribution(),
        "load_before": os.getloadavg()[0],
        "libfuse": library("fuse3"), "openssl": library("libcrypto"),
        "cryptimg": run([site.cryptimg, "--version"]).stdout.splitlines()[0],
        "session_threads": site.session_threads,
        "file_systems": {place: file_system(folder) for place, folder in folders.items()},
    }


def peers(absent):
    """What each peer is, or why it is not there."""
    return {name: {"absent": absent[name]} if name in absent else {"what": peer.what()}
            for name, peer in PEERS.items()}
