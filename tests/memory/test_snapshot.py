"""One file for one memory: it comes back bit for bit, and anything truncated, altered or foreign is refused.

Two kinds of alteration: damage (bytes flipped, cut, missing), which the archive's checksums find, and forgery (a
well-formed archive with other content and matching checksums), which the memory's own checks must find.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agreement import assert_sound, fitted, raised_by, snapshot
from expunge import ExpungeError, Memory, StoreError, VerificationError
from expunge.verify.state_file import read_state
from problems import PROBLEMS

HEADER = "header.json"
SEAL = "header.sha256"


def ward() -> Memory:
    rng = np.random.default_rng(0)
    keys = np.vstack([rng.standard_normal((18, 3)), np.zeros((2, 3))])
    memory = Memory.fit(
        keys,
        rng.standard_normal((20, 2)),
        sigma=2.0,
        nu=0.4,
        ids=[f"entry-{row} ü" for row in range(20)],
        subjects=[None if row % 2 else f"patient-{row % 3}" for row in range(20)],
        payloads=[[None, b"raw\x00", {"text": "ü"}, ""][row % 4] for row in range(20)],
    )
    memory.delete(["entry-3 ü", "entry-10 ü"])
    memory.prune("forget", sketch=1)
    memory.admit([1.0, 1.0, 1.0], [0.5, 0.5], id="late", payload=b"")
    return memory


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ward.memory"
    ward().save(path)
    return path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, contents: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def forge(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Rewrite a file with other arrays or header, and with checksums to match."""
    contents = members(path)
    header = json.loads(contents.pop(HEADER))
    del contents[SEAL]
    arrays = {name: np.load(io.BytesIO(content)) for name, content in contents.items()}
    change(arrays, header)
    for name, array in arrays.items():
        if not isinstance(array, bytes):
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=True)
            array = buffer.getvalue()
        contents[name] = array
    header["sha256"] = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    text = json.dumps(header).encode()
    write(path, {**contents, HEADER: text, SEAL: hashlib.sha256(text).hexdigest().encode()})


def refused(path: Path) -> ExpungeError:
    """Loading raises one of the two errors that a file can raise, and says something."""
    problem = raised_by(lambda: Memory.load(path))
    assert isinstance(problem, StoreError | VerificationError), f"not refused: {problem!r}"
    assert str(path) in str(problem)
    return problem


def published(found: dict[str, Any]) -> dict[str, Any]:
    """What a file keeps: nothing of the solver, and not what the cap was set for."""
    offset, cap, sigma, _, _, size = found["numbers"]
    kept = {name: part for name, part in found.items() if name not in ("state", "margin", "factor", "exact")}
    return {**kept, "numbers": (offset, cap, sigma, size)}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_memory_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    memory = fitted(PROBLEMS[name])
    memory.save(tmp_path / "memory")
    again = Memory.load(tmp_path / "memory")
    before, after = (published(snapshot(each)) for each in (memory, again))
    assert after == before
    assert_sound(again)
    again.save(tmp_path / "twice")
    assert (tmp_path / "twice").read_bytes() == (tmp_path / "memory").read_bytes()


def test_entries_come_back_with_everything(file: Path) -> None:
    memory, again = ward(), Memory.load(file)
    assert (again.ids, again.subjects) == (memory.ids, memory.subjects)
    assert [again.payload(name) for name in again.ids] == [memory.payload(name) for name in memory.ids]
    assert again.values.tobytes() == memory.values.tobytes()
    assert again.keys.tobytes() == memory.keys.tobytes()
    assert (again.nu, again.initial_size, again.cap, again.sigma) == (None, None, memory.cap, memory.sigma)
    assert again.read(memory.keys).tobytes() == memory.read(memory.keys).tobytes()


def test_edits_go_on_where_they_stopped(file: Path) -> None:
    memory = Memory.load(file)
    twin = Memory.load(file)
    for each in (memory, twin):
        receipt = each.admit([2.0, 0.0, -1.0], [0.0, 0.0], id="later")
        assert len(receipt.attempts) == 1
        assert receipt.attempts[0].path in ("path", "reserve")
        each.delete("entry-5 ü")
        # One of the two zero keys goes: the other must still be found when a third copy comes.
        each.delete("entry-18 ü")
        each.admit([0.0, 0.0, 0.0], [0.0, 0.0], id="zero")
        assert_sound(each)
    assert memory.coefficients.tobytes() == twin.coefficients.tobytes()
    with pytest.raises(ValueError, match="taken"):
        memory.admit([2.0, 0.0, -1.0], [0.0, 0.0], id="later")


def test_a_file_holds_nothing_of_a_deleted_entry(tmp_path: Path) -> None:
    memory = Memory.fit(
        np.random.default_rng(3).standard_normal((20, 3)),
        np.random.default_rng(4).standard_normal((20, 2)),
        sigma=2.0,
        nu=0.4,
        ids=[f"<entry {row}>" for row in range(20)],
        subjects=[f"<subject {row}>" for row in range(20)],
        payloads=[f"<payload {row}>" for row in range(20)],
    )
    salt = memory.version.entries.salts[7]
    secrets = [memory.keys[7].tobytes(), memory.values[7].tobytes(), salt, b"<entry 7>", b"<subject 7>", b"<payload 7>"]
    memory.save(tmp_path / "before")
    memory.delete("<entry 7>")
    memory.save(tmp_path / "after")
    before, after = (tmp_path / "before").read_bytes(), (tmp_path / "after").read_bytes()
    assert all(secret in before for secret in secrets)
    assert not any(secret in after for secret in secrets)


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    memory = ward()
    for name in ("one", "two"):
        memory.save(str(tmp_path / name))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_nothing_in_the_file_is_executable(file: Path) -> None:
    contents = members(file)
    assert HEADER in contents
    json.loads(contents.pop(HEADER))
    assert len(contents.pop(SEAL)) == 64
    for content in contents.values():
        assert np.load(io.BytesIO(content), allow_pickle=False).dtype.kind in "fiu"


def test_a_truncated_file_is_refused(file: Path) -> None:
    whole = file.read_bytes()
    for percent in range(100):
        file.write_bytes(whole[: len(whole) * percent // 100])
        assert isinstance(refused(file), StoreError), f"{percent} %"


def test_the_last_bytes_matter(file: Path) -> None:
    whole = file.read_bytes()
    for cut in range(1, 40):
        file.write_bytes(whole[:-cut])
        refused(file)


def test_damage_anywhere_is_refused_or_harmless(file: Path) -> None:
    """Bytes of the archive's own bookkeeping (dates, attributes) may change; nothing of the memory may."""
    whole, intact = file.read_bytes(), snapshot(Memory.load(file))
    harmless = 0
    for position in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        file.write_bytes(bytes(damaged))
        try:
            memory = Memory.load(file)
        except (StoreError, VerificationError):
            continue
        assert snapshot(memory) == intact
        harmless += 1
    assert harmless < 0.25 * len(whole) / 7


def test_every_member_is_under_its_checksum(file: Path) -> None:
    contents = members(file)
    for name, content in contents.items():
        if name == HEADER:
            continue
        for position in {0, 10, len(content) // 2, len(content) - 1}:
            altered = bytearray(content)
            altered[position] ^= 1
            write(file, {**contents, name: bytes(altered)})
            problem = refused(file)
            assert isinstance(problem, VerificationError)
            assert name in str(problem)


def test_missing_and_surplus_members(file: Path) -> None:
    contents = members(file)
    for name in contents:
        write(file, {other: content for other, content in contents.items() if other != name})
        refused(file)
    write(file, {**contents, "extra.npy": b"x"})
    assert isinstance(refused(file), VerificationError)
    write(file, {})
    refused(file)


def test_a_compressed_copy_is_the_same_memory_until_damaged(file: Path) -> None:
    digest, contents = Memory.load(file).digest, members(file)
    write(file, contents, zipfile.ZIP_DEFLATED)
    assert Memory.load(file).digest == digest
    whole = file.read_bytes()
    for position in range(100, len(whole), 301):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        file.write_bytes(bytes(damaged))
        problem = raised_by(lambda: Memory.load(file))
        assert problem is None or isinstance(problem, StoreError | VerificationError)


NASTY: list[Any] = [
    None,
    "",
    "x",
    0,
    -1,
    10**30,
    1.5,
    True,
    [],
    [1],
    ["a", "a"],
    {},
    "0x0p+0",
    "-0x1p+0",
    "nan",
    "inf",
    "0x1p99999",
    "\ud800",
]


def header_fields() -> list[str]:
    return [
        "format",
        "cap",
        "sigma",
        "offset",
        "anchors",
        "forgotten",
        "ids",
        "subjects",
        "digest",
        "sha256",
    ]


@pytest.mark.parametrize("field", header_fields())
def test_every_header_field_is_needed_and_of_its_kind(field: str, file: Path) -> None:
    contents = members(file)
    header = json.loads(contents[HEADER])
    assert field in header
    without = {name: value for name, value in header.items() if name != field}
    write(file, {**contents, HEADER: json.dumps(without).encode()})
    refused(file)
    for value in NASTY:
        if value == header[field]:
            continue
        write(file, {**contents, HEADER: json.dumps({**header, field: value}).encode()})
        refused(file)


@pytest.mark.parametrize("field", header_fields())
def test_every_plausible_change_of_the_header_is_found(field: str, file: Path) -> None:
    contents = members(file)
    header = json.loads(contents[HEADER])
    value = header[field]
    changed: Any
    if isinstance(value, bool):
        changed = not value
    elif isinstance(value, int):
        changed = value + 1
    elif isinstance(value, list):
        changed = [*value[1:], value[0]]
    elif isinstance(value, dict):
        changed = dict.fromkeys(value, "0" * 64)
    elif value.lstrip("-").startswith("0x"):
        changed = float(np.nextafter(float.fromhex(value), np.inf)).hex()
    else:
        changed = value[::-1]
    write(file, {**contents, HEADER: json.dumps({**header, field: changed}).encode()})
    refused(file)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"format": "other"}'])
def test_a_header_that_is_none(text: bytes, file: Path) -> None:
    write(file, {**members(file), HEADER: text})
    assert isinstance(refused(file), StoreError)


def test_another_format_is_named(file: Path) -> None:
    contents = members(file)
    header = json.loads(contents[HEADER])
    write(file, {**contents, HEADER: json.dumps({**header, "format": "expunge/memory/v0"}).encode()})
    assert "expunge/memory/v2" in str(refused(file))


OLD = Path(__file__).parent / "data" / "format-v1.memory"


def test_a_file_of_the_old_format_is_fitted_afresh_and_keeps_nothing_of_its_warranties(tmp_path: Path) -> None:
    """It was written with 14 entries, 6 of them forgotten, and 4 more, all archived."""
    memory = Memory.load(OLD)
    assert {*memory.ids[-4:]} == {f"later-{number}" for number in range(4)}
    assert (memory.payload("entry-6"), memory.payload("entry-5")) == ({"text": "ü"}, b"raw")
    rows = memory.warranties()
    assert len(rows) == 6
    assert {(row.mode, row.status, row.slack) for row in rows} == {("forget", "ended", None)}
    assert len(memory) == 12
    fresh = Memory.fit(memory.keys, memory.values, sigma=memory.sigma, cap=memory.cap)
    assert memory.coefficients.tobytes() == fresh.coefficients.tobytes()
    memory.save(tmp_path / "new")
    assert Memory.load(tmp_path / "new").digest == memory.digest
    assert "expunge/memory/v2" in members(tmp_path / "new")[HEADER].decode()


@pytest.mark.parametrize("name", ["keys.npy", "site.npy", "archive_keys.npy", "salt.npy", "payload_end.npy"])
def test_an_altered_file_of_the_old_format_is_refused(name: str, tmp_path: Path) -> None:
    contents = members(OLD)
    altered = bytearray(contents[name])
    altered[-1] ^= 1
    write(tmp_path / "altered", {**contents, name: bytes(altered)})
    assert isinstance(refused(tmp_path / "altered"), VerificationError)
    write(tmp_path / "shorter", {other: content for other, content in contents.items() if other != name})
    assert isinstance(refused(tmp_path / "shorter"), VerificationError)

    def cut(arrays: dict[str, Any], _: dict[str, Any]) -> None:
        arrays[name] = arrays[name][:-1]

    (tmp_path / "forged").write_bytes(OLD.read_bytes())
    forge(tmp_path / "forged", cut)
    assert isinstance(refused(tmp_path / "forged"), VerificationError)


class Bomb:
    """Pickled, it runs a command when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("pickle-was-run",)


@pytest.mark.parametrize("name", ["keys.npy", "values.npy", "payload.npy", "salt.npy"])
def test_a_smuggled_pickle_is_not_run(name: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)

    def smuggle(arrays: dict[str, Any], _: dict[str, Any]) -> None:
        arrays[name] = np.array([Bomb()], dtype=object)

    intact = file.read_bytes()
    forge(file, smuggle)
    assert isinstance(refused(file), VerificationError)
    file.write_bytes(intact)

    def plain(arrays: dict[str, Any], _: dict[str, Any]) -> None:
        arrays[name] = pickle.dumps(Bomb())

    forge(file, plain)
    assert isinstance(refused(file), VerificationError)
    assert not (file.parent / "pickle-was-run").exists()


def with_array(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def forgery(arrays: dict[str, Any], _: dict[str, Any]) -> None:
        arrays[name] = change(arrays[name].copy())

    return forgery


def put(position: Any, value: Any) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[position] = value
        return array

    return change


FORGERIES = {
    "key-moved": with_array("keys.npy", put((2, 1), 0.123)),
    "key-nan": with_array("keys.npy", put((2, 1), np.nan)),
    "key-inf": with_array("keys.npy", put((2, 1), np.inf)),
    "keys-flat": with_array("keys.npy", lambda a: a.ravel()),
    "keys-fewer": with_array("keys.npy", lambda a: a[:-1]),
    "keys-none": with_array("keys.npy", lambda a: a[:0]),
    "keys-no-columns": with_array("keys.npy", lambda a: a[:, :0]),
    "keys-wider": with_array("keys.npy", lambda a: np.hstack([a, a])),
    "keys-single-precision": with_array("keys.npy", lambda a: a.astype(np.float32)),
    "value-moved": with_array("values.npy", put((2, 1), 0.123)),
    "value-nan": with_array("values.npy", put((2, 1), np.nan)),
    "values-fewer": with_array("values.npy", lambda a: a[:-1]),
    "values-flat": with_array("values.npy", lambda a: a[:, 0].copy()),
    "alpha-moved": with_array("alpha.npy", lambda a: a + 1e-6),
    "alpha-nan": with_array("alpha.npy", put(0, np.nan)),
    "alpha-shorter": with_array("alpha.npy", lambda a: a[:-1]),
    "alpha-uniform": with_array("alpha.npy", lambda a: np.full(a.shape, 1.0 / a.size)),
    "archived-all": with_array("archived.npy", lambda a: np.ones_like(a)),
    "archived-other": with_array("archived.npy", put(0, 2)),
    "archived-weighty": with_array("archived.npy", put(0, 1)),
    "archived-shorter": with_array("archived.npy", lambda a: a[:-1]),
    "anchor-row-negative": with_array("anchor_rows.npy", put(0, -1)),
    "anchor-row-too-large": with_array("anchor_rows.npy", put(-1, 10**6)),
    "anchor-rows-swapped": with_array("anchor_rows.npy", lambda a: a[::-1].copy()),
    "anchor-rows-fewer": with_array("anchor_rows.npy", lambda a: a[:-1]),
    "anchor-weight-moved": with_array("anchor_alpha.npy", put(0, 0.5)),
    "anchor-weight-negative": with_array(
        "anchor_alpha.npy", lambda a: np.concatenate([[-a[1], a[0] + 2 * a[1]], a[2:]])
    ),
    "anchor-weight-nan": with_array("anchor_alpha.npy", put(0, np.nan)),
    "payload-cut": with_array("payload.npy", lambda a: a[:-1]),
    "payload-end-backwards": with_array("payload_end.npy", lambda a: a[::-1].copy()),
    "payload-end-negative": with_array("payload_end.npy", put(-1, -3)),
    "salt-moved": with_array("salt.npy", put(0, 7)),
    "salt-cut": with_array("salt.npy", lambda a: a[:-1]),
    "huge-shape": lambda arrays, _: arrays.update({"keys.npy": huge_array()}),
    "not-npy": lambda arrays, _: arrays.update({"keys.npy": b"\x00" * 200}),
}


def huge_array() -> bytes:
    """An .npy header that promises a petabyte."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (2**47, 3)})
    return buffer.getvalue() + b"\x00" * 64


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_array_is_refused(name: str, file: Path) -> None:
    forge(file, FORGERIES[name])
    assert isinstance(refused(file), VerificationError)


def test_a_forged_state_with_its_own_digest_fails_the_check(tmp_path: Path) -> None:
    """The digest is no signature: whoever recomputes it is still caught, here by the sum of the weights.

    Weights that add up are compared with the exact optimum before the first edit (`solver.test_readiness`).
    """
    memory = ward()
    view = memory.version
    view.state.share[: view.state.sites] *= 1.001
    # What the view has computed before is computed again, so that the digest is the forged state's own.
    for cached in set(vars(view)) - {field.name for field in fields(view)}:
        del vars(view)[cached]
    memory.save(tmp_path / "forged")
    assert "the weights add up to" in str(refused(tmp_path / "forged"))


def test_ids_that_repeat_are_refused_even_with_matching_digests(tmp_path: Path) -> None:
    memory = ward()
    first, second = memory.version.slots[:2]
    memory.version.entries.ids[second] = memory.version.entries.ids[first]
    memory.save(tmp_path / "forged")
    refused(tmp_path / "forged")


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "there is no file" in str(refused(tmp_path / "nothing"))
    (tmp_path / "folder").mkdir()
    assert isinstance(refused(tmp_path / "folder"), StoreError)
    (tmp_path / "text").write_text("not a memory")
    assert isinstance(refused(tmp_path / "text"), StoreError)
    np.savez(tmp_path / "arrays.npz", keys=np.zeros(3))
    assert isinstance(refused(tmp_path / "arrays.npz"), StoreError)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    memory = ward()
    before = snapshot(memory)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    for path in (
        tmp_path / "folder",
        tmp_path / "none" / "memory",
        tmp_path / "file" / "memory",
        tmp_path / ("x" * 5000),
    ):
        with pytest.raises(StoreError, match="cannot write"):
            memory.save(path)
    assert snapshot(memory) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize("failing", ["os.fsync", "zipfile.ZipFile.writestr", "pathlib.Path.replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt(), MemoryError()])
def test_a_failed_write_leaves_the_old_file(
    failing: str, error: BaseException, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = file.read_bytes()
    memory = Memory.load(file)
    memory.delete("entry-1 ü")

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(failing, fail)
        with pytest.raises(StoreError if isinstance(error, OSError) else type(error)):
            memory.save(file)
    assert file.read_bytes() == old
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    memory.save(file)
    assert Memory.load(file).digest == memory.digest


@pytest.mark.parametrize("read", [Memory.load, read_state])
def test_a_file_that_unpacks_to_more_than_it_has_is_not_unpacked(
    file: Path, read: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = members(file) | {"keys.npy": bytes(257 << 20)}
    write(file, packed, zipfile.ZIP_DEFLATED)
    monkeypatch.setattr(zipfile.ZipFile, "read", None)
    with pytest.raises((StoreError, VerificationError), match="unpacks to more"):
        read(file)
