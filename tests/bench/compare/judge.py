# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the figures are what the project promises itself.

Near 1.0 two targets differ by less than a machine's moods, so there the runs are paired: one turn's
two figures, measured one after the other, give one ratio, and the promise holds only where the
lower confidence bound of the median ratio reaches it (sign test: of n sorted ratios the k-th
smallest, k the largest with P(Binomial(n, 1/2) < k) <= 0.05; no assumption about distributions).
Elsewhere the ratio of the medians decides.
"""

from dataclasses import dataclass
from math import comb
from statistics import median

from .peers import PEERS
from .work import OPENSSL, worker_options

CONFIDENCE_LEFT = 0.05
NEAR_ONE = (0.75, 1.1)
MIB = 1 << 20
REACHED, SHORT, UNCLEAR, MISSING = "reached", "SHORT", "UNCLEAR", "not measured"
BOUNDED = "as much as this machine's memory allows"


@dataclass(frozen=True)
class Goal:
    row: str
    over: str
    under: str
    at_least: float
    aim: float = 0.0

    @property
    def is_paired(self):
        return NEAR_ONE[0] <= self.at_least <= NEAR_ONE[1]


# The pipeline's table: row, at least, aim; against plain.
AGAINST_PLAIN = (
    ("dd-read-1m", 1.3, 0), ("dd-read-128k", 1.05, 0), ("dd-read-4k", 1.0, 1.1),
    ("dd-read-1m-warm", 1.0, 1.2), ("fio-read-1m-d4", 0.95, 1.0),
    ("fio-randread-4k-d1", 1.0, 1.1), ("fio-randread-4k-d32", 0.85, 0.95),
    ("fio-randread-64k-d8", 0.9, 1.0), ("dd-write-1m", 0.95, 1.0), ("fio-write-1m-d4", 0.9, 1.0),
    ("fio-randwrite-4k-d1", 0.95, 1.0), ("fio-randwrite-4k-d32", 0.95, 1.0),
    ("mounts-4-fio-read-1m-d1", 0.9, 1.0), ("readers-4-fio-read-1m-d1", 0.9, 1.0),
)
OPENSSL_AGAINST_PLAIN = (
    ("openssl-dd-read-1m", 1.0, 1.3), ("openssl-fio-randread-4k-d1", 0.8, 0.9),
    ("openssl-fio-randread-4k-d32", 0.8, 0.9), ("openssl-fio-randwrite-4k-d1", 0.8, 0.9),
    ("openssl-fio-randwrite-4k-d32", 0.8, 0.9),
)
READ_1M_AGAINST_PEERS = {"qemu": (15, 20), "nbdfuse": (10, 14), "gocryptfs": (5, 6)}
# What the plain server was seen to reach of the null server, 0.9 of it asked for: a weak yardstick
# would flatter.
PLAIN_AGAINST_NULL = (
    ("dd-read-4k", 0.9 * 230 / 250), ("dd-read-128k", 0.9 * 3.0 / 3.5),
    ("dd-read-1m", 0.9 * 4.7 / 8.0), ("fio-read-1m-d4", 0.9 * 9.1 / 16),
    ("fio-randread-4k-d1", 0.9 * 30 / 32), ("fio-randread-4k-d32", 0.9 * 220 / 242),
    ("dd-write-1m", 0.9 * 2.9 / 5.7),
)
# A read by plain takes FUSE's time and the time of reading the file, one after the other. Where the
# memory is slow the ratios above cannot be had; nine tenths of what then can be must be.
RAW_OF = {"dd-read-4k": "raw-read-4k", "dd-read-128k": "raw-read-128k", "dd-read-1m": "raw-read-1m"}
MEMORY_BASE_BYTES = 24 * MIB
MEMORY_THREAD_BYTES = 5 * MIB // 2


def goals(result):
    """All of them, for the rows of this result."""
    found = [Goal(row, "cryptimg", "plain", *limits) for row, *limits in AGAINST_PLAIN]
    found.append(Goal("dd-read-1m-cold", "cryptimg", "raw", 0.95, 1.0))
    found += [Goal(row, OPENSSL, "plain", *limits) for row, *limits in OPENSSL_AGAINST_PLAIN]
    found += [Goal("dd-read-1m", "cryptimg", peer, *limits)
              for peer, limits in READ_1M_AGAINST_PEERS.items()]
    found += [Goal(row["name"], "cryptimg", peer, 1.0,
                   2.0 if row["name"].endswith("4k-d1") else 5.0)
              for row in result["rows"] if row["section"] in ("main", "buffered")
              for peer in ("qemu", "nbdfuse")
              if row["name"] != "dd-read-1m" and peer in row["runs"]]
    one, every = (f"cryptimg-cbc --engine openssl {words}" for words in worker_options())
    found.append(Goal("workers-cryptimg-cbc-dd-write-1m", every, one, 1.5, 1.7))
    found.append(Goal("coalesce-fio-read-4k-d32", "cryptimg --coalesce on",
                      "cryptimg --coalesce off", 1.3, 1.5))
    # What the sandbox costs: nothing that can be told from noise, as far as the paired runs tell.
    found += [Goal(row["name"], "cryptimg", "cryptimg --no-sandbox", 0.98)
              for row in result["rows"] if row["section"] == "sandbox"]
    found += [Goal(row["name"], "cryptimg", "plain", 0.9) for row in result["rows"]
              if row["section"] == "loaded"]
    return found


def yardstick_goals():
    return [Goal(row, "plain", "null", at_least) for row, at_least in PLAIN_AGAINST_NULL]


def lower_bound(ratios):
    """Of the median, with 95 % confidence; nothing where there are too few."""
    count = len(ratios)
    rank, below = 0, 0.0
    while rank < count:
        below += comb(count, rank) / 2 ** count
        if below > CONFIDENCE_LEFT:
            break
        rank += 1
    return sorted(ratios)[rank - 1] if rank > 0 else None


def paired_ratios(over, under):
    return [a / b for a, b in zip(over, under)]


def judge_goal(goal, rows):
    """(verdict, ratio, lower bound or nothing)."""
    runs = rows.get(goal.row, {}).get("runs", {})
    if goal.over not in runs or goal.under not in runs:
        return MISSING, None, None
    over, under = runs[goal.over], runs[goal.under]
    # A peer is slower by whole factors, and measured less often.
    if goal.is_paired and goal.under not in PEERS:
        ratios = paired_ratios(over, under)
        ratio, bound = median(ratios), lower_bound(ratios)
        if bound is not None and bound >= goal.at_least:
            return REACHED, ratio, bound
        return (SHORT if ratio < goal.at_least else UNCLEAR), ratio, bound
    ratio = median(over) / median(under)
    return (REACHED if ratio >= goal.at_least else SHORT), ratio, None


def judge_yardstick(goal, rows):
    """As judge_goal, with what the machine allows taken into account."""
    verdict, ratio, bound = judge_goal(goal, rows)
    raw = rows.get(RAW_OF.get(goal.row), {}).get("runs", {}).get("raw")
    if verdict in (SHORT, UNCLEAR) and raw:
        runs = rows[goal.row]["runs"]
        possible = 1 / (1 / median(runs["null"]) + 1 / median(raw))
        if median(runs["plain"]) >= 0.9 * possible:
            verdict = BOUNDED
    return verdict, ratio, bound


def judge_memory(result, rows):
    if "memory" not in rows or "cryptimg" not in rows["memory"]["runs"]:
        return None
    threads = result["machine"]["session_threads"]
    limit = MEMORY_BASE_BYTES + threads * MEMORY_THREAD_BYTES
    most = max(rows["memory"]["runs"]["cryptimg"])
    verdict = REACHED if most <= limit else SHORT
    return verdict, f"{'memory: anonymous, under full load':58} " \
                    f"{most / MIB:6.1f} MiB, at most {limit / MIB:.1f}: {verdict}"


def check(result):
    """(lines to print, how many promises are not kept)."""
    rows = {row["name"]: row for row in result["rows"]}
    lines, broken, absent = [], 0, 0
    for heading, some in (("The promises:", goals(result)),
                          ("The yardstick, plain against null:", yardstick_goals())):
        lines.append(heading)
        for goal in some:
            judgement = judge_yardstick if goal.over == "plain" else judge_goal
            verdict, ratio, bound = judgement(goal, rows)
            if verdict == MISSING:
                absent += 1
                continue
            broken += verdict in (SHORT, UNCLEAR)
            what = f"{goal.row}: {goal.over} / {goal.under}"
            shown = f"{ratio:6.2f}" + (f" (bound {bound:.2f})" if bound is not None else "")
            reached_aim = goal.aim and ratio >= goal.aim
            lines.append(f"  {what:58} {shown:20} at least {goal.at_least:5.2f}: "
                         f"{'aim reached' if verdict == REACHED and reached_aim else verdict}")
    memory = judge_memory(result, rows)
    if memory is not None:
        broken += memory[0] == SHORT
        lines.append("  " + memory[1])
    if result["settings"]["repetitions"] < 5:
        lines.append("Fewer than five repetitions: nothing can be said with confidence.")
    lines.append(f"{broken} not kept, {absent} not measured here "
                 "(allocations and in-process scaling have tests of their own)")
    return lines, broken
