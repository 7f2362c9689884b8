"""The paper's own solver, faults included: the baseline that audits compare with.

Imports the problem and the data of the audit. Start with `baseline.py`.
"""
