"""Contexts that policies are held to, named for what makes them hard."""

from __future__ import annotations

import numpy as np

from expunge.selection import Context


def _clustered() -> Context:
    rng = np.random.default_rng(3)
    centres = 4.0 * rng.standard_normal((4, 3))
    keys = np.vstack([centres[i % 4] + 0.2 * rng.standard_normal(3) for i in range(40)])
    return Context.of(keys, sigma=1.5, queries=centres + 0.1)


def _copies() -> Context:
    keys = np.repeat(np.random.default_rng(4).standard_normal((6, 2)), 5, axis=0)
    return Context.of(keys, sigma=1.0)


def _wide() -> Context:
    keys = np.random.default_rng(5).standard_normal((50, 64))
    return Context.of(keys / np.linalg.norm(keys, axis=1, keepdims=True), sigma=0.6)


CONTEXTS = {
    "gaussian": Context.of(np.random.default_rng(1).standard_normal((60, 4)), sigma=2.0),
    "clustered": _clustered(),
    "exact copies": _copies(),
    "all the same": Context.of(np.ones((12, 3)), sigma=1.0),
    "far apart": Context.of(1e6 * np.random.default_rng(2).standard_normal((20, 3)), sigma=1.0),
    "wide": _wide(),
    "two keys": Context.of([[0.0], [1.0]], sigma=1.0),
}
