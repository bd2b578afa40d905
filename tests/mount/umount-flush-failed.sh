#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A daemon's word that its last flush failed is exit 4, naming the mount: several may be unmounted at
# once. The daemon is asked by a socket with the mount's number, so another can stand in for it.
. "$(dirname "$0")/lib.sh"
require python3
require_fuse

cat >"$work/stand-in" <<'PYTHON'
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind("\0cryptimg-" + sys.argv[1] + "-0")  # sorts before the daemon's own
listener.listen()
open(sys.argv[2], "w").close()
client = listener.accept()[0]
client.recv(4096)
client.sendall(b'{"flush":"failed","errno":5,"message":"no luck"}\n')
PYTHON

mkdir "$work/other"
make_container "$work/a.img" 256K
make_container "$work/b.img" 256K
mount_image "$work/a.img"
mount_image "$work/b.img" "$work/other"
number=$(awk -v path="$mnt" '$5 == path { print $3 }' /proc/self/mountinfo)
timeout 60 python3 "$work/stand-in" "${number/:/-}" "$work/listening" &
eventually test -e "$work/listening"
expect_error 4 "$CRYPTIMG" umount "$work/other" "$mnt"
expect_said "the last flush of $mnt failed"
expect_said "no luck"
wait
not_mounted && not_mounted "$work/other" || fail "not unmounted"
