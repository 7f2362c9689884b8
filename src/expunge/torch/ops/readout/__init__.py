"""Causal softmax whose weights are multiplied by the gate of the query's chunk."""
