#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Engine afalg over the kernel's own sockets, by drivers with ecb, cbc or xts only: what dm-crypt
# wrote is read and the reverse, and the counters show that the driver did it.
. "$(dirname "$0")/lib.sh"
require_guest
require jq
run_guest afalg
