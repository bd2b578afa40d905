# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables for people: on the terminal, and in docs/benchmarks.md between two marks."""

import re
from statistics import median

from . import charts

BEGIN = "<!-- result: begin, written by tests/bench/compare.sh --report -->"
END = "<!-- result: end -->"
SECTIONS = {
    "main": "Direct access", "buffered": "Buffered access", "raw": "Without FUSE", "openssl": "Engine openssl",
    "workers": "One core and all cores", "mounts": "Several mounts, several readers",
    "loaded": "With another client writing", "sweep": "By max_read_size and max_write_size",
    "backing": "Ways of reading the container", "coalesce": "Coalescing", "sandbox": "Sandbox", "memory": "Memory",
}


def shown(figure, unit):
    if unit == "bytes":
        return f"{figure / (1 << 20):.1f} MiB"
    if unit == "IOPS":
        return f"{figure / 1000:.1f} k/s"
    return f"{figure / 1e9:.2f} GB/s" if figure >= 1e9 else f"{figure / 1e6:.0f} MB/s"


def labels_of(rows):
    found = []
    for row in rows:
        found += [label for label in row["runs"] if label not in found]
    return found


def cell(row, label):
    if label not in row["runs"]:
        return "-"
    figure = median(row["runs"][label])
    text = shown(figure, row["unit"])
    first = next(iter(row["runs"]))
    if label != first and figure > 0:
        text += f" ({median(row['runs'][first]) / figure:.2f})"
    return text


def tables(result):
    """(heading, header cells, rows of cells) for each section."""
    for section, heading in SECTIONS.items():
        rows = [row for row in result["rows"] if row["section"] == section and row["runs"]]
        # Rows of one section may have targets of their own; those with the same share a table.
        while rows:
            labels = list(rows[0]["runs"])
            same = [row for row in rows if list(row["runs"]) == labels]
            wide = [row for row in rows if row not in same and set(row["runs"]) & set(labels)]
            if wide:
                same = [row for row in rows if set(row["runs"]) & set(labels)]
                labels = labels_of(same)
            rows = [row for row in rows if row not in same]
            yield heading, ["work", *labels], [
                [row["title"], *(cell(row, label) for label in labels)] for row in same]


def as_text(result):
    lines = ["Medians; in brackets how many times faster the first column is."]
    for heading, header, rows in tables(result):
        widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]
        lines += ["", heading]
        lines += ["  " + "  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip()
                  for line in [header, *rows]]
    for name, facts in result["peers"].items():
        if "absent" in facts:
            lines.append(f"{name}: not measured, {facts['absent']}")
    return "\n".join(lines)


def machine_lines(result):
    machine, settings = result["machine"], result["settings"]
    places = ", ".join(f"{place}: {kind}" for place, kind in machine["file_systems"].items())
    load = machine["load_before"]
    peers = [facts.get("what", f"{name}: {facts.get('absent')}")
             for name, facts in result["peers"].items()]
    lines = [
        f"Measured {result['date']} by `compare.sh --{settings['mode']}`: medians of "
        f"{settings['repetitions']} runs ({settings['peer_repetitions']} for the peers), images of "
        f"{settings['image_bytes'] >> 20} MiB.",
        "",
        f"- {machine['cores']} cores, {machine['cpu']}, with {', '.join(machine['cpu_flags']) or 'no AES'}; "
        f"{machine['memory'] / (1 << 30):.0f} GiB memory",
        f"- {machine['distribution']}, kernel {machine['kernel']}, libfuse {machine['libfuse']}, "
        f"OpenSSL {machine['openssl']}; files on {places}",
        f"- {machine['cryptimg']}, {machine['session_threads']} session threads, engine "
        f"{machine.get('engine', 'auto')}",
        f"- peers: {'; '.join(peers)}",
    ]
    if load > 0.5:
        lines.append(f"- The machine was not quiet: its load was {load:.1f} before the first run. "
                     "The turns share what disturbs them, so ratios mean something; figures less.")
    return lines


def as_markdown(result, chart_names):
    lines = [BEGIN, "", "## Result", ""] + machine_lines(result)
    lines += ["", "In brackets: how many times faster the first column is."]
    for name, text in chart_names:
        lines += ["", f"![{text}]({name})"]
    for heading, header, rows in tables(result):
        if f"### {heading}" not in lines:
            lines += ["", f"### {heading}"]
        lines += ["", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, "", END])


def write_report(result, docs):
    """Puts the result and its charts into docs/. The text around the marks stays."""
    page = docs / "benchmarks.md"
    text = page.read_text(encoding="utf-8")
    found = re.search(re.escape(BEGIN) + ".*?" + re.escape(END), text, re.DOTALL)
    if found is None:
        raise ValueError(f"{page} has no place for a result: two marks are missing")
    block = as_markdown(result, charts.draw(result, docs))
    page.write_text(text[:found.start()] + block + text[found.end():], encoding="utf-8")
    return page
