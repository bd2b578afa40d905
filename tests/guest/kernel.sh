#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Fetches what qemu.sh boots, and prints the folder it is in: vmlinuz, version, modules/, and initrd.gz, which
# finds the host's files by 9p and goes on with init.sh there.
#   kernel.sh
# The kernel is the Debian package that linux-image-amd64 depends on, fetched by apt-get download and
# unpacked, not installed, into GUEST_CACHE (~/.cache/cryptimg-guest); from then on it is taken from there.
# Exit 1, with a sentence, where it is not to be had.
set -euo pipefail

no_kernel() {
  echo "kernel.sh: $*" >&2
  exit 1
}

cache=${GUEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/cryptimg-guest}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd -P)
[[ $cache =~ ^[A-Za-z0-9/._+-]+$ ]] || no_kernel "the folder $cache has characters that a guest cannot take"
case $cache/ in /tmp/* | /run/* | /dev/*) no_kernel "the folder $cache is not visible in a guest" ;; esac
# Another run may be at it.
exec 9>>"$cache/lock"
flock 9
new=$cache/new

fetch() {
  local package file
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-/ { print $2; exit }')
  [ -n "$package" ] || no_kernel "apt knows no linux-image-amd64"
  rm -rf "$new"
  mkdir -p "$new/unpacked"
  (cd "$new" && apt-get -qq -o APT::Sandbox::User=root download "$package" >&2) || no_kernel "cannot download $package"
  for file in "$new/$package"_*.deb; do dpkg-deb -x "$file" "$new/unpacked"; done
  mv "$new"/unpacked/boot/vmlinuz-* "$new/vmlinuz"
  mv "$new/unpacked/lib/modules" "$new/modules"
  ls "$new/modules" >"$new/version"
  rm -rf "$new/unpacked" "$new"/*.deb
  # Of the drivers, those a virtual machine has.
  (cd "$new/modules/$(cat "$new/version")/kernel" && rm -rf sound &&
    cd drivers && find . -mindepth 1 -maxdepth 1 ! -name block ! -name char ! -name crypto ! -name md ! -name virtio -exec rm -rf {} +)
}

make_initrd() {
  local version root=$new/initrd module
  version=$(cat "$new/version")
  mkdir -p "$root/bin" "$root/proc" "$root/dev" "$root/host" "$root/modules" "$new/early/lib"
  ln -s ../../modules "$new/early/lib/modules"
  depmod -b "$new/early" "$version"
  cp /bin/busybox "$root/bin/busybox"
  # In the order in which they need each other.
  modprobe -d "$new/early" -S "$version" -a --show-depends virtio_pci 9pnet_virtio 9p |
    awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r module; do
    cp "$module" "$root/modules/"
    echo "insmod /modules/${module##*/}" >>"$root/load"
  done
  cat >"$root/init" <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
. /load
mount -t 9p -o trans=virtio,version=9p2000.L,msize=1048576,cache=loose,ro guest_root /host
exec switch_root /host "$guest_out/.init"
END
  chmod 755 "$root/init"
  (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$new/initrd.gz"
  rm -rf "$root" "$new/early"
}

if [ ! -e "$cache/kernel/initrd.gz" ]; then
  fetch
  make_initrd
  rm -rf "$cache/kernel"
  mv "$new" "$cache/kernel"
fi
echo "$cache/kernel"
