"""The selection experiments: which entries survive a smaller context, on synthetic, clinical and text data.

It imports `expunge.selection` for the policies, `expunge.datasets` for the data, memories and the audit's engine. Start
at `experiment`, which runs the other modules, then `policy_arms`.
"""
