#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A file system in the image, on a loop device in the guest, with and without direct I/O: dm-crypt
# finds the same files in the container, and the mount finds what is then written by dm-crypt.
. "$(dirname "$0")/lib.sh"
require_guest
require mkfs.ext4 e2fsck
run_guest loop-ext4
