"""Coefficients of many gates at once: every prefix of every head, in one call, and their gradient.

They import each other, PyTorch, Triton (the fused ones only) and `expunge.errors`. Start at `plain_coefficients`,
which has the method, then `fused_coefficients`, which sends a problem to `on_chip_solve` or `long_prefix_solve`.
"""
