# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables and verdicts of what tests/guest/inside/tables.sh measured; see guest_tables.sh."""

import re
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

from compare.charts import STYLE, block, plot

BEGIN = "<!-- guest: begin, written by tests/bench/guest_tables.sh --report -->"
END = "<!-- guest: end -->"
CBC, XTS = "aes-cbc-essiv:sha256", "aes-xts-plain64"
CIPHERS = {CBC: "aes-cbc-essiv:sha256, 512-byte sectors", XTS: "aes-xts-plain64, 4096-byte sectors"}
SERVERS = ("auto", "openssl", "afalg", "afalg-by-sector", "dm-crypt")
MIB = 1 << 20


class Figures:
    def __init__(self, text):
        self.engines = {}  # (engine, cipher, direction, threads, bytes): (rate, load)
        runs = defaultdict(list)  # (cipher, row, server): [(rate, load, operations per MiB)]
        for line in text.splitlines():
            kind, *words = line.split()
            if kind == "engine":
                engine, cipher, _, direction, threads, size, rate, load = words
                self.engines[engine, cipher, direction, int(threads), int(size)] = float(rate), float(load)
            else:
                cipher, row, server, rate, load, operations, mib = words
                runs[cipher, row, server].append((float(rate), float(load), int(operations) / int(mib)))
        self.runs = {key: tuple(median(run[i] for run in turns) for i in range(3)) for key, turns in runs.items()}
        self.turns = max(len(turns) for turns in runs.values())

    def rate(self, cipher, row, server):
        return self.runs[cipher, row, server][0]

    def cost(self, cipher, row, server):
        """Milliseconds of CPU for a MiB."""
        rate, load, _ = self.runs[cipher, row, server]
        return load * 1000 * MIB / rate


def goals(figures):
    """(what, at least, reached)."""
    ratio = lambda cipher, row, ours, theirs: figures.rate(cipher, row, ours) / figures.rate(cipher, row, theirs)
    found = [
        ("read-512k, cbc: one operation an extent against one a sector", 10,
         ratio(CBC, "read-512k", "afalg", "afalg-by-sector")),
        ("fio 16k, depth 32, cbc: coalescing against one operation a sector", 2.24,
         ratio(CBC, "fio-16k-depth-32", "afalg", "afalg-by-sector")),
        ("the same in memory: 256 KiB at once against 16 KiB by sector", 2.24,
         figures.engines["afalg", CBC, "read", 1, 262144][0]
         / figures.engines["afalg-by-sector", CBC, "read", 1, 16384][0]),
    ]
    for cipher, name in ((CBC, "cbc"), (XTS, "xts")):
        found.append((f"read-512k, {name}: auto against openssl", 2, ratio(cipher, "read-512k", "auto", "openssl")))
    for cipher, name in ((CBC, "cbc"), (XTS, "xts")):
        found.append((f"read-512k, {name}: auto against dm-crypt", 2, ratio(cipher, "read-512k", "auto", "dm-crypt")))
    for cipher, name in ((CBC, "cbc"), (XTS, "xts")):
        worst, row = min((figures.rate(cipher, row, "auto")
                          / max(figures.rate(cipher, row, "openssl"), figures.rate(cipher, row, "afalg")), row)
                         for (of, row, server) in figures.runs
                         if of == cipher and server == "openssl")
        found.append((f"{name}: auto against the best fixed engine, worst row ({row})", 0.95, worst))
    for cipher, name in ((CBC, "cbc"), (XTS, "xts")):
        found.append((f"read-512k, {name}: CPU time of openssl against hardware", 1,
                      figures.cost(cipher, "read-512k", "openssl") / figures.cost(cipher, "read-512k", "afalg")))
    return found


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def goal_table(figures):
    rows = [(what, f"{least:g}", f"{got:.2f}", "reached" if got >= least else "MISSED")
            for what, least, got in goals(figures)]
    return table(("goal", "at least", "measured", ""), rows)


def engine_table(figures, cipher, direction):
    columns = [(engine, threads) for engine in ("afalg", "openssl") for threads in (1, 4)]
    rows = []
    for size in sorted({key[4] for key in figures.engines if key[1] == cipher}):
        cells = []
        for engine, threads in columns:
            got = figures.engines.get((engine, cipher, direction, threads, size))
            cells.append(f"{got[0] / MIB:.1f} ({got[1]:.2f})" if got else "-")
        rows.append((f"{size / 1024:g} KiB", *cells))
    names = {"afalg": "hardware", "openssl": "software"}
    return table(("size", *(f"{names[engine]}, {threads} at once" for engine, threads in columns)), rows)


def run_table(figures, cipher):
    rows = []
    for row in dict.fromkeys(row for of, row, _ in figures.runs if of == cipher):
        cells = []
        for server in SERVERS:
            got = figures.runs.get((cipher, row, server))
            if not got:
                cells.append("-")
                continue
            cells.append(f"{got[0] / MIB:.1f} ({figures.cost(cipher, row, server):.0f} ms, {got[2]:.0f})"
                         if server != "dm-crypt" else
                         f"{got[0] / MIB:.1f} ({figures.cost(cipher, row, server):.0f} ms)")
        rows.append((row, *cells))
    return table(("work", *SERVERS), rows)


def report(figures):
    lines = ["### Goals", "", *goal_table(figures)]
    for cipher, title in CIPHERS.items():
        lines += [f"### Through the mount: {title}", "",
                  "MiB/s (CPU time for a MiB, operations of the device for a MiB).", "", *run_table(figures, cipher)]
    for cipher, title in CIPHERS.items():
        for direction in ("read", "write"):
            lines += [f"### Engines in memory, {direction}: {title}", "",
                      "MiB/s (CPUs busy, of two).", "", *engine_table(figures, cipher, direction)]
    return lines


def draw(figures, path):
    sizes = sorted({key[4] for key in figures.engines})
    lines = []
    for size in sizes:
        cells = []
        for engine, cipher, direction in (("afalg", CBC, "read"), ("afalg", XTS, "read"), ("afalg", CBC, "write"),
                                          ("openssl", CBC, "read")):
            got = figures.engines.get((engine, cipher, direction, 1, size))
            cells += [f"{got[0] / MIB:.4f}", f"{got[1]:.3f}"] if got else ["NaN", "NaN"]
        lines.append(f"{size} " + " ".join(cells))
    commands = STYLE.format(width=860, height=640, key="left top") + f"set output '{path}'\n" + block("rates", lines)
    commands += """set logscale x 2
set format x '%.0b %B'
set xtics format '%b'
set xlabel 'bytes at once'
set multiplot layout 2,1
set ylabel 'MiB/s'
plot $rates using 1:2 with linespoints title 'hardware, cbc read', \\
  $rates using 1:4 with linespoints title 'hardware, xts read', \\
  $rates using 1:6 with linespoints title 'hardware, cbc write', \\
  $rates using 1:8 with linespoints title 'software, cbc read'
set ylabel 'CPUs busy'
set yrange [0:2]
plot $rates using 1:3 with linespoints title 'hardware, cbc read', \\
  $rates using 1:5 with linespoints title 'hardware, xts read', \\
  $rates using 1:7 with linespoints title 'hardware, cbc write', \\
  $rates using 1:9 with linespoints title 'software, cbc read'
unset multiplot
"""
    commands = commands.replace("set format x '%.0b %B'\nset xtics format '%b'\n", "")
    plot(commands)


def write_docs(figures, docs):
    draw(figures, docs / "bench-guest.svg")
    page = docs / "benchmarks.md"
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    lines = [BEGIN, "", f"Measured {date} by `guest_tables.sh`: " + ("one turn." if figures.turns == 1 else
             f"medians of {figures.turns} turns."), "",
             "![Engines by size](bench-guest.svg)", "", *report(figures), END]
    text = page.read_text()
    if BEGIN not in text:
        raise ValueError(f"{page} has no place for the result")
    page.write_text(re.sub(re.escape(BEGIN) + ".*" + re.escape(END), lambda _: "\n".join(lines), text, flags=re.S))


def main():
    docs, source, *words = sys.argv[1:]
    figures = Figures(Path(source).read_text())
    print("\n".join(report(figures)))
    if "--report" in words:
        write_docs(figures, Path(docs))
    missed = any(got < least for _, least, got in goals(figures))
    return 1 if missed and "--check" in words else 0


if __name__ == "__main__":
    sys.exit(main())
