#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The first process of the guest that uml.sh or qemu.sh boots. It starts on the host's file system, mounted
# read-only, with these from the kernel's command line in the environment:
#   guest_out       the folder of the host that is to be /out
#   guest_modules   the folder of the host that holds the kernel's modules (uml.sh: Debian's own)
#   guest_type      the type of the file system that brings it: hostfs (uml.sh, the default) or 9p
# It puts a writable layer over the host's files, makes it the root (so that the kernel's own calls of
# modprobe see it too), runs the script, and leaves its exit status. Where a step fails it ends, which is the
# kernel's end.
set -eu
: "${guest_out:?}"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
modules=${guest_modules:-/usr/lib/uml/modules}

mount -t proc proc /proc
mount -t tmpfs tmpfs /mnt
mkdir -p /mnt/early/lib /mnt/written /mnt/work /mnt/root
ln -s "$modules" /mnt/early/lib/modules
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
mount --bind "$modules" /lib/modules
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir /run/cryptsetup
case ${guest_type:-hostfs} in
  9p) mount -t 9p -o trans=virtio,version=9p2000.L,msize=1048576 guest_out /out ;;
  *) mount -t hostfs -o "$guest_out" none /out ;;
esac
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
