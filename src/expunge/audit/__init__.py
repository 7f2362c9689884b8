"""Recomputes the experiments of V. Ramesh, *What a Deletion Certificate Covers, and Where It Expires* (2026).

It may import everything of expunge below service and command line, needs the extra ``audit``, and nothing imports it
but the command line. Start at `engine` (what an experiment is and how it is run), then `task_record` (what one task
keeps), then an experiment; `results` reads what they leave behind.
"""
