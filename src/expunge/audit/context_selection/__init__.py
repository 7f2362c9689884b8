"""The selection experiments: which entries survive a smaller context, on synthetic, clinical and text data.

Imports `expunge.selection` for the policies and the audit's engine. Start with `experiment.py`.
"""
