"""Random conversations of agents with a store, a model of what should be left, and searches for what should not."""
