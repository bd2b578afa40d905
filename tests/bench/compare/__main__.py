# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of compare.sh; see there."""

import argparse
import datetime
import json
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from . import judge, machine, report
from .runner import Pool, Runner, fits, say, space_needed
from .servers import Cryptimg, Failure, Site, run
from .work import PLANS

FORMAT = 1
ROOT = Path(__file__).resolve().parents[3]
MEMORY_FOLDER = "/dev/shm"


def arguments():
    parser = argparse.ArgumentParser(prog="compare.sh", allow_abbrev=False)
    size = parser.add_mutually_exclusive_group()
    for name, text in (("quick", "some rows, three minutes (the default)"), ("full", "every row"),
                       ("tiny", "a few rows once: whether it works at all")):
        size.add_argument(f"--{name}", action="store_const", const=name, dest="plan", help=text)
    size.add_argument("--from", metavar="FILE", dest="source",
                      help="take the figures from this JSON instead of measuring")
    size.add_argument("--report", metavar="FILE",
                      help="write this JSON's result and charts into docs/")
    parser.add_argument("--check", action="store_true",
                        help="judge the project's promises; exit 1 where one is not kept")
    parser.add_argument("--json", metavar="FILE", help="where the figures go")
    parser.add_argument("--rows", metavar="WORD", action="append",
                        help="only rows with this word in their name; may be repeated")
    parser.add_argument("--repetitions", type=int, metavar="N", help="of each figure")
    parser.add_argument("--dir", metavar="DIR", default=os.environ.get("TMPDIR", "/tmp"),
                        help="where the images lie: a disk's file system")
    return parser.parse_args()


def load(path):
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    if result.get("format") != FORMAT:
        raise Failure(f"{path} is not a result of this version")
    return result


def chosen_plan(words):
    plan = PLANS[words.plan or "quick"]()
    if words.repetitions:
        plan = replace(plan, repetitions=words.repetitions)
    if words.rows:
        rows = [row for row in plan.rows if any(word in row.name for word in words.rows)]
        if not rows:
            raise Failure("no row has such a name")
        plan = replace(plan, rows=rows)
    return plan


def make_site(work):
    """With a key that is a text without a newline, since the peers want text."""
    key = work / "key"
    key.write_text(os.urandom(16).hex(), encoding="ascii")
    key.chmod(0o600)
    return Site(os.environ["CRYPTIMG"], os.environ["PLAIN_SERVER"], key)


def learn(site, folder):
    """As many session threads for the plain server as cryptimg says that it has."""
    probe = Cryptimg(site, folder, "probe", 1 << 20)
    probe.start()
    try:
        status = probe.status()
    finally:
        probe.stop()
    site.session_threads = status["session_threads"]
    return status["engine"]


def measured(plan, site, folders):
    engine = learn(site, folders["disk"])
    facts = machine.describe(site, folders)
    facts["engine"] = engine
    pool = Pool(site, folders, plan)
    try:
        rows = Runner(pool, plan).run_all()
    finally:
        pool.close()
        left = pool.leftovers()
    if left:
        raise Failure("still mounted: " + ", ".join(str(server.mountpoint) for server in left))
    return {
        "format": FORMAT,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "settings": {"mode": plan.name, "image_bytes": plan.image_bytes,
                     "repetitions": plan.repetitions, "peer_repetitions": plan.peer_repetitions,
                     "fio_ms": plan.scale.fio_ms},
        "machine": facts, "peers": machine.peers(pool.absent), "rows": rows,
    }


def measure_all(words):
    plan = chosen_plan(words)
    needed = space_needed(plan)
    if not fits(words.dir, needed["disk"]):
        raise Failure(f"{words.dir} has no {needed['disk'] >> 20} MiB to spare; choose with --dir")
    with_memory = fits(MEMORY_FOLDER, needed["memory"])
    if not with_memory:
        say(f"{MEMORY_FOLDER} is too small: writes go to {words.dir}, and dd's close waits for it")
    made = []
    try:
        for place in [words.dir] + ([MEMORY_FOLDER] if with_memory else []):
            made.append(Path(tempfile.mkdtemp(prefix="cryptimg-bench.", dir=place)).resolve())
        site = make_site(made[0])
        return measured(plan, site, {"disk": made[0], "memory": made[-1]})
    finally:
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
        for folder in made:
            if f" {folder}/" in mounts:
                say(f"left as it is, something is mounted in it: {folder}")
            else:
                shutil.rmtree(folder, ignore_errors=True)


def store(result, path):
    path = Path(path) if path else ROOT / "build/bench/results" / (
        result["date"].replace(" ", "-").replace(":", "") + f"-{result['settings']['mode']}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path


def main():
    words = arguments()
    if words.report:
        print(f"wrote {report.write_report(load(words.report), ROOT / 'docs')}")
        return 0
    if words.source:
        result = load(words.source)
    else:
        run(["fio", "--version"])
        result = measure_all(words)
        say(f"figures: {store(result, words.json)}")
    print(report.as_text(result))
    if not words.check:
        return 0
    lines, broken = judge.check(result)
    print("\n" + "\n".join(lines))
    return 1 if broken else 0


def on_signal(number, _frame):
    raise SystemExit(128 + number)


if __name__ == "__main__":
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, on_signal)
    try:
        sys.exit(main())
    except (Failure, ValueError, OSError) as problem:
        print(f"compare: {problem}", file=sys.stderr)
        sys.exit(2)
