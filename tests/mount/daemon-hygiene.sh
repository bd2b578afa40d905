#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The janitor holds neither the container nor /dev/fuse; nothing of the key is in the command line;
# the daemon keeps no terminal, no working folder and no descriptor of its caller.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse
require_root

make_container "$work/c.img" 256K
# A descriptor of the caller's, which would keep a pipe from coming to its end.
mkfifo "$work/fifo"
exec 9<>"$work/fifo"
mount_image "$work/c.img"
for pid in $(our_daemons); do
  held=$(find "/proc/$pid/fd" -type l -printf '%l\n')
  case $held in *"$work/fifo"*) fail "process $pid keeps the caller's descriptor: $held" ;; esac
done
exec 9>&-
daemon=$(daemon_of)
for pid in $(our_daemons); do
  [ "$pid" != "$daemon" ] || continue
  held=$(find "/proc/$pid/fd" -type l -printf '%l\n')
  case $held in *c.img* | *dev/fuse*) fail "the janitor holds: $held" ;; esac
done
[ "$(our_daemons | wc -l)" = 2 ] || fail "not one daemon and one janitor: $(our_daemons | tr '\n' ' ')"
[ "$(readlink "/proc/$daemon/cwd")" = / ] || fail "the daemon keeps $(readlink "/proc/$daemon/cwd")"
for fd in 0 1 2; do
  [ "$(readlink "/proc/$daemon/fd/$fd")" = /dev/null ] || fail "descriptor $fd is $(readlink "/proc/$daemon/fd/$fd")"
done
umount_image
[ -z "$(our_daemons)" ] || fail "umount returned before the daemon and its janitor were gone"
