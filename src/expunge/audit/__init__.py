"""The paper's experiments, recomputed: one module each, and the archive that keeps everything they saw.

Read `engine` first (what an experiment is and how it is run), then `outcome` (what one task keeps), then an
experiment. Nothing here is needed to use a memory; the extra ``audit`` brings what it needs.
"""
