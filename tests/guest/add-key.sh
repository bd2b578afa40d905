#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A key that cryptsetup adds to a mounted container opens it for dm-crypt, with what was written
# before and after.
. "$(dirname "$0")/lib.sh"
require_guest
run_guest add-key
