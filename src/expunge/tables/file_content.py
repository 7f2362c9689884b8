"""The bytes of a file or of standard input, unpacked, and which format they are in.

The content counts before the name: a gzip file is unpacked whatever it is called, and a workbook is named as one.
"""

from __future__ import annotations

import gzip
import io
import sys
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from expunge.errors import InputError, StoreError
from expunge.ledger.packed_files import check_unpacked, unpacked_limit
from expunge.tables.options import FORMATS

__all__ = ["Content", "read_content"]

_SUFFIXES = {"ndjson": "jsonl", "jsonlines": "jsonl", "pq": "parquet", "tab": "tsv"}
_GZIP, _ZIP, _OLD_EXCEL, _PARQUET, _NPY = b"\x1f\x8b", b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"PAR1", b"\x93NUMPY"
_PACKED = {b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf": "7z", b"Rar!": "rar"}
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")


@dataclass(frozen=True)
class Content:
    """What a file holds: its name for messages, the bytes, and their format, one of `FORMATS`."""

    source: str
    data: bytes
    format: str


def read_content(name: str, given: str | None) -> Content:
    """Read a file, or standard input where the name is ``-``, and find its format unless it is given.

    Raises StoreError for a file that cannot be read, and InputError for a format that is not a table's.
    """
    source = "standard input" if name == "-" else name
    try:
        data = _standard_input() if name == "-" else Path(name).read_bytes()
    except FileNotFoundError:
        raise StoreError(f"cannot read {source}: there is no such file") from None
    except OSError as problem:
        raise StoreError(f"cannot read {source}: {problem.strerror or problem}") from None
    inner = name
    if data.startswith(_GZIP):
        data, inner = _gunzipped(source, data), name.removesuffix(".gz")
    elif data.startswith(_ZIP) and given != "npz":
        data, inner = _unzipped(source, data, name)
    if data.startswith(_OLD_EXCEL):
        raise _workbook(source, "an Excel workbook")
    packed = next((what for start, what in _PACKED.items() if data.startswith(start)), None)
    if packed is not None:
        raise InputError(f"{source} is packed with {packed}: unpack it first, or pack it with gzip")
    if given is None and data[:512].lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise InputError(f"{source} is a web page or XML, not a table: fetch the data itself, or save the table as CSV")
    return Content(source, data, given or _format(source, data, inner))


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise OSError("it is closed")
    return sys.stdin.buffer.read()


def _gunzipped(source: str, data: bytes) -> bytes:
    limit = unpacked_limit(len(data))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            found = packed.read(limit + 1)
    except (OSError, EOFError, zlib.error) as problem:
        raise InputError(f"{source} is a damaged gzip file: {problem}") from None
    if len(found) > limit:
        raise InputError(f"{source} unpacks to more than {limit >> 20} MB: unpack it, and give the table itself")
    return found


def _unzipped(source: str, data: bytes, name: str) -> tuple[bytes, str]:
    """The one file in a zip archive and its name; an archive of arrays as it is."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [one for one in archive.namelist() if not one.endswith("/") and not one.startswith("__MACOSX/")]
            if "[Content_Types].xml" in members:
                raise _workbook(source, "an Excel workbook")
            if "content.xml" in members and "mimetype" in members:
                raise _workbook(source, "an OpenDocument spreadsheet")
            if members and all(one.endswith(".npy") for one in members):
                return data, name if name.endswith(".npy") else "arrays.npz"
            if len(members) != 1:
                raise InputError(f"{source} is a zip archive of {len(members)} files: unpack the one that is the table")
            check_unpacked(archive, len(data))
            return archive.read(members[0]), members[0]
    except InputError:
        raise
    except Exception as problem:  # zipfile raises many kinds on damaged archives
        kind = _suffix(name).upper() or "ZIP"
        raise InputError(f"{source} is not a usable {kind} file ({problem}): fetch or save it again") from None


def _workbook(source: str, what: str) -> InputError:
    csv = Path(source).with_suffix(".csv").name
    return InputError(
        f"{source} is {what}, which may hold several sheets and formulas. Open it, choose File, Save As (or Export), "
        f"and the type CSV UTF-8, and give {csv}"
    )


def _format(source: str, data: bytes, name: str) -> str:
    if data.startswith(_PARQUET):
        return "parquet"
    if data.startswith(_NPY):
        return "npy"
    suffix = _suffix(name)
    found = _SUFFIXES.get(suffix, suffix)
    if found in FORMATS:
        return found
    if b"\x00" in data[:4096] and not data.startswith(_BYTE_ORDER_MARKS) and not _is_wide(data):
        raise InputError(f"{source} is not text, and not a table in a known format; use one of {', '.join(FORMATS)}")
    start = data[:64].replace(b"\x00", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")[:1]
    return {b"{": "jsonl", b"[": "json"}.get(start, "csv")


def _is_wide(data: bytes) -> bool:
    """Whether bytes look like UTF-16 without a byte order mark: every other one is zero."""
    head = data[:512]
    return min(head[0::2].count(0), head[1::2].count(0)) == 0 and max(head[0::2].count(0), head[1::2].count(0)) > 9


def _suffix(name: str) -> str:
    return Path(name).suffix.lower().removeprefix(".")
