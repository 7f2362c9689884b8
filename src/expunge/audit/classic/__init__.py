"""The paper's own solver, faults included: the baseline that audits compare with.

It imports `expunge.problem` and, for the minimax offset, `expunge.solver.backends`, and nothing of the memory. Start at
`baseline`, which has the three ways to run it, then `update`, which has the path and its faults.
"""
