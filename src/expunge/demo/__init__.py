"""The main job on real data, start to finish, in a folder that stays: ``expunge demo``.

It may import every other package; of the command line it uses the tables and panels. Start with `tour.py`: twelve
patients' hours in intensive care and fifteen people's chats go into a store, which is asked, pruned and erased from,
and whose receipts are verified and tampered with.
"""

from __future__ import annotations

from expunge.demo.demo_run import DemoRun
from expunge.demo.tour import FOLDER, run

__all__ = ["FOLDER", "DemoRun", "run"]
