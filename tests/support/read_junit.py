#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints one line per test of a report by `ctest --output-junit`: STATUS, NAME and REASON, by tabs.

    read_junit.py REPORT SKIPS

STATUS is passed, failed, skipped, or unlisted: skipped, but the list SKIPS (tests/skips.txt) does not
name this test with a part of this reason. Exit 1 if a line of SKIPS is not of that form. A test that could not be run counts as failed; a skipped one's
reason is what it printed after "SKIP:" (scripts) or in its last line before the summary (gtest).
"""
import fnmatch
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


def read_skips(path):
    skips = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            pattern, tab, text = line.partition("\t")
            if not pattern.strip() or not text.strip() or "\t" in text:
                sys.exit(f"{path}:{number}: not a pattern, a tab and a reason")
            skips.append((pattern, text))
    return skips


skips = read_skips(sys.argv[2])
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
        if not any(fnmatch.fnmatchcase(case.get("name"), pattern) and text in reason for pattern, text in skips):
            status = "unlisted"
    print(status, case.get("name"), reason.replace("\t", " "), sep="\t")
