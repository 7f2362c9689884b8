"""The one-class problem and what follows from it: keys, cap, width, kernel, partition, check, solution, readout.

Imports nothing of expunge but its errors and types. Start with `problem.py`, then `check.py`.
"""
