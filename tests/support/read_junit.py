#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints one line per test of a report by `ctest --output-junit`: STATUS, NAME and REASON, by tabs.

STATUS is passed, skipped or failed. A test that could not be run counts as failed; a skipped one's
reason is what it printed after "SKIP:" (scripts) or in its last line before the summary (gtest).
"""
import re
import sys
import xml.etree.ElementTree as tree


def reason_of(output):
    lines = [line.strip() for line in output.splitlines()]
    for line in lines:
        if line.startswith("SKIP:"):
            return line[len("SKIP:"):].strip()
    for line, following in zip(lines, lines[1:]):
        if line.endswith(": Skipped"):
            return following
    return "no reason given"


with open(sys.argv[1], encoding="utf-8", errors="replace") as report:
    # A test may print what XML does not allow.
    text = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f]", "?", report.read())

for case in tree.fromstring(text).iter("testcase"):
    status, reason = "failed", ""
    skipped = case.find("skipped")
    if case.get("status") == "run":
        status = "passed"
    elif case.get("status") == "notrun" and skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        status, reason = "skipped", reason_of(case.findtext("system-out") or "")
    print(status, case.get("name"), reason.replace("\t", " "), sep="\t")
