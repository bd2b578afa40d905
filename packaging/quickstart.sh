#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# From a fresh checkout to a mounted container: installs packages, builds, makes a demo container in
# a temporary folder, mounts it, writes and reads it with dd, and unmounts.
#   packaging/quickstart.sh [--keep]     --keep leaves the demo folder, and says where
set -euo pipefail

keep=no
case "$#:${1:-}" in
  0:) ;;
  1:--keep) keep=yes ;;
  *)
    echo "usage: $0 [--keep]" >&2
    exit 1
    ;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)
cryptimg=$root/build/release/fuse/cryptimg
demo=""
mounted=no

cleanup() {
  local code=$?
  trap - EXIT
  if [ "$mounted" = yes ]; then
    "$cryptimg" umount "$demo/mnt" || "$cryptimg" umount --lazy "$demo/mnt" || true
  fi
  if [ -n "$demo" ]; then
    if [ "$keep" = yes ]; then
      echo "The demo stays in $demo (container.img, key); remove it when done."
    else
      rm -rf --one-file-system "$demo"
    fi
  fi
  exit "$code"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

say() { printf '\n== %s\n' "$*"; }
run() {
  printf '$ %s\n' "$*"
  "$@" 2>&1
}

say "Packages"
"$root/packaging/install-packages.sh"
echo "all present"

# Before minutes go into building.
if ! [ -r /dev/fuse ] || ! [ -w /dev/fuse ]; then
  if [ -e /dev/fuse ]; then
    echo "quickstart: /dev/fuse is not yours to open, so nothing can be mounted; as root: chmod 666 /dev/fuse" >&2
  else
    echo "quickstart: /dev/fuse is missing, so nothing can be mounted; as root: modprobe fuse" >&2
    echo "(in a container, start it with the device, as in docker run --device /dev/fuse --cap-add SYS_ADMIN)" >&2
  fi
  exit 1
fi

say "Build (build/release)"
cd "$root"
cmake --preset release >/dev/null
cmake --build --preset release

demo=$(mktemp -d "${TMPDIR:-/tmp}/cryptimg-demo.XXXXXX")
(umask 077 && head -c 32 /dev/urandom >"$demo/key")
mkdir "$demo/mnt"

say "A container whose image is 256 MiB, opened by a random key file"
run "$cryptimg" create "$demo/container.img" --size 256M --key-file "$demo/key" --iter-time 500
run "$cryptimg" mount "$demo/container.img" "$demo/mnt" --key-file "$demo/key"
mounted=yes
run ls -l "$demo/mnt/image"

say "Write 256 MiB, then read it back (direct I/O)"
run dd if=/dev/zero of="$demo/mnt/image" bs=1M count=256 oflag=direct conv=notrunc,fsync
run dd if="$demo/mnt/image" of=/dev/null bs=1M iflag=direct

say "Status"
run "$cryptimg" status "$demo/mnt"

say "Unmount"
run "$cryptimg" umount "$demo/mnt"
mounted=no

if PATH=$PATH:/sbin:/usr/sbin command -v cryptsetup >/dev/null; then
  say "cryptsetup opens the same container"
  PATH=$PATH:/sbin:/usr/sbin run cryptsetup open --test-passphrase --key-file "$demo/key" "$demo/container.img"
  echo "it does"
fi

say "Done"
cat <<END
The program is $cryptimg
To install it, with its manual page and shell completion:
  sudo cmake --install $root/build/release
Then, with a passphrase of your own:
  cryptimg create container.img --size 1G
  mkdir -p ~/mnt && cryptimg mount container.img ~/mnt
  ls -l ~/mnt/image
  cryptimg umount ~/mnt
END
