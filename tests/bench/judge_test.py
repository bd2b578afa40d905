# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement on made-up figures: what is kept, what falls short, what is too close to say."""

import unittest

from compare import judge, report


def result_with(**runs):
    """A result with one row, dd-read-4k, whose promise is 1.0 times plain."""
    return {"format": 1, "date": "", "peers": {}, "settings": {"repetitions": 11},
            "machine": {"session_threads": 4},
            "rows": [{"name": "dd-read-4k", "title": "t", "section": "main", "unit": "B/s",
                      "runs": runs}]}


def verdict(**runs):
    result = result_with(**runs)
    rows = {row["name"]: row for row in result["rows"]}
    return judge.judge_goal(judge.Goal("dd-read-4k", "cryptimg", "plain", 1.0), rows)[0]


class Judge(unittest.TestCase):
    def test_bound_is_the_sign_tests(self):
        self.assertIsNone(judge.lower_bound([1, 2, 3, 4]))
        self.assertEqual(judge.lower_bound([5, 1, 2, 3, 4]), 1)
        self.assertEqual(judge.lower_bound(list(range(1, 9))), 2)
        self.assertEqual(judge.lower_bound(list(range(1, 12))), 3)

    def test_paired_runs_decide_near_one(self):
        drift = [100, 120, 90, 200, 150, 100, 80, 130, 100, 100, 95]
        self.assertEqual(verdict(cryptimg=[x * 1.02 for x in drift], plain=drift), judge.REACHED)
        self.assertEqual(verdict(cryptimg=[x * 0.98 for x in drift], plain=drift), judge.SHORT)
        mixed = [x * (1.05 if i % 3 else 0.9) for i, x in enumerate(drift)]
        self.assertEqual(verdict(cryptimg=mixed, plain=drift), judge.UNCLEAR)
        self.assertEqual(verdict(cryptimg=[102] * 3, plain=[100] * 3), judge.UNCLEAR)

    def test_what_is_not_measured_is_said(self):
        self.assertEqual(verdict(plain=[1.0] * 11), judge.MISSING)

    def test_medians_decide_elsewhere(self):
        result = result_with(cryptimg=[10, 50, 10], qemu=[1])
        rows = {row["name"]: row for row in result["rows"]}
        goal = judge.Goal("dd-read-4k", "cryptimg", "qemu", 15.0)
        self.assertEqual(judge.judge_goal(goal, rows)[:2], (judge.SHORT, 10.0))

    def test_check_counts_what_is_not_kept(self):
        self.assertEqual(judge.check(result_with(cryptimg=[3] * 11, plain=[2] * 11))[1], 0)
        self.assertEqual(judge.check(result_with(cryptimg=[1] * 11, plain=[2] * 11))[1], 1)
        weak = result_with(cryptimg=[3] * 11, plain=[2] * 11, null=[9] * 11)
        self.assertEqual(judge.check(weak)[1], 1)

    def test_slow_memory_bounds_the_yardstick(self):
        result = result_with(plain=[100] * 11, null=[200] * 11)
        rows = {row["name"]: row for row in result["rows"]}
        goal = judge.Goal("dd-read-4k", "plain", "null", 0.8)
        self.assertEqual(judge.judge_yardstick(goal, rows)[0], judge.SHORT)
        rows["raw-read-4k"] = {"runs": {"raw": [210] * 11}}
        self.assertEqual(judge.judge_yardstick(goal, rows)[0], judge.BOUNDED)
        rows["raw-read-4k"] = {"runs": {"raw": [400] * 11}}
        self.assertEqual(judge.judge_yardstick(goal, rows)[0], judge.SHORT)

    def test_tables_name_every_target(self):
        text = report.as_text(result_with(cryptimg=[3e9], plain=[2e9]))
        self.assertIn("3.00 GB/s", text)
        self.assertIn("2.00 GB/s (1.50)", text)


unittest.main()
