#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The disk fails under a mounted container (dm-error and dm-flakey in the guest), as a block device and
# as a file on ext4: EIO for what is touched, a flush stays failed, the daemon lives, umount works and
# says so; when the disk is back, the next mount and dm-crypt find what had been flushed.
. "$(dirname "$0")/lib.sh"
require_guest
require mkfs.ext4
run_guest device-error
