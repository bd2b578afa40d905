#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Installs the Debian packages cryptimg needs. The one list of them.
#   install-packages.sh          what building and running takes
#   install-packages.sh --test   and what the tests take
#   install-packages.sh --bench  what building and the benchmarks take, with the programs compared with
# Does nothing where all are there. Else installs them as root, by sudo where that works, or prints
# the line to run and exits 1.
set -eu

build_packages="build-essential cmake ninja-build pkg-config
  libfuse3-dev libcryptsetup-dev libssl-dev libsodium-dev libseccomp-dev
  libspdlog-dev libcli11-dev nlohmann-json3-dev libexpected-dev
  fuse3"
test_packages="clang clang-format clang-tidy cryptsetup-bin e2fsprogs fio jq libbenchmark-dev libgtest-dev mount openssl
  passwd python3 qemu-utils strace util-linux xxd xz-utils"
# Second kernels for the tests: User-Mode Linux, which Debian has for these only, and QEMU (65 MB).
case $(dpkg --print-architecture) in
  amd64) test_packages="$test_packages user-mode-linux kmod dmsetup qemu-system-x86 busybox-static cpio" ;;
  i386) test_packages="$test_packages user-mode-linux kmod dmsetup" ;;
esac
bench_packages="fio fuse3 gnuplot-nox gocryptfs libbenchmark-dev libnbd-bin nbdkit python3 qemu-system-common
  util-linux"

packages=$build_packages
case "${1:-}" in
  '') ;;
  --test) packages="$build_packages $test_packages" ;;
  --bench) packages="$build_packages $bench_packages" ;;
  *)
    echo "usage: $0 [--test | --bench]" >&2
    exit 1
    ;;
esac

missing=""
for package in $packages; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || status=""
  [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
missing=${missing# }

install_line="apt-get install -y --no-install-recommends $missing"
echo "Missing packages: $missing" >&2

# shellcheck disable=SC2086  # the list is meant to be split
if [ "$(id -u)" = 0 ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y --no-install-recommends $missing >&2 ||
    { apt-get update >&2 && apt-get install -y --no-install-recommends $missing >&2; }
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
  sudo $install_line >&2 || { sudo apt-get update >&2 && sudo $install_line >&2; }
else
  echo "Run this as root, then try again:" >&2
  echo "  $install_line" >&2
  exit 1
fi || {
  echo "The packages could not be installed. Run this as root, then try again:" >&2
  echo "  $install_line" >&2
  exit 1
}
