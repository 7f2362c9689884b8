"""Each op is a package with a plain PyTorch `reference` and a fused `triton` version of the same function."""
