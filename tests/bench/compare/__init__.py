# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison that compare.sh runs. Standard library only.

work.py says what is measured, servers.py and peers.py who serves, measure.py how one figure comes
about, runner.py in what order; judge.py and report.py make something of the figures.
"""
