"""The attack on last bits: re-run the history with every candidate, and compare what was published bit by bit.

Mironov (2012) showed for differential privacy that least significant bits give away what the arithmetic went through.
Here the attacker holds the entries that remain, a list of candidates for the erased key, and one artifact made after
the erasure: coefficients and offset, 20 readouts, a save file, or an evidence bundle.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from attackers.fixed_salts import fixed_salts
from expunge import Memory
from expunge.attestation.evidence import write_evidence

__all__ = ["ARTIFACTS", "Ward", "draw_ward", "single_out"]

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Ward:
    """Entries that remain, the place of the erased one among them, the width, the cap and queries."""

    keys: Matrix
    values: Matrix
    place: int
    sigma: float
    cap: float
    queries: Matrix

    def after(self, key: Vector) -> Memory:
        """The memory that held this key, and erased it; same ids and salts whatever the key."""
        keys = np.insert(self.keys, self.place, key, axis=0)
        values = np.insert(self.values, self.place, 0.5, axis=0)
        names = [f"e{row}" for row in range(len(self.keys))]
        names.insert(self.place, "x")
        with fixed_salts() as salts:
            salts.of(names)
            memory = Memory.fit(keys, values, sigma=self.sigma, cap=self.cap, ids=names)
        memory.delete("x")
        return memory

    def never(self) -> Memory:
        """The memory that never held it."""
        names = [f"e{row}" for row in range(len(self.keys))]
        with fixed_salts() as salts:
            salts.of(names)
            return Memory.fit(self.keys, self.values, sigma=self.sigma, cap=self.cap, ids=names)


def draw_ward(rng: np.random.Generator, family: str, size: int = 40) -> tuple[Ward, Callable[[], Vector]]:
    """A ward of one family, and the distribution that its keys, the erased one and the candidates come from."""
    d = 4
    centres = 2.0 * rng.standard_normal((6, d))

    def one() -> Vector:
        if family == "near-duplicate":
            return np.asarray(centres[rng.integers(6)] + 0.02 * rng.standard_normal(d))
        if family == "lattice":
            return rng.integers(0, 4, size=d).astype(float)
        return rng.standard_normal(d)

    keys = np.array([one() for _ in range(size)])
    queries = rng.standard_normal((20, d))
    return Ward(keys, rng.standard_normal((size, 2)), int(rng.integers(size)), 2.0, 1.0 / (0.4 * size), queries), one


def coefficients(memory: Memory, _: Ward) -> bytes:
    return memory.coefficients.tobytes() + memory.offset.hex().encode()


def readouts(memory: Memory, ward: Ward) -> bytes:
    return memory.read(ward.queries).tobytes()


def scores(memory: Memory, ward: Ward) -> bytes:
    return memory.score(ward.queries).tobytes()


def save_file(memory: Memory, _: Ward) -> bytes:
    with TemporaryDirectory() as folder:
        memory.save(Path(folder) / "file")
        return (Path(folder) / "file").read_bytes()


def evidence(memory: Memory, _: Ward) -> bytes:
    """Everything in a bundle but the receipt: that is game B."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "bundle"
        write_evidence(path, None, memory.version, b"{}")
        with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as bundle:
            return b"".join(bundle.read(name) for name in sorted(bundle.namelist()))


ARTIFACTS: dict[str, Callable[[Memory, Ward], bytes]] = {
    "coefficients and offset": coefficients,
    "20 readouts": readouts,
    "20 scores": scores,
    "save file": save_file,
    "evidence bundle": evidence,
}


def single_out(observed: bytes, candidates: list[Vector], replay: Callable[[Vector], bytes]) -> list[int]:
    """Candidates whose replay gives the bytes that were observed."""
    return [number for number, key in enumerate(candidates) if replay(key) == observed]
