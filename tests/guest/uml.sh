#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Boots a second Linux kernel, runs SCRIPT in it as root, and ends with SCRIPT's exit status.
#   uml.sh SCRIPT OUT_DIR
# The kernel is User-Mode Linux: an ordinary process, at native speed, that needs no privileges and
# no virtualisation. It brings what the host's kernel may lack: device-mapper, loop, FUSE, AF_ALG.
#
# The guest sees this machine's whole file system. What it writes there vanishes with it, except in
# OUT_DIR, which is /out. /tmp and /run are empty: copy to OUT_DIR what the guest needs from there.
# Modules load when they are asked for; modprobe finds the others (dm-flakey, dm-log-writes, ...).
# It has one CPU and no network. What SCRIPT prints, and the kernel, comes out on stdout.
#
# Exit 125: the guest did not finish: it did not boot, it crashed, or it took longer than
# GUEST_TIMEOUT seconds (600). Its memory is a file: in /dev/shm, or in OUT_DIR where that is small.
# Needs the Debian packages user-mode-linux and kmod.
. "$(dirname "$0")/machine.sh"

memory=$out
shm=$(df --output=avail --block-size=1M /dev/shm 2>/dev/null | tail -n 1) || shm=0
if [ "$shm" -ge 2048 ] && [ -w /dev/shm ] && ! grep -qE '^[^ ]+ /dev/shm .*noexec' /proc/mounts; then
  memory=/dev/shm
fi

TMPDIR=$memory run_guest linux.uml \
  mem=512M uml_dir="$out/.uml" root=/dev/root rootfstype=hostfs rootflags=/ ro \
  init="$out/.init" guest_out="$out" selinux=0 quiet con=null con0=null,fd:1
