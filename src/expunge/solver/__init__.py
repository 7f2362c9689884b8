"""The maintained solver: cold fit, path, pivots, and independent references."""
