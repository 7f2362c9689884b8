"""One file for one memory: a ZIP of .npy arrays and a JSON header. No pickle, no code, nothing executable.

The header carries SHA-256 of every member and the state digest, which is recomputed on load together with the
check: a truncated or altered file is refused. The digest is not a signature; receipts are what is signed.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from expunge.certificates.warranty import Anchor, Archived, Record, Warranties
from expunge.errors import InputError, StoreError, VerificationError
from expunge.ledger.commitment import SALT_BYTES
from expunge.ledger.file_writing import new_file
from expunge.memory.entries import Entries
from expunge.memory.version import Version
from expunge.problem.check import StateCheck
from expunge.problem.problem import row_bytes
from expunge.solver.attempts import check_candidate
from expunge.solver.kernel_rows import KernelRows
from expunge.solver.state import MARGIN, State
from expunge.types import AnyArray, IndexArray, Matrix, Vector

if TYPE_CHECKING:
    from expunge.memory.memory import Memory

__all__ = ["build_memory", "load", "pack", "restore", "save", "unpack"]

FORMAT = "expunge/memory/v1"
_HEADER = "header.json"
_HEADER_DIGEST = "header.sha256"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_ARRAYS = {
    "keys": "<f8",
    "values": "<f8",
    "alpha": "<f8",
    "status": "|i1",
    "site": "<i8",
    "margin": "<i8",
    "payload": "|u1",
    "payload_end": "<i8",
    "salt": "|u1",
    "anchor_alpha": "<f8",
    "anchor_similarity": "<f8",
    "archive_keys": "<f8",
    "archive_values": "<f8",
    "archive_payload": "|u1",
    "archive_payload_end": "<i8",
    "archive_salt": "|u1",
}


def save(memory: Memory, path: Path) -> None:
    """Write a memory to a file that only its owner can read, whole or not at all."""
    with memory._lock:
        members, header = _members(memory)
    with new_file(path, replace=True, mode=0o600) as file:
        _write(file, members, header)


def load(path: Path) -> Memory:
    """Read, verify and rebuild a memory."""
    return _read(path, path)


def pack(memory: Memory) -> bytes:
    """The bytes of the file that `save` would write."""
    with memory._lock:
        members, header = _members(memory)
    buffer = io.BytesIO()
    _write(buffer, members, header)
    return buffer.getvalue()


def unpack(data: bytes) -> Memory:
    """The memory that `pack` was given, with buffers of its own."""
    return _read(io.BytesIO(data), "the packed memory")


def restore(data: bytes, outcomes: dict[str, int]) -> Memory:
    """The memory that `Memory.__reduce__` packed, with its counts of outcomes."""
    memory = unpack(data)
    memory.outcomes.update(outcomes)
    return memory


def _write(file: IO[bytes], members: dict[str, bytes], header: bytes) -> None:
    digest = hashlib.sha256(header).hexdigest().encode()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for member, content in {**members, _HEADER: header, _HEADER_DIGEST: digest}.items():
            archive.writestr(zipfile.ZipInfo(member, _EPOCH), content)


def _read(source: Path | IO[bytes], path: Path | str) -> Memory:
    """Read from a file or from bytes; errors call it `path`."""
    try:
        with zipfile.ZipFile(source) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
    except FileNotFoundError:
        raise StoreError(f"there is no file {path}") from None
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, MemoryError) as problem:
        raise StoreError(f"{path} is not a complete memory file ({problem}); restore it from a copy") from None
    header = _header(contents.pop(_HEADER, b""), contents.pop(_HEADER_DIGEST, b""), path)
    arrays = _arrays(contents, header, path)
    try:
        payloads = _split(arrays["payload"], arrays["payload_end"])
        memory = build_memory(
            header, arrays, payloads=payloads, salts=_salts(arrays["salt"]), archive=_archive(arrays, header)
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, MemoryError) as problem:
        raise VerificationError(f"{path} is not consistent ({problem!r}); restore it from a copy") from None
    if memory.digest != header["digest"]:
        raise VerificationError(f"{path} does not have the state digest that its header states")
    if not memory.version.check.passed:
        raise VerificationError(f"{path} holds a state that fails the check: residual {memory.version.check.worst:.3g}")
    return memory


def _members(memory: Memory) -> tuple[dict[str, bytes], bytes]:
    version = memory.version
    state, entries = version.state, version.entries
    kept = state.present()
    renumbered = np.full(state.sites, -1, dtype=np.int64)
    renumbered[kept] = np.arange(kept.size)
    slots = version.slots.tolist()
    warranties = version.warranties
    anchors = list(warranties.anchors.values())
    archive = list(warranties.archive.values())
    payload, payload_end = _joined([entries.payloads[slot] for slot in slots])
    archive_payload, archive_payload_end = _joined([entry.payload for entry in archive])
    dimension, width = state.gram.keys.shape[1], entries.values.shape[1]
    arrays: dict[str, AnyArray] = {
        "keys": state.gram.keys[kept],
        "values": version.values,
        "alpha": state.alpha[kept],
        "status": state.status[kept],
        "site": renumbered[version.sites],
        "margin": renumbered[state.margin.members],
        "payload": payload,
        "payload_end": payload_end,
        "salt": _bytes(entries.salts[slot] for slot in slots),
        "anchor_alpha": _by_site([anchor.alpha for anchor in anchors], kept),
        "anchor_similarity": _by_site([anchor.similarity for anchor in anchors], kept),
        "archive_keys": np.array([entry.key for entry in archive]).reshape(-1, dimension),
        "archive_values": np.array([entry.value for entry in archive]).reshape(-1, width),
        "archive_payload": archive_payload,
        "archive_payload_end": archive_payload_end,
        "archive_salt": _bytes(entry.salt for entry in archive),
    }
    members = {}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(array.astype(_ARRAYS[name], copy=False)), allow_pickle=False)
        members[f"{name}.npy"] = buffer.getvalue()
    header = {
        "format": FORMAT,
        "cap": state.cap.hex(),
        "sigma": state.gram.sigma.hex(),
        "offset": state.offset.hex(),
        "exact": state.exact,
        "initial_size": memory.initial_size,
        "nu": None if memory.nu is None else memory.nu.hex(),
        "next_id": memory.next_id,
        "ids": list(memory.ids),
        "subjects": list(memory.subjects),
        "digest": version.digest,
        "edit": version.edit,
        "anchors": [
            {
                "number": number,
                "edit": anchor.edit,
                "offset": anchor.offset.hex(),
                "norm_squared": anchor.norm_squared.hex(),
                "reach": anchor.reach.hex(),
                "gone": anchor.gone.hex(),
            }
            for number, anchor in warranties.anchors.items()
        ],
        "pruned": [
            {
                "id": name,
                "anchor": record.anchor,
                "mode": record.mode,
                "subject": record.subject,
                "similarity": record.similarity.hex(),
                "rest": record.rest.hex(),
                "neighbours": renumbered[record.neighbours].tolist(),
                "kernels": [kernel.hex() for kernel in record.kernels.tolist()],
                "expired_at": record.expired_at,
            }
            for name, record in warranties.records.items()
        ],
        "archived": [[name, entry.subject] for name, entry in warranties.archive.items()],
        "travel": warranties.travel.hex(),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in members.items()},
    }
    return members, json.dumps(header, ensure_ascii=False, sort_keys=True).encode("utf-8")


def _joined(payloads: list[bytes | None]) -> tuple[AnyArray, AnyArray]:
    """Payloads end to end, and where each ends; None and empty are told apart by their leading byte."""
    parts = [payload or b"" for payload in payloads]
    return _bytes(parts), np.cumsum([len(part) for part in parts], dtype=np.int64)


def _bytes(parts: Iterable[bytes]) -> AnyArray:
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


def _by_site(rows: list[Vector], kept: IndexArray) -> Matrix:
    """One row per anchor, over the kept sites; sites added since have no weight there."""
    table = np.zeros((len(rows), kept.size))
    for number, row in enumerate(rows):
        known = kept < row.size
        table[number, known] = row[kept[known]]
    return table


def _header(text: bytes, digest: bytes, path: Path | str) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise StoreError(f"{path} has no readable header; it is not a memory file or is damaged") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise StoreError(f"{path} is not in the format {FORMAT}; it may come from another version")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise VerificationError(f"{path} was altered or is incomplete: {_HEADER} does not match {_HEADER_DIGEST}")
    return header


def _arrays(contents: dict[str, bytes], header: dict[str, Any], path: Path | str) -> dict[str, AnyArray]:
    stated = header.get("sha256")
    expected = {f"{name}.npy" for name in _ARRAYS}
    if not isinstance(stated, dict) or set(stated) != expected or set(contents) != expected:
        raise VerificationError(f"{path} does not hold the members that its header lists")
    arrays = {}
    for name, kind in _ARRAYS.items():
        content = contents[f"{name}.npy"]
        if hashlib.sha256(content).hexdigest() != stated[f"{name}.npy"]:
            raise VerificationError(f"{path} was altered: {name}.npy does not match its digest")
        try:
            arrays[name] = np.load(io.BytesIO(content), allow_pickle=False)
        except (ValueError, EOFError, OSError, MemoryError, OverflowError) as problem:
            raise VerificationError(f"{path}: {name}.npy cannot be read ({problem})") from None
        if arrays[name].dtype != np.dtype(kind):
            raise VerificationError(f"{path}: {name}.npy has type {arrays[name].dtype}, not {kind}")
    return arrays


def build_memory(
    header: dict[str, Any],
    arrays: dict[str, AnyArray],
    *,
    payloads: list[bytes | None],
    salts: list[bytes],
    archive: dict[str, Archived],
) -> Memory:
    """A memory from its parts, as a file has them and as the rows of a store give them. Solves nothing.

    `header` has the scalars, ids, subjects, anchors and records of pruned entries as the file's JSON does; `arrays`
    those of the file that are no payload, no salt and no archive. Payloads and salts are in row order.
    """
    from expunge.memory.memory import Memory

    ids, subjects, site = header["ids"], header["subjects"], arrays["site"]
    size, sites = len(ids), arrays["keys"].shape[0]
    if not (size == len(subjects) == site.size == len(payloads) == len(salts) == arrays["values"].shape[0]):
        raise InputError("columns differ in length")
    if arrays["alpha"].shape != (sites,) or arrays["status"].shape != (sites,):
        raise InputError("columns differ in length")
    if any(len(salt) != SALT_BYTES for salt in salts):
        raise InputError(f"a salt has {SALT_BYTES} bytes")
    counts = np.bincount(site, minlength=sites)
    gram = KernelRows(arrays["keys"], float.fromhex(header["sigma"]))
    state = State.start(gram, counts, float.fromhex(header["cap"]))
    state.alpha[:sites] = arrays["alpha"]
    state.status[:sites] = arrays["status"]
    state.offset, state.exact = float.fromhex(header["offset"]), bool(header["exact"])
    gram.require(state.active())
    members = arrays["margin"]
    if not np.array_equal(np.sort(members), np.flatnonzero(state.status[:sites] == MARGIN)) and state.exact:
        raise InputError("the margin does not match the partition")
    if members.size and state.exact and not state.margin.refresh(members, gram.block(members, members)):
        state.exact = False
    state.recompute_slacks()
    entries = Entries(arrays["values"].shape[1], size)
    keys = row_bytes(gram.keys[:sites])
    key_of_entry = [keys[number] for number in site]
    entries.extend(ids, key_of_entry, arrays["values"], site, subjects, payloads, b"".join(salts))
    check: StateCheck = check_candidate(state, counts)
    numbers = {key: number for number, key in enumerate(keys)}
    alive = np.ones(entries.site.size, dtype=bool)
    warranties = _warranties(header, arrays, archive, sites)
    version = Version(state, entries, size, alive, size, check, numbers, warranties, int(header["edit"]))
    nu = None if header["nu"] is None else float.fromhex(header["nu"])
    size, next_id = int(header["initial_size"]), int(header["next_id"])
    return Memory(version, initial_size=size, nu=nu, next_id=next_id)


def _warranties(
    header: dict[str, Any], arrays: dict[str, AnyArray], archive: dict[str, Archived], sites: int
) -> Warranties:
    alpha, similarity = arrays["anchor_alpha"], arrays["anchor_similarity"]
    if alpha.shape != similarity.shape or alpha.shape != (len(header["anchors"]), sites):
        raise InputError("anchors differ in size")
    anchors = {
        int(item["number"]): Anchor(
            int(item["edit"]),
            alpha[row].copy(),
            similarity[row].copy(),
            *(float.fromhex(item[name]) for name in ("offset", "norm_squared", "reach", "gone")),
        )
        for row, item in enumerate(header["anchors"])
    }
    records = {
        item["id"]: Record(
            int(item["anchor"]),
            item["mode"],
            item["subject"],
            float.fromhex(item["similarity"]),
            float.fromhex(item["rest"]),
            np.array(item["neighbours"], dtype=np.int64),
            np.array([float.fromhex(text) for text in item["kernels"]]),
            item["expired_at"],
        )
        for item in header["pruned"]
    }
    if any(np.unique(record.neighbours).size < record.neighbours.size for record in records.values()):
        raise InputError("a warranty names a neighbour twice")
    if not {record.anchor for record in records.values()} <= set(anchors):
        raise InputError("a warranty refers to an anchor that is not there")
    if {name for name, record in records.items() if record.mode == "archive"} != set(archive):
        raise InputError("the archive does not match the warranties")
    return Warranties(anchors, records, archive, float.fromhex(header["travel"]))


def _archive(arrays: dict[str, AnyArray], header: dict[str, Any]) -> dict[str, Archived]:
    """Archived entries of a file, by id."""
    payloads = _split(arrays["archive_payload"], arrays["archive_payload_end"])
    salts = _salts(arrays["archive_salt"])
    return {
        name: Archived(
            arrays["archive_keys"][row].copy(),
            arrays["archive_values"][row].copy(),
            subject,
            payloads[row],
            salts[row],
        )
        for row, (name, subject) in enumerate(header["archived"])
    }


def _split(payload: AnyArray, ends: AnyArray) -> list[bytes | None]:
    content = payload.tobytes()
    return [content[start:end] or None for start, end in pairwise([0, *ends.tolist()])]


def _salts(joined: AnyArray) -> list[bytes]:
    content = joined.tobytes()
    return [content[start : start + SALT_BYTES] for start in range(0, len(content), SALT_BYTES)]
