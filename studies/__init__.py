"""Training studies of the support-vector gate (paper, App. B; docs/results/protocols.md, Training).

Language models on bytes, a student that learns a teacher's gate, recall and forgetting. Each runs from the repository's
root, as ``python -m studies.run`` and the like; results are small JSON files in ``studies/results``.
"""
