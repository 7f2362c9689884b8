"""The kinds of long jobs: who may start and see one, and what it does.

Each can be started again from its specification: proofs and verifications change nothing, and an erasure runs under an
idempotency key, so that no memory is edited twice.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from expunge.errors import InputError, StoreError
from expunge.memory.version import Version
from expunge.problem.solution import Solution
from expunge.service.tokens import Scope
from expunge.store import Store

__all__ = ["JOB_KINDS", "JobKind", "Progress"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class JobKind:
    """One kind of job. ``run`` takes the store, the specification, and the function that records progress."""

    name: str
    scopes: tuple[Scope, ...]
    store_wide: bool
    run: Callable[[Store, dict[str, Any], Progress], dict[str, Any]]


def _prove(store: Store, spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    name = spec["memory"]
    if name not in store:
        raise InputError("the memory was dropped in the meantime", code="not-found")
    from expunge.certificates.proof import prove_state

    def solution_of(version: Version) -> tuple[str, Solution]:
        version.require_entries()
        return version.digest, version.solution

    digest, found = store[name].look(solution_of)
    progress(0, 1)
    problem = found.problem
    proof = prove_state(problem.keys, found.coefficients, found.offset, cap=problem.cap, sigma=problem.sigma)
    return {
        "memory": name,
        "digest": digest,
        "outcome": proof.outcome,
        "reason": proof.reason,
        "bits": proof.bits,
        "margin": int(proof.margin.size),
        "bound": int(proof.bound.size),
        "reserve": int(proof.reserve.size),
        "seconds": proof.seconds,
        "proof": base64.b64encode(proof.to_bytes()).decode(),
    }


def _erase(store: Store, spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    salt = spec.get("salt")
    done = store.erase_subject(
        spec["subject"],
        idempotency_key=spec["key"],
        progress=progress,
        salt=None if salt is None else bytes.fromhex(salt),
        look_alikes=False,
        derived=spec.get("derived", "erase"),
        expected=spec.get("expected"),
        case=spec.get("case"),
        actor=spec.get("actor"),
    )
    parts = [part.to_json() for part in done.memories]
    failed = next((part for part in done.memories if part.outcome == "failed"), None)
    if failed is not None:
        raise StoreError(f"not all memories could be edited ({failed.reason}); ask again with the same key")
    salt = None if done.salt is None else done.salt.hex()
    return {"complete": done.complete, "index": done.index, "salt": salt, "earlier": done.earlier, "memories": parts}


def _retain(store: Store, spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    done = store.retain(progress=progress, case=spec.get("case"), actor=spec.get("actor"))
    failed = next((part for part in done.memories if part.outcome == "failed"), None)
    if failed is not None:
        raise StoreError(f"not all memories could be edited ({failed.reason}); ask again")
    return done.to_json()


def _verify(store: Store, spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    progress(0, 1)
    return vars(store.verify())


def _vacuum(store: Store, spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    progress(0, 1)
    return vars(store.vacuum())


JOB_KINDS: dict[str, JobKind] = {
    kind.name: kind
    for kind in (
        JobKind("proof", ("read", "audit"), False, _prove),
        JobKind("subject_erasure", ("erase",), True, _erase),
        JobKind("retention", ("erase",), True, _retain),
        JobKind("verification", ("audit", "admin"), True, _verify),
        JobKind("vacuum", ("admin",), True, _vacuum),
    )
}
