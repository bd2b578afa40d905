# SPDX-License-Identifier: GPL-3.0-or-later
"""Two charts by gnuplot, as SVG: every row against plain, and the sweep of the chunk sizes."""

import shutil
import subprocess
from statistics import median

from .peers import PEERS

STYLE = """set terminal svg size {width},{height} font 'sans,11' background 'white'
set border 3
set tics nomirror
set grid ytics lc rgb '#dddddd' lt 1
set key {key}
"""
COLOURS = {"cryptimg": "#1f77b4", "plain": "#888888", "null": "#cccccc", "qemu": "#d62728",
           "nbdfuse": "#ff7f0e", "gocryptfs": "#2ca02c"}


def plot(commands):
    done = subprocess.run(["gnuplot"], input=commands, text=True, capture_output=True, timeout=60,
                          check=False)
    if done.returncode != 0 or done.stderr.strip():
        raise ValueError(f"gnuplot: {done.stderr.strip()}")


def block(name, lines):
    return f"${name} << END\n" + "\n".join(lines) + "\nEND\n"


def draw_rows(result, path):
    rows = [row for row in result["rows"] if row["section"] == "main" and "plain" in row["runs"]]
    if not rows:
        return False
    labels = [label for label in ("cryptimg", "null", *PEERS)
              if any(label in row["runs"] for row in rows)]
    lines = []
    for row in rows:
        base = median(row["runs"]["plain"])
        cells = [f"{median(row['runs'][label]) / base:.4f}" if label in row["runs"] else "NaN"
                 for label in labels]
        lines.append(f'"{row["title"]}" ' + " ".join(cells))
    commands = STYLE.format(width=860, height=420, key="outside top horizontal center")
    commands += f"set output '{path}'\n" + block("rows", lines)
    commands += """set style data histograms
set style histogram clustered gap 1
set style fill solid border -1
set boxwidth 0.9
set logscale y 2
set ylabel 'times the plain server'
set xtics rotate by -35 scale 0
set bmargin 8
set arrow from graph 0, first 1 to graph 1, first 1 nohead lc rgb '#444444'
"""
    plots = [f"$rows using {index + 2}:xtic(1) title '{label}' lc rgb '{COLOURS[label]}'"
             for index, label in enumerate(labels)]
    plot(commands + "plot " + ", ".join(plots) + "\n")
    return True


def draw_sweep(result, path):
    rows = [row for row in result["rows"] if row["section"] == "sweep"]
    if not rows:
        return False
    commands = STYLE.format(width=520, height=300, key="bottom right")
    commands += f"set output '{path}'\n"
    plots = []
    for index, row in enumerate(rows):
        lines = [f"{label.split()[-1].rstrip('K')} {median(runs) / 1e9:.4f}"
                 for label, runs in row["runs"].items()]
        commands += block(f"sweep{index}", lines)
        name = "max_read_size" if "read" in row["name"] else "max_write_size"
        plots.append(f"$sweep{index} using 1:2 with linespoints pt 7 title '{name}'")
    commands += """set logscale x 2
set yrange [0:*]
set xlabel 'KiB'
set ylabel 'GB/s, dd 1M direct'
"""
    plot(commands + "plot " + ", ".join(plots) + "\n")
    return True


def draw(result, folder):
    """[(file name, description)] of what was drawn; nothing without gnuplot."""
    if shutil.which("gnuplot") is None:
        return []
    wanted = (("bench-rows.svg", "Every row as a multiple of the plain server", draw_rows),
              ("bench-sweep.svg", "Throughput by max_read_size and max_write_size", draw_sweep))
    drawn = []
    for name, text, function in wanted:
        (folder / name).unlink(missing_ok=True)
        if function(result, folder / name):
            drawn.append((name, text))
    return drawn
