"""One file for one memory: a ZIP of .npy arrays and a JSON header. No pickle, no code, nothing executable.

The header carries SHA-256 of every member and the state digest, which is recomputed on load: a truncated or altered
file is refused. The digest is not a signature; receipts are what is signed. That the weights are the exact optimum of
the entries is found out before the first edit (`Memory.make_ready`), and by ``expunge verify state``.

The file is a function of the entries, live and archived, in their order of admission, of cap and width, and of the
records of forgotten entries: two memories that hold the same write the same bytes, whatever either held before. So it
has no counter, no edit number and nothing of the solver: sites, partition and margin are derived on load.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from expunge.certificates.warranty import Anchor, Archived, Forgotten, Warranties
from expunge.errors import InputError, StoreError, VerificationError
from expunge.ledger.commitment import SALT_BYTES
from expunge.ledger.file_writing import new_file
from expunge.ledger.packed_files import check_unpacked
from expunge.memory.entries import Entries, check_id, check_ids, check_subject, check_subjects
from expunge.memory.version import Version
from expunge.preprocessing.preprocessing import Preprocessing
from expunge.problem.problem import Problem, row_bytes
from expunge.problem.tolerances import PUBLISHED
from expunge.solver.cold_fit import distinct_sites
from expunge.solver.kernel_rows import KernelRows
from expunge.solver.state import State
from expunge.types import AnyArray, IndexArray, Matrix, Vector

if TYPE_CHECKING:
    from expunge.memory.memory import Memory

__all__ = [
    "build_memory",
    "forgotten_records",
    "load",
    "pack",
    "save",
    "unpack",
    "warranty_arrays",
    "warranty_header",
]

FORMAT = "expunge/memory/v2"
OLD_FORMAT = "expunge/memory/v1"
_HEADER = "header.json"
_HEADER_DIGEST = "header.sha256"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_ARRAYS = {
    "keys": "<f8",
    "values": "<f8",
    "alpha": "<f8",
    "archived": "|u1",
    "payload": "|u1",
    "payload_end": "<i8",
    "salt": "|u1",
    "anchor_rows": "<i8",
    "anchor_alpha": "<f8",
}
# Of the old format, what its entries are read from.
_OLD_ARRAYS = {
    **{name: _ARRAYS[name] for name in ("keys", "values", "payload", "payload_end", "salt")},
    "site": "<i8",
    **{f"archive_{name}": _ARRAYS[name] for name in ("keys", "values", "payload", "payload_end", "salt")},
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


def _write(file: IO[bytes], members: dict[str, bytes], header: bytes) -> None:
    digest = hashlib.sha256(header).hexdigest().encode()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for member, content in {**members, _HEADER: header, _HEADER_DIGEST: digest}.items():
            archive.writestr(zipfile.ZipInfo(member, _EPOCH), content)


def _read(source: Path | IO[bytes], path: Path | str) -> Memory:
    """Read from a file or from bytes; errors call it `path`."""
    try:
        with zipfile.ZipFile(source) as archive:
            check_unpacked(archive, source.stat().st_size if isinstance(source, Path) else source.seek(0, io.SEEK_END))
            contents = {name: archive.read(name) for name in archive.namelist()}
    except FileNotFoundError:
        raise StoreError(f"there is no file {path}") from None
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, MemoryError) as problem:
        raise StoreError(f"{path} is not a complete memory file ({problem}); restore it from a copy") from None
    header = _header(contents.pop(_HEADER, b""), contents.pop(_HEADER_DIGEST, b""), path)
    arrays = _arrays(contents, header, path)
    try:
        if header["format"] == OLD_FORMAT:
            return _refitted(header, arrays)
        payloads = _split(arrays["payload"], arrays["payload_end"])
        memory = build_memory(header, arrays, payloads=payloads, salts=_salts(arrays["salt"]))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, MemoryError) as problem:
        raise VerificationError(f"{path} is not consistent ({problem!r}); restore it from a copy") from None
    if memory.digest != header["digest"]:
        raise VerificationError(f"{path} does not have the state digest that its header states")
    return memory


def _members(memory: Memory) -> tuple[dict[str, bytes], bytes]:
    version = memory.version
    keys, (values, ids, subjects, payloads, salts) = version.columns(archived=True)
    payload, payload_end = _joined(payloads)
    arrays: dict[str, AnyArray] = {
        "keys": keys,
        "values": values,
        "payload": payload,
        "payload_end": payload_end,
        "salt": np.frombuffer(salts, dtype=np.uint8),
        **warranty_arrays(version),
    }
    members = {}
    for name, kind in _ARRAYS.items():
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(arrays[name].astype(kind, copy=False)), allow_pickle=False)
        members[f"{name}.npy"] = buffer.getvalue()
    header = {
        "format": FORMAT,
        "cap": version.state.cap.hex(),
        "sigma": version.state.gram.sigma.hex(),
        "offset": version.state.offset.hex(),
        "ids": ids,
        "subjects": subjects,
        "digest": version.digest,
        "preprocessing": version.preprocessing.to_json(),
        **warranty_header(version),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in members.items()},
    }
    return members, json.dumps(header, ensure_ascii=False, sort_keys=True).encode("utf-8")


def warranty_arrays(version: Version) -> dict[str, AnyArray]:
    """Coefficients and what is archived, and the anchors end to end, by row of live and archived entries."""
    archived = np.array([entry.slot for entry in version.warranties.archive.values()], dtype=np.int64)
    slots = np.sort(np.concatenate([version.slots, archived]))
    alpha = np.zeros(slots.size)
    alpha[np.searchsorted(slots, version.slots)] = version.coefficients
    anchors = _anchors(version.warranties)
    none = np.zeros(0)
    return {
        "alpha": alpha,
        "archived": np.isin(slots, archived).astype(np.uint8),
        "anchor_rows": np.searchsorted(slots, np.concatenate([none, *(anchor.slots for anchor in anchors)])),
        "anchor_alpha": np.concatenate([none, *(anchor.alpha for anchor in anchors)]),
    }


def warranty_header(version: Version) -> dict[str, Any]:
    """Anchors, and records of forgotten entries, in JSON; rows are those of `warranty_arrays`."""
    archived = [entry.slot for entry in version.warranties.archive.values()]
    slots = np.sort(np.concatenate([version.slots, np.array(archived, dtype=np.int64)]))
    anchors = _anchors(version.warranties)
    number_of = {id(anchor): number for number, anchor in enumerate(anchors)}
    return {
        "anchors": [{"offset": anchor.offset.hex(), "size": int(anchor.slots.size)} for anchor in anchors],
        "forgotten": [
            {
                "id": name,
                "subject": record.subject,
                "anchor": None if record.anchor is None else number_of[id(record.anchor)],
                "similarity": record.similarity.hex(),
                "neighbours": np.searchsorted(slots, record.neighbours).tolist(),
                "kernels": [kernel.hex() for kernel in record.kernels.tolist()],
            }
            for name, record in version.warranties.forgotten.items()
        ],
    }


def _anchors(warranties: Warranties) -> list[Anchor]:
    """Anchors in order of first use."""
    records = warranties.forgotten.values()
    return list({id(record.anchor): record.anchor for record in records if record.anchor is not None}.values())


def _joined(payloads: list[bytes | None]) -> tuple[AnyArray, AnyArray]:
    """Payloads end to end, and where each ends; None and empty are told apart by their leading byte."""
    parts = [payload or b"" for payload in payloads]
    return _bytes(parts), np.cumsum([len(part) for part in parts], dtype=np.int64)


def _bytes(parts: Iterable[bytes]) -> AnyArray:
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


def _header(text: bytes, digest: bytes, path: Path | str) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise StoreError(f"{path} has no readable header; it is not a memory file or is damaged") from None
    if not isinstance(header, dict) or header.get("format") not in (FORMAT, OLD_FORMAT):
        raise StoreError(f"{path} is not in the format {FORMAT}; it may come from another version")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise VerificationError(f"{path} was altered or is incomplete: {_HEADER} does not match {_HEADER_DIGEST}")
    return header


def _arrays(contents: dict[str, bytes], header: dict[str, Any], path: Path | str) -> dict[str, AnyArray]:
    stated = header.get("sha256")
    kinds = _ARRAYS if header["format"] == FORMAT else _OLD_ARRAYS
    expected = {f"{name}.npy" for name in kinds}
    surplus = kinds is not _ARRAYS
    if (
        not isinstance(stated, dict)
        or set(stated) != set(contents)
        or not (expected <= set(contents) if surplus else expected == set(contents))
    ):
        raise VerificationError(f"{path} does not hold the members that its header lists")
    arrays = {}
    for name, kind in kinds.items():
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
    edit: int = 0,
    initial_size: int | None = None,
) -> Memory:
    """A memory from its parts, as a file has them and as the rows of a store give them. Solves nothing.

    `header` has the scalars, ids, subjects, anchors and records of forgotten entries as the file's JSON does; `arrays`
    those of the file that are no payload and no salt. Rows are live and archived entries in order of admission.
    """
    from expunge.memory.memory import Memory

    ids, subjects, keys, alpha = header["ids"], header["subjects"], arrays["keys"], arrays["alpha"]
    size = len(ids)
    if not (size == len(subjects) == len(payloads) == len(salts) == arrays["values"].shape[0] == keys.shape[0]):
        raise InputError("columns differ in length")
    if alpha.shape != (size,) or arrays["archived"].shape != (size,):
        raise InputError("columns differ in length")
    if len(set(ids)) < size:
        raise InputError("two entries have one id")
    if any(len(salt) != SALT_BYTES for salt in salts):
        raise InputError(f"a salt has {SALT_BYTES} bytes")
    # Files of earlier versions say nothing of columns.
    preprocessing = Preprocessing.from_json(header["preprocessing"]) if "preprocessing" in header else Preprocessing()
    preprocessing.require_shapes(keys.shape[1], arrays["values"].shape[1])
    live = np.flatnonzero(arrays["archived"] == 0)
    kept = np.flatnonzero(arrays["archived"] == 1)
    if live.size + kept.size != size or np.any(alpha[kept]):
        raise InputError("an archived entry has a weight, or is neither archived nor live")
    if not live.size and (kept.size or float.fromhex(header["cap"]) != 1.0):
        raise InputError("a memory without live entries has no archived ones either, and its cap is 1")
    state, site_of = _state(keys[live], alpha[live], header)
    entries = Entries(arrays["values"].shape[1], size)
    sites = np.full(size, -1, dtype=np.int64)
    sites[live] = site_of
    entries.extend(ids, row_bytes(keys), arrays["values"], sites, subjects, payloads, b"".join(salts))
    archive = {
        ids[row]: Archived(
            row, keys[row].copy(), arrays["values"][row].copy(), subjects[row], payloads[row], salts[row]
        )
        for row in kept.tolist()
    }
    alive = np.ones(entries.site.size, dtype=bool)
    alive[kept] = False
    version = Version(
        state,
        entries,
        size,
        alive,
        live.size,
        None,
        {},
        Warranties(archive, forgotten_records(header, arrays, size, set(ids))),
        edit,
        preprocessing=preprocessing,
    )
    return Memory(version, initial_size=initial_size)


def _refitted(header: dict[str, Any], arrays: dict[str, AnyArray]) -> Memory:
    """The entries of a file of the old format, archived ones after the live ones, fitted afresh at the same cap.

    What it has of warranties depends on entries that may be erased, so forgotten entries keep id and subject alone.
    """
    from expunge.memory.first_version import first_version
    from expunge.memory.memory import Memory

    archived = header["archived"]
    ids = [*header["ids"], *(item[0] for item in archived)]
    subjects = [*header["subjects"], *(item[1] for item in archived)]
    keys = np.vstack([arrays["keys"][arrays["site"]], arrays["archive_keys"].reshape(len(archived), -1)])
    values = np.vstack([arrays["values"], arrays["archive_values"].reshape(len(archived), -1)])
    payloads = [
        *_split(arrays["payload"], arrays["payload_end"]),
        *_split(arrays["archive_payload"], arrays["archive_payload_end"]),
    ]
    salts = b"".join([*_salts(arrays["salt"]), *_salts(arrays["archive_salt"])])
    problem = Problem.of(keys, sigma=float.fromhex(header["sigma"]), cap=float.fromhex(header["cap"]))
    version, attempts = first_version(
        problem,
        values,
        check_ids(ids, len(keys)),
        check_subjects(subjects, len(keys)),
        payloads,
        salts,
        preprocessing=Preprocessing(),
    )
    forgotten = {
        check_id(item["id"]): Forgotten(check_subject(item["subject"]))
        for item in header["pruned"]
        if item["mode"] == "forget"
    }
    if set(forgotten) & set(ids):
        raise InputError("two entries have one id")
    return Memory(replace(version, warranties=Warranties(forgotten=forgotten)), attempts=attempts)


def _state(keys: Matrix, alpha: Vector, header: dict[str, Any]) -> tuple[State, IndexArray]:
    """The state behind the coefficients of live entries, and the site of each entry."""
    first, site_of = distinct_sites(keys)
    if not np.array_equal(alpha[first][site_of], alpha):
        raise InputError("entries with one key differ in weight")
    counts, cap = np.bincount(site_of, minlength=first.size), float.fromhex(header["cap"])
    gram = KernelRows(keys[first], float.fromhex(header["sigma"]))
    return State.stored(gram, counts, cap, alpha[first], float.fromhex(header["offset"])), site_of


def forgotten_records(
    header: dict[str, Any], arrays: dict[str, AnyArray], size: int, taken: set[str]
) -> dict[str, Forgotten]:
    """Records of forgotten entries; their slots are rows of the file, which are the slots of a new memory."""
    rows, alpha = arrays["anchor_rows"], arrays["anchor_alpha"]
    ends = [0, *np.cumsum([item["size"] for item in header["anchors"]], dtype=np.int64).tolist()]
    if rows.shape != (ends[-1],) or alpha.shape != rows.shape or any(end < start for start, end in pairwise(ends)):
        raise InputError("anchors differ in size")
    anchors = [
        Anchor(rows[start:end].copy(), alpha[start:end].copy(), float.fromhex(item["offset"]))
        for item, (start, end) in zip(header["anchors"], pairwise(ends), strict=True)
    ]
    for anchor in anchors:
        if np.any(np.diff(anchor.slots) <= 0) or np.any((anchor.slots < 0) | (anchor.slots >= size)):
            raise InputError("an anchor names an entry that is not there, or names one twice")
        # What was active then is still here, and weighs one.
        if not (np.all(anchor.alpha >= 0.0) and abs(float(anchor.alpha.sum()) - 1.0) <= PUBLISHED):
            raise InputError("the weights that a certificate was issued against do not add up to one")
    forgotten: dict[str, Forgotten] = {}
    for item in header["forgotten"]:
        name, number = item["id"], item["anchor"]
        neighbours = np.array(item["neighbours"], dtype=np.int64)
        kernels = np.array([float.fromhex(text) for text in item["kernels"]])
        if np.unique(neighbours).size < neighbours.size:
            raise InputError("a certificate names a neighbour twice")
        issued = None if number is None else anchors[range(len(anchors))[number]]
        known = issued is not None and bool(np.isin(neighbours, issued.slots).all())
        if kernels.shape != neighbours.shape or (neighbours.size and not known):
            raise InputError("a certificate refers to a neighbour that is not there")
        if check_id(name) in taken or name in forgotten:
            raise InputError("two entries have one id")
        subject = check_subject(item["subject"])
        forgotten[name] = Forgotten(subject, issued, float.fromhex(item["similarity"]), neighbours, kernels)
    if {id(anchor) for anchor in anchors} != {id(item.anchor) for item in forgotten.values()} - {id(None)}:
        raise InputError("an anchor belongs to no certificate")
    return forgotten


def _split(payload: AnyArray, ends: AnyArray) -> list[bytes | None]:
    content = payload.tobytes()
    return [content[start:end] or None for start, end in pairwise([0, *ends.tolist()])]


def _salts(joined: AnyArray) -> list[bytes]:
    content = joined.tobytes()
    return [content[start : start + SALT_BYTES] for start in range(0, len(content), SALT_BYTES)]
