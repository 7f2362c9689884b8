"""Named hard problems: the inputs on which a one-class solver goes wrong.

Each is small (n ≤ 200), deterministic, and named for what makes it hard, so that a failure names its cause.
Arrays are read-only: a test that edits a problem edits a copy. Every cap is feasible up to the rounding of
1/n: nC ≥ 1 − 2⁻⁵³ n.
"""

from __future__ import annotations

import itertools
import math
import zlib
from dataclasses import dataclass

import numpy as np

from expunge.audit.experiments.trajectories import REGIMES, draw_trajectory
from expunge.types import Matrix

NOISES = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12)


@dataclass(frozen=True)
class Problem:
    """keys (n, d), values (n, dv), the kernel's width, the cap, and why it is here."""

    name: str
    keys: Matrix
    values: Matrix
    sigma: float
    cap: float
    note: str

    @property
    def size(self) -> int:
        return len(self.keys)


PROBLEMS: dict[str, Problem] = {}


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def _gaussian(name: str, size: int, dimension: int) -> Matrix:
    return _rng(name + "/keys").standard_normal((size, dimension))


def _add(
    name: str,
    keys: Matrix,
    *,
    sigma: float,
    note: str,
    cap: float | None = None,
    nu: float = 0.4,
    values: Matrix | None = None,
) -> None:
    keys = np.array(keys, dtype=np.float64, order="C")
    drawn = _rng(name + "/values").uniform(-1.0, 1.0, (len(keys), 4)) if values is None else values
    drawn = np.array(drawn, dtype=np.float64, order="C")
    keys.flags.writeable = drawn.flags.writeable = False
    if name in PROBLEMS:
        raise ValueError(f"two problems are called {name}")
    PROBLEMS[name] = Problem(name, keys, drawn, sigma, 1.0 / (nu * len(keys)) if cap is None else cap, note)


def _add_duplicates() -> None:
    base = _gaussian("duplicates", 12, 3)
    _add("duplicates-pairs", np.repeat(base, 2, axis=0), sigma=2.0, note="every key twice, adjacent")
    order = _rng("duplicates-groups").permutation(19)
    groups = np.repeat(base[:5], [1, 2, 3, 5, 8], axis=0)[order]
    _add("duplicates-groups", groups, sigma=2.0, note="groups of 1, 2, 3, 5, 8 copies, shuffled")
    heavy = np.vstack([np.repeat(base[:1], 20, axis=0), base[1:11]])
    _add("duplicates-heavy", heavy, sigma=2.0, cap=0.1, note="20 copies of one key: its cap is slack")
    outer = 3.0 * np.vstack([np.eye(3), -np.eye(3)])
    bound = np.vstack([np.repeat(outer, 2, axis=0), 0.3 * base])
    _add("duplicates-at-bound", bound, sigma=2.0, cap=1 / 14, note="copied outliers, all at the cap")
    reserve = np.vstack([outer, np.zeros((4, 3)), np.full((3, 3), 0.1)])
    _add("duplicates-in-reserve", reserve, sigma=4.0, cap=0.5, note="copied interior keys, all at zero")
    _add("duplicates-all-identical", np.full((7, 3), 0.1), sigma=1.0, cap=0.25, note="one site, seven copies")
    _add("duplicates-all-identical-full", np.ones((4, 2)), sigma=1.0, cap=0.25, note="one site at its cap")
    two = np.repeat(base[:2], [3, 5], axis=0)
    _add("duplicates-two-sites", two, sigma=2.0, cap=0.15, note="the smaller group is at its cap 3C")
    signed = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [1.0, -0.0], [0.5, 0.5]])
    _add("duplicates-signed-zero", signed, sigma=1.0, cap=0.4, note="−0.0 and 0.0 are the same coordinate")
    square = np.array(list(itertools.product(range(3), repeat=2)), dtype=float)
    lattice = np.repeat(square, [1, 2, 1, 2, 4, 2, 1, 2, 1], axis=0)
    _add("duplicates-lattice", lattice, sigma=1.5, note="copies and symmetry together")


def _add_near_duplicates() -> None:
    centres = 2.0 * _gaussian("near-centres", 4, 6)
    noise = _gaussian("near-noise", 24, 6)
    for scale in NOISES:
        keys = np.repeat(centres, 6, axis=0) + scale * noise
        note = f"4 centres × 6 copies, noise {scale:g}"
        _add(f"near-duplicates-{scale:.0e}", keys, sigma=2.0, note=note)
    flat = np.array([1.0, 2.0]) + 1e-6 * _gaussian("near-flat", 12, 2)
    _add("near-duplicates-one-cluster", flat, sigma=2.0, note="more keys in one cluster than dimensions")
    mixed = np.vstack([np.repeat(centres[:2], 3, axis=0), centres + 1e-9, centres])
    _add("near-duplicates-and-exact", mixed, sigma=2.0, note="exact copies beside copies at 1e-9")


def _add_symmetric() -> None:
    line = np.arange(16.0)[:, None]
    _add("lattice-1d", line, sigma=1.5, note="integer line: ties in every mirror pair")
    _add("lattice-1d-wide", line, sigma=8.0, note="integer line, condition number far above 1/ε")
    for d, side, sigma in ((2, 5, 1.5), (3, 3, 1.5), (3, 4, 2.0)):
        grid = np.array(list(itertools.product(range(side), repeat=d)), dtype=float)
        _add(f"lattice-{d}d-{side}", grid, sigma=sigma, note=f"{side}^{d} integer lattice")
    for sides in range(3, 13):
        angles = 2 * np.pi * np.arange(sides) / sides
        circle = np.column_stack([np.cos(angles), np.sin(angles)])
        _add(f"polygon-{sides}", circle, sigma=1.5, cap=2 / sides, note="regular polygon: all equal")
        if sides in (6, 12):
            centred = np.vstack([circle, np.zeros(2)])
            _add(f"circle-{sides}-centre", centred, sigma=1.5, cap=1.0, note="a circle and its centre")
    angles = 2 * np.pi * np.arange(12) / 12
    wide = np.column_stack([np.cos(angles), np.sin(angles)])
    _add("polygon-12-wide", wide, sigma=20.0, cap=1.0, note="unique optimum, condition far above 1/ε")
    for d in (3, 8):
        _add(f"simplex-{d}", np.eye(d + 1), sigma=2.0, cap=0.5, note="regular simplex: all equal")
        cross = np.vstack([np.eye(d), -np.eye(d)])
        _add(f"cross-polytope-{d}", cross, sigma=1.5, cap=1 / d, note="±e_i, half of them could fill the mass")
    for d in (3, 4, 5):
        corners = np.array(list(itertools.product((0.0, 1.0), repeat=d)))
        _add(f"hypercube-{d}", corners, sigma=1.0, nu=0.5, note="corners of the unit cube")
    even = np.linspace(-1, 1, 11)[:, None] * np.array([1.0, 2.0, -1.0])
    _add("collinear-even", even, sigma=1.0, note="equally spaced on a line in 3-D")
    uneven = np.sort(_gaussian("collinear", 15, 1), axis=0) * np.array([0.6, 0.8])
    _add("collinear-uneven", uneven, sigma=3.0, note="random points on a line, wide kernel")


def _add_extremes() -> None:
    keys = _gaussian("widths", 24, 3)
    for exponent in range(-3, 7):
        note = "σ against a data scale of 1"
        _add(f"width-1e{exponent:+d}", keys, sigma=10.0**exponent, note=note)
    keys = _gaussian("caps", 16, 3)
    _add("cap-one", keys, sigma=2.0, cap=1.0, note="the cap never binds")
    _add("cap-above-one", keys, sigma=2.0, cap=2.5, note="a cap that no coefficient can reach")
    _add("cap-full", keys, sigma=2.0, cap=1 / 16, note="nC = 1 exactly: every key at its cap")
    _add("cap-full-rounded", keys[:7], sigma=2.0, cap=1 / 7, note="nC = 1 − 2⁻⁵⁴·7 or so: 1/7 is rounded")
    _add("cap-one-spare", keys, sigma=2.0, cap=1 / 15, note="C = 1/(n−1)")
    _add("cap-just-feasible", keys, sigma=2.0, cap=(1 + 1e-12) / 16, note="nC = 1 + 1e-12")
    _add("cap-barely-loose", keys, sigma=2.0, cap=(1 + 1e-6) / 16, note="nC = 1 + 1e-6")
    _add("single", np.array([[0.3, -0.7]]), sigma=1.0, cap=1.0, note="one key, at its cap")
    _add("single-loose", np.array([[0.3, -0.7]]), sigma=1.0, cap=1.5, note="one key, on the margin")
    pair = np.array([[0.0, 0.0], [1.0, 0.5]])
    for cap in (0.5, 0.75, 1.0):
        _add(f"two-keys-cap-{cap:g}", pair, sigma=1.0, cap=cap, note="two keys share the mass")


def _add_empty_margins() -> None:
    corners = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    inner = np.vstack([corners, 0.3 * _gaussian("empty-inner", 6, 2)])
    note = "the four corners hold all the mass at their caps: ρ has an interval"
    _add("empty-margin-square", inner, sigma=4.0, cap=0.25, note=note)
    _add("empty-margin-near", inner, sigma=4.0, cap=0.25 * (1 + 1e-10), note="the same, margin at 1e-10")
    angles = 2 * np.pi * np.arange(5) / 5 + 0.1
    ring = np.column_stack([np.cos(angles), np.sin(angles)])
    inner = np.vstack([0.2 * _gaussian("empty-ring", 9, 2), ring])
    _add("empty-margin-ring", inner, sigma=3.0, cap=0.2, note="the same with a rounded 1/5")
    tiny = _gaussian("empty-tiny", 8, 2)
    _add("empty-margin-tiny-width", tiny, sigma=1e-3, cap=1 / 8, note="K = I and nC = 1")
    copies = np.vstack([corners, corners, np.zeros((3, 2))])
    _add("empty-margin-copies", copies, sigma=4.0, cap=1 / 8, note="doubled corners at their caps")


def _add_coordinates() -> None:
    keys = _gaussian("coordinates", 24, 4)
    _add("coordinates-huge", 1e8 + keys, sigma=2.0, note="offset 1e8: ‖a‖²+‖b‖²−2ab loses every digit")
    _add("coordinates-tiny", 1e-150 * keys, sigma=2e-150, note="squared distances near 1e-300")
    scales = np.array([1e-6, 1e-2, 1.0, 1e3])
    _add("coordinates-mixed", keys * scales, sigma=500.0, note="one coordinate decides, one is noise")
    shells = np.repeat([1e-5, 1.0, 1e5], 8)[:, None] * keys
    _add("coordinates-shells", shells, sigma=1.0, note="a near-duplicate core inside distant outliers")


def _add_protocols() -> None:
    for regime in REGIMES:
        for size in (64, 128):
            for d in (6, 64):
                drawn = draw_trajectory(regime, size, d, 41000, cycles=0)
                _add(
                    f"sequential-{regime}-n{size}-d{d}",
                    drawn.keys,
                    values=drawn.values,
                    sigma=drawn.sigma,
                    cap=drawn.cap,
                    note="initial state of the sequential audit",
                )
    keys = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9], [0.0, -10.0]])
    values = np.array([[1.0], [2.0], [9.0], [4.0]])
    note = "the paper's three-key example"
    _add("expiry-before", keys[:3], values=values[:3], sigma=5.0, cap=1.0, note=note)
    _add("expiry-after", keys, values=values, sigma=5.0, cap=1.0, note=note + " after the admission")
    centres = _gaussian("embedding-centres", 12, 384) / math.sqrt(384)
    embedded = np.repeat(centres, 8, axis=0) + 0.1 * _gaussian("embedding", 96, 384) / math.sqrt(384)
    embedded /= np.linalg.norm(embedded, axis=1, keepdims=True)
    _add("embedding-384d", embedded, sigma=1.0, note="unit vectors in 12 tight clusters")
    _add("more-dimensions-than-keys", _gaussian("wide", 12, 200), sigma=20.0, note="d > n")


_add_duplicates()
_add_near_duplicates()
_add_symmetric()
_add_extremes()
_add_empty_margins()
_add_coordinates()
_add_protocols()
