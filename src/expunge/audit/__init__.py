"""Reproductions of the paper's experiments, one module each."""
