"""Changing one thing at a time in receipts and bundles, with or without making up for it."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

from expunge.ledger.encoding import dump_canonical
from expunge.ledger.envelope import Envelope, sign_statement
from expunge.ledger.receipt_format import PREDICATE_TYPE
from expunge.ledger.signing import SigningKey
from expunge.ledger.statement import Statement, Subject

from .cases import SIGNER, Case

Path = tuple[str | int, ...]
DROP = object()


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value that is neither object nor list, and every empty one."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = list(items)
    if not found:
        yield path, value
    for key, item in found:
        yield from leaves(item, (*path, key))


def objects(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every object, the outermost included."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield path
    for key, item in items:
        yield from objects(item, (*path, key))


def put(document: Any, path: Path, value: Any) -> Any:
    """A copy with one value replaced, added, or dropped."""
    changed = copy.deepcopy(document)
    *way, last = path
    at = changed
    for key in way:
        at = at[key]
    if value is DROP:
        del at[last]
    else:
        at[last] = value
    return changed


def spelled(path: Path) -> str:
    """A path as text, with list indices left out."""
    return ".".join("[]" if isinstance(key, int) else key for key in path)


def document(case: Case) -> Any:
    """The predicate as plain JSON."""
    return json.loads(case.statement.to_bytes())["predicate"]


def forge(case: Case, predicate: Any, *, key: SigningKey = SIGNER, subjects: bool = False) -> bytes:
    """A signed receipt with this predicate; with ``subjects``, those follow its states."""
    about = case.statement.subjects
    if subjects:
        states = predicate["state"]
        about = (Subject("state_after", states["after"]), Subject("state_before", states["before"]))
    return sign_statement(Statement(about, PREDICATE_TYPE, predicate), key).to_bytes()


def unsigned(case: Case, predicate: Any) -> bytes:
    """The receipt with this predicate under the signature of the old one."""
    from expunge.ledger.envelope import parse_envelope

    whole = json.loads(case.statement.to_bytes())
    whole["predicate"] = predicate
    return Envelope(dump_canonical(whole), parse_envelope(case.envelope).signatures).to_bytes()


def members(bundle: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(contents: dict[str, bytes]) -> bytes:
    """A bundle's container around these files, in this order."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o600 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def rebundle(
    bundle: bytes,
    changes: dict[str, bytes | None] | None = None,
    manifest: Callable[[Any], Any] = lambda manifest: manifest,
) -> bytes:
    """The bundle with files replaced or taken out, the manifest's digests made right, and then changed itself."""
    contents = members(bundle)
    stated = json.loads(contents.pop("manifest.json"))
    for name, content in (changes or {}).items():
        if content is None:
            contents.pop(name, None)
        else:
            contents[name] = content
    stated["members"] = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    return packed({"manifest.json": dump_canonical(manifest(stated)), **dict(sorted(contents.items()))})


def restated(bundle: bytes, path: Path, value: Any) -> bytes:
    """The bundle with one value of its manifest replaced, added, or dropped."""
    return rebundle(bundle, manifest=lambda manifest: put(manifest, path, value))
