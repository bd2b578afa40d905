#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The first process of the guest that uml.sh boots. The kernel starts it on the host's file system,
# mounted read-only, with guest_out from its command line in the environment. It puts a writable
# layer over that, makes it the root (so that the kernel's own calls of modprobe see it too), runs
# the script, and leaves its exit status. Where a step fails it ends, which is the kernel's end.
set -eu
: "${guest_out:?}"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
modules=/usr/lib/uml/modules

mount -t proc proc /proc
mount -t tmpfs tmpfs /mnt
mkdir -p /mnt/early/lib /mnt/written /mnt/work /mnt/root
ln -s $modules /mnt/early/lib/modules
modprobe -d /mnt/early overlay
mount -t overlay -o lowerdir=/,upperdir=/mnt/written,workdir=/mnt/work overlay /mnt/root
cd /mnt/root
pivot_root . mnt
cd /
umount -l /mnt

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /out /lib/modules
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir /run/cryptsetup
mount --bind $modules /lib/modules
mount -t hostfs -o "$guest_out" none /out
modprobe -a fuse loop dm-crypt

# No udev runs here; device-mapper's tools make the nodes themselves.
export DM_DISABLE_UDEV=1

status=0
bash /out/.script </dev/null || status=$?

sync
echo "$status" >/out/.status
umount /out || umount -l /out
sync
echo o >/proc/sysrq-trigger
sleep 60
