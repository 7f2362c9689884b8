"""Evidence bundles: what they show is recomputed, what they hide stays hidden, each alteration has its name."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expunge import Memory
from expunge.attestation.evidence import Evidence, Prior, StateShown, _proof, write_evidence
from expunge.errors import InputError, StoreError
from expunge.ledger.commitment import combined, state_digest, weights_digest
from expunge.ledger.encoding import dump_canonical
from expunge.ledger.note import NoteAlgorithm, NoteKey
from expunge.memory.first_version import first_version
from expunge.problem.kernel import kernel_block
from expunge.problem.problem import Problem
from expunge.types import AnyArray
from expunge.verify import verify_evidence
from expunge.verify.evidence_format import parse_bundle
from expunge.verify.proof_format import Proof
from raising import raises_code

from .alter import DROP, document, forge, leaves, members, objects, packed, put, rebundle, restated, spelled
from .alter import Path as Place
from .cases import LOG_KEYS, ORIGIN, TRUSTED, case, ledger, ward_memory

NAMES = list(ledger().cases)
# Its memory has columns.
COLUMNS = "forgetting-later"
# It has a prior state in full, a proof and an inclusion proof; the other a prior in digest.
FULL, ERASURE = "ward-admitted", "ward-decrement"
OTHER = "ab" * 32


def npy(array: AnyArray) -> bytes:
    header = repr({"descr": array.dtype.str, "fortran_order": False, "shape": array.shape})
    text = header + " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + array.tobytes()


def arrays(bundle: bytes, name: str) -> AnyArray:
    import io

    found: AnyArray = np.load(io.BytesIO(members(bundle)[name]), allow_pickle=False)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_bundle_verifies(name: str, tmp_path: Path) -> None:
    made = case(name)
    verify_evidence(made.evidence, TRUSTED, log_keys=LOG_KEYS, origin=ORIGIN)
    file = tmp_path / "bundle"
    file.write_bytes(made.evidence)
    verify_evidence(file, TRUSTED)
    verify_evidence(str(file), TRUSTED)


@pytest.mark.parametrize("name", NAMES)
def test_bytes_to_object_to_identical_bytes(name: str) -> None:
    data = case(name).evidence
    found = parse_bundle(data)
    prior = found.prior
    again = Evidence(
        receipt=found.receipt,
        after=StateShown(
            found.cap,
            found.sigma,
            found.offset,
            found.keys,
            found.values,
            found.coefficients,
            found.blinds,
            found.commitments,
            found.weights,
            members(data).get("preprocessing.json", b""),
        ),
        prior=None
        if prior is None
        else Prior(prior.cap, prior.sigma, prior.commitments, prior.weights, prior.offset, prior.coefficients),
        proof=found.proof,
        inclusion=found.inclusion,
    )
    assert again.to_bytes() == data


def test_numpy_reads_the_arrays() -> None:
    data = case(FULL).evidence
    for name in members(data):
        if name.endswith(".npy"):
            assert npy(arrays(data, name)) == members(data)[name]


@pytest.mark.parametrize("name", NAMES)
def test_no_bundle_tells_whose_entries_they_are(name: str) -> None:
    """Keys and values are there; ids, subjects, payloads and salts are not."""
    data = case(name).evidence
    for secret in ledger().secrets:
        if secret.startswith((b"ENTRY", b"PATIENT", b"COLD", b"WARM", b"NOTE", b"TEXT", b'"NOTE')):
            assert secret not in data


def removal(memory: Memory) -> tuple[Memory, str, dict[str, Any]]:
    """A memory, an active entry, and a journal that keeps what an evidence bundle of its deletion is made from."""
    name = memory.ids[int(np.flatnonzero(memory.coefficients > 0.0)[0])]
    kept: dict[str, Any] = {}

    def journal(before: Any, after: Any, receipt: Any) -> None:
        slot = before.slot(name)
        entries = before.entries
        kept["secrets"] = (
            before.keys[int(np.flatnonzero(before.slots == slot)[0])].tobytes(),
            entries.values[slot].tobytes(),
            entries.salts[slot],
            entries.blinds[slot].tobytes(),
        )
        kept["commitment"] = entries.commitments[slot].tobytes()
        kept["salts"] = list(entries.salts)
        kept["bundle"] = Evidence(b"", StateShown.of(after), Prior.of(before, after)).to_bytes()
        kept["before"] = (before.keys.copy(), before.coefficients.copy(), before.state.offset)

    memory.journal = journal
    return memory, name, kept


def test_nothing_is_left_of_a_removed_entry_but_its_commitment() -> None:
    memory, name, kept = removal(ward_memory())
    memory.delete(name)
    assert not any(secret in kept["bundle"] for secret in kept["secrets"])
    assert kept["commitment"] in kept["bundle"]
    assert not any(salt in kept["bundle"] for salt in kept["salts"])
    assert "before/coefficients.npy" not in members(kept["bundle"])


def test_older_coefficients_would_give_a_removed_key_away() -> None:
    """Why a bundle does not hold them: with the remaining keys alone, the key comes out to eight digits."""
    points = np.random.default_rng(3).standard_normal((40, 2))
    memory, name, kept = removal(Memory.fit(points, points, sigma=2.0, nu=0.3))
    memory.delete(name)
    keys, coefficients, offset = kept["before"]
    row = next(row for row, key in enumerate(keys) if key.tobytes() == kept["secrets"][0])
    rest = np.delete(np.arange(len(keys)), row)
    margin = rest[(coefficients[rest] > 0.0) & (coefficients[rest] < memory.cap)]
    weight = 1.0 - coefficients[rest].sum()
    # On the margin Σ α κ = (1 − ρ)/2; what the others leave of it is α κ of the removed key.
    kernel = (0.5 * (1.0 - offset) - kernel_block(keys[margin], keys[rest], 2.0) @ coefficients[rest]) / weight
    distances = -4.0 * np.log(kernel)
    design = np.hstack([-2.0 * keys[margin], np.ones((margin.size, 1))])
    found = np.linalg.lstsq(design, distances - (keys[margin] ** 2).sum(axis=1), rcond=None)[0][:2]
    assert np.abs(found - keys[row]).max() < 1e-8


def test_the_file_is_its_owners_and_whole(tmp_path: Path) -> None:
    memory = ward_memory()
    file = tmp_path / "bundle"
    write_evidence(file, None, memory.version, b"{}")
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(InputError):
        write_evidence(tmp_path, None, memory.version, b"{}")
    with pytest.raises(StoreError):
        write_evidence(tmp_path / "missing" / "bundle", None, memory.version, b"{}")
    with pytest.raises(StoreError):
        verify_evidence(tmp_path / "nowhere", TRUSTED)
    with pytest.raises(StoreError):
        verify_evidence(tmp_path, TRUSTED)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    file = tmp_path / "bundle"
    with file.open("wb") as out:
        out.truncate(2**31)
    with raises_code("evidence-too-large"):
        verify_evidence(file, TRUSTED)


def test_what_the_caller_asks_for() -> None:
    made = case(ERASURE)
    with pytest.raises(InputError):
        verify_evidence(made.evidence, TRUSTED, log_keys=LOG_KEYS)
    # Without the log there is no head that a witness could have cosigned.
    witness = NoteKey("witness.example/w1", TRUSTED[0], NoteAlgorithm.COSIGNATURE_V1)
    for asked in ({"witnesses": [witness], "quorum": 1}, {"witnesses": iter([witness])}, {"quorum": 1}):
        with pytest.raises(InputError, match="witnesses cosign the head of the log"):
            verify_evidence(made.evidence, TRUSTED, **asked)
    with raises_code("cosignature-quorum-missed"):
        verify_evidence(made.evidence, TRUSTED, log_keys=LOG_KEYS, origin=ORIGIN, witnesses=iter([witness]), quorum=1)
    without = rebundle(made.evidence, {"inclusion.tlog-proof": None})
    verify_evidence(without, TRUSTED)
    with raises_code("evidence-inclusion-missing"):
        verify_evidence(without, TRUSTED, log_keys=LOG_KEYS, origin=ORIGIN)
    later = rebundle(made.evidence, {"before/commitments.npy": None}, lambda manifest: manifest | {"before": None})
    verify_evidence(later, TRUSTED, require_prior=False)
    with raises_code("evidence-prior-missing"):
        verify_evidence(later, TRUSTED)


@pytest.mark.parametrize("name", sorted(members(case(FULL).evidence).keys() - {"manifest.json"}))
def test_a_file_that_is_not_the_listed_one(name: str) -> None:
    contents = members(case(FULL).evidence)
    for at in (0, len(contents[name]) // 2, len(contents[name]) - 1):
        altered = bytearray(contents[name])
        altered[at] ^= 1
        with raises_code("evidence-member-mismatch"):
            verify_evidence(packed(contents | {name: bytes(altered)}), TRUSTED)


def nudge(name: str, at: tuple[int, ...], change: Callable[[Any], Any]) -> Callable[[bytes], bytes]:
    def alter(data: bytes) -> bytes:
        array = arrays(data, name).copy()
        array[at] = change(array[at])
        return rebundle(data, {name: npy(array)})

    return alter


def stated(*path: str, value: Any) -> Callable[[bytes], bytes]:
    return lambda data: restated(data, path, value)


def up(number: float) -> float:
    return float(np.nextafter(number, np.inf))


def columns(*path: str | int, value: Any) -> Callable[[bytes], bytes]:
    """The bundle with one value of its columns replaced, added, or dropped."""

    def alter(data: bytes) -> bytes:
        stated = json.loads(members(data)["preprocessing.json"])
        return rebundle(data, {"preprocessing.json": dump_canonical(put(stated, path, value))})

    return alter


def second_row_like_the_first(data: bytes) -> bytes:
    changed: dict[str, bytes | None] = {}
    for name in ("keys", "values", "blinds", "commitments", "coefficients"):
        array = arrays(data, f"after/{name}.npy").copy()
        array[1] = array[0]
        changed[f"after/{name}.npy"] = npy(array)
    return rebundle(data, changed)


# What was altered in a bundle whose digests were made right again, and the error.
ALTERED: list[tuple[str, str, Callable[[bytes], bytes], str]] = [
    ("key", FULL, nudge("after/keys.npy", (3, 1), up), "evidence-commitment-mismatch"),
    ("value", FULL, nudge("after/values.npy", (3, 1), up), "evidence-commitment-mismatch"),
    ("blind", FULL, nudge("after/blinds.npy", (3, 7), lambda byte: byte ^ 1), "evidence-commitment-mismatch"),
    ("commitment", FULL, nudge("after/commitments.npy", (3, 7), lambda byte: byte ^ 1), "evidence-commitment-mismatch"),
    ("coefficient", FULL, nudge("after/coefficients.npy", (3,), up), "evidence-weights-mismatch"),
    ("row", FULL, second_row_like_the_first, "evidence-weights-mismatch"),
    ("nan", FULL, nudge("after/keys.npy", (3, 1), lambda _: np.nan), "evidence-array-invalid"),
    ("huge", FULL, nudge("after/values.npy", (3, 1), lambda _: 1e200), "evidence-array-invalid"),
    ("inf", FULL, nudge("after/coefficients.npy", (0,), lambda _: np.inf), "evidence-array-invalid"),
    (
        "prior commitment",
        FULL,
        nudge("before/commitments.npy", (2, 9), lambda byte: byte ^ 1),
        "evidence-prior-mismatch",
    ),
    ("prior coefficient", FULL, nudge("before/coefficients.npy", (2,), up), "evidence-weights-mismatch"),
    ("hidden commitment", ERASURE, nudge("before/commitments.npy", (2, 9), lambda x: x ^ 1), "evidence-prior-mismatch"),
    ("offset", FULL, stated("after", "offset", value="0x1.0000000000000p-1"), "evidence-weights-mismatch"),
    ("weights", FULL, stated("after", "weights", value=OTHER), "evidence-weights-mismatch"),
    ("cap", FULL, stated("after", "cap", value="0x1.0000000000000p-1"), "evidence-problem-mismatch"),
    ("sigma", FULL, stated("after", "sigma", value="0x1.8000000000000p+1"), "evidence-problem-mismatch"),
    ("entries", FULL, stated("after", "entries", value=30), "evidence-array-malformed"),
    ("dimension", FULL, stated("after", "dimension", value=4), "evidence-array-malformed"),
    ("width", FULL, stated("after", "width", value=1), "evidence-array-malformed"),
    ("prior offset", FULL, stated("before", "offset", value="0x1.0000000000000p-1"), "evidence-weights-mismatch"),
    ("no prior offset", FULL, stated("before", "offset", value=None), "evidence-member-unknown"),
    ("prior weights", FULL, stated("before", "weights", value=OTHER), "evidence-prior-mismatch"),
    ("prior cap", FULL, stated("before", "cap", value="0x1.0000000000000p-1"), "evidence-problem-mismatch"),
    ("prior sigma", FULL, stated("before", "sigma", value="0x1.8000000000000p+1"), "evidence-problem-mismatch"),
    ("prior entries", FULL, stated("before", "entries", value=29), "evidence-array-malformed"),
    ("no prior", FULL, stated("before", value=None), "evidence-member-unknown"),
    ("format", FULL, stated("format", value="expunge/evidence/v1"), "evidence-format-unsupported"),
    ("members", FULL, stated("members", "after/keys.npy", value=OTHER), "evidence-member-mismatch"),
    ("unlisted", FULL, stated("members", "after/keys.npy", value=DROP), "evidence-member-unknown"),
    ("listed", FULL, stated("members", "after/nothing.npy", value=OTHER), "evidence-member-missing"),
    ("no key", FULL, lambda data: rebundle(data, {"after/keys.npy": None}), "evidence-member-missing"),
    ("no receipt", FULL, lambda data: rebundle(data, {"receipt.json": None}), "evidence-member-missing"),
    ("no prior file", FULL, lambda data: rebundle(data, {"before/commitments.npy": None}), "evidence-member-missing"),
    ("stray", FULL, lambda data: rebundle(data, {"after/notes.txt": b"x"}), "evidence-member-unknown"),
    ("no columns", COLUMNS, lambda data: rebundle(data, {"preprocessing.json": None}), "evidence-state-mismatch"),
    (
        "columns of none",
        FULL,
        lambda data: rebundle(data, {"preprocessing.json": b"{}"}),
        "evidence-format-unsupported",
    ),
    ("a centre", COLUMNS, columns("keys", 0, "centre", value="0x1.0000000000000p+6"), "evidence-state-mismatch"),
    ("a scale", COLUMNS, columns("keys", 0, "scale", value="0x0.0p+0"), "evidence-field-invalid"),
    ("a fill", COLUMNS, columns("keys", 0, "fill", value=80), "evidence-field-invalid"),
    ("a name", COLUMNS, columns("values", 0, "name", value=None), "evidence-field-invalid"),
    ("a unit", COLUMNS, columns("values", 0, "unit", value=1), "evidence-field-invalid"),
    ("learned", COLUMNS, columns("learned", value="no"), "evidence-field-invalid"),
    ("too few columns", COLUMNS, columns("keys", value=[]), "evidence-field-invalid"),
    ("a field of a column", COLUMNS, columns("keys", 1, "mean", value=None), "evidence-field-unknown"),
    ("no field of a column", COLUMNS, columns("keys", 1, "fill", value=DROP), "evidence-field-missing"),
    (
        "a format of columns",
        COLUMNS,
        columns("format", value="expunge/preprocessing/v0"),
        "evidence-format-unsupported",
    ),
    (
        "another receipt",
        FULL,
        lambda data: rebundle(data, {"receipt.json": case("ward-rebuilt").envelope}),
        "evidence-problem-mismatch",
    ),
    (
        "the next receipt",
        FULL,
        lambda data: rebundle(data, {"receipt.json": case("ward-admitted-reserve").envelope}),
        "evidence-size-mismatch",
    ),
    (
        "a prior that is none",
        "ward-noop",
        lambda data: rebundle(
            data,
            {"before/commitments.npy": members(data)["after/commitments.npy"]},
            lambda m: (
                m | {"before": {k: m["after"][k] for k in ("cap", "sigma", "entries", "weights")} | {"offset": None}}
            ),
        ),
        "evidence-prior-mismatch",
    ),
    (
        "the proof of another state",
        FULL,
        lambda data: rebundle(data, {"proof.json": members(case(ERASURE).evidence)["proof.json"]}),
        "evidence-proof-mismatch",
    ),
    (
        "the place of another",
        FULL,
        lambda data: rebundle(data, {"inclusion.tlog-proof": case("ward-admitted-reserve").inclusion}),
        "inclusion-root-mismatch",
    ),
]


@pytest.mark.parametrize(("what", "name", "alter", "error"), ALTERED, ids=[what for what, *_ in ALTERED])
def test_an_alteration_has_its_name_even_with_digests_made_right(
    what: str, name: str, alter: Callable[[bytes], bytes], error: str
) -> None:
    data = alter(case(name).evidence)
    assert data != case(name).evidence
    log: dict[str, Any] = {} if "receipt" in what else {"log_keys": LOG_KEYS, "origin": ORIGIN}
    with raises_code(error):
        verify_evidence(data, TRUSTED, **log)


# (case, field, value, error): signed by the trusted key, consistent in itself, and not what the evidence shows.
FALSE: list[tuple[str, str, Any, str]] = [
    (FULL, "applied.commitments.0", OTHER, "evidence-added-mismatch"),
    (ERASURE, "applied.commitments.0", OTHER, "evidence-removed-mismatch"),
    (ERASURE, "applied.commitments", [], "receipt-count-mismatch"),
    ("ward-pruned-archive", "applied.commitments.0", "00" * 32, "evidence-removed-mismatch"),
    ("archive-admitted-1", "warranties.reactivated.commitments.0", "00" * 32, "evidence-added-mismatch"),
    (FULL, "problem.cap", "0x1.0000000000000p-1", "evidence-problem-mismatch"),
    (FULL, "problem.sigma", "0x1.8000000000000p+1", "evidence-problem-mismatch"),
    (FULL, "problem.dimension", 4, "evidence-problem-mismatch"),
    (FULL, "state.after", OTHER, "evidence-state-mismatch"),
    (FULL, "state.before", OTHER, "evidence-prior-mismatch"),
    (ERASURE, "state.before", OTHER, "evidence-prior-mismatch"),
    ("ward-created", "applied.commitments.0", "00" * 32, "evidence-added-mismatch"),
]


@pytest.mark.parametrize(("name", "field", "value", "error"), FALSE)
def test_a_receipt_that_is_not_true(name: str, field: str, value: Any, error: str) -> None:
    made = case(name)
    path = tuple(int(key) if key.isdigit() else key for key in field.split("."))
    receipt = forge(made, put(document(made), path, value), subjects="state" in path)
    with raises_code(error):
        verify_evidence(rebundle(made.evidence, {"receipt.json": receipt}), TRUSTED)


# What nobody can recompute: the signature vouches for it, and the log fixes what was signed.
VOUCHED = {
    "memory": "00000000-0000-0000-0000-000000000000",
    "edit": 99,
    "time": "2026-03-01T12:30:06Z",
    "solver.name": "other",
    "solver.version": "9",
    "problem.initial_entries": 31,
    "request.id": "00000000-0000-0000-0000-000000000000",
    "request.case": "00" * 32,
    "request.actor": "00" * 32,
    "warranties.expired.root": None,
    "warranties.renewed.root": None,
    "warranties.expired.commitments": None,
    "warranties.renewed.commitments": None,
}


@pytest.mark.parametrize("field", VOUCHED)
def test_what_only_the_signature_vouches_for_is_fixed_by_the_log(field: str) -> None:
    made, value = case(FULL), VOUCHED[field]
    path: Place = tuple(int(key) if key.isdigit() else key for key in field.split("."))
    whole = document(made)
    if path[-1] in ("commitments", "root"):
        whole = put(put(whole, (*path[:-1], "count"), 1), path, [OTHER] if path[-1] == "commitments" else OTHER)
    else:
        whole = put(whole, path, value)
    forged = rebundle(made.evidence, {"receipt.json": forge(made, whole)})
    verify_evidence(forged, TRUSTED)
    with raises_code("inclusion-root-mismatch"):
        verify_evidence(forged, TRUSTED, log_keys=LOG_KEYS, origin=ORIGIN)


def test_every_field_of_a_receipt_is_recomputed_contradicted_or_vouched_for() -> None:
    from .test_receipt import CONTRADICTIONS

    known = {".".join("[]" if key.isdigit() else key for key in field.split(".")) for _, field, *_ in FALSE}
    known |= {".".join("[]" if key.isdigit() else key for key in field.split(".")) for _, field, *_ in CONTRADICTIONS}
    known |= {".".join("[]" if key.isdigit() else key for key in field.split(".")) for field in VOUCHED}
    fixed = {"covers", "does_not_cover.[]", "tolerances.acceptance", "tolerances.partition", "tolerances.published"}
    fixed |= {"check.tolerance"}
    alike = {"warranties.reactivated.commitments", "warranties.ended.commitments"}
    alike |= {"warranties.reactivated.root", "warranties.ended.root", "applied.root"}
    # Follows from the list.
    alike |= {"warranties.expired.count", "warranties.renewed.count"}
    assert {spelled(path) for path, _ in leaves(document(case(FULL)))} <= known | fixed | alike


def test_a_prior_in_full_beside_a_removal_is_refused() -> None:
    """A writer that discloses what gives the removed key away, with every digest right."""
    memory, name, kept = removal(ward_memory())
    made = case(ERASURE)
    memory.delete(name)
    view = memory.version
    keys, coefficients, offset = kept["before"]
    blinds = np.zeros((len(keys), 32), dtype=np.uint8)
    commitments = parse_bundle(kept["bundle"]).prior.commitments  # type: ignore[union-attr]
    weights = weights_digest(offset, coefficients, combined(blinds))
    before = state_digest(memory.cap, memory.sigma, commitments, weights)
    whole = document(made)
    whole["state"] = {"before": before, "after": view.digest}
    whole["entries"] = {"before": {"live": 30, "pruned": 0}, "after": {"live": 29, "pruned": 0}}
    whole["applied"]["commitments"] = [kept["commitment"].hex()]
    receipt = forge(made, whole, subjects=True)
    shown = StateShown.of(view)
    hidden = Prior(memory.cap, memory.sigma, commitments, weights)
    verify_evidence(Evidence(receipt, shown, hidden).to_bytes(), TRUSTED)
    disclosed = Prior(memory.cap, memory.sigma, commitments, weights, offset, coefficients)
    with raises_code("evidence-prior-disclosed"):
        verify_evidence(Evidence(receipt, shown, disclosed).to_bytes(), TRUSTED)


def forged_state(change: Callable[[dict[str, Any]], None], name: str = "ward-rebuilt") -> bytes:
    """A bundle and a receipt by the trusted key for a state that was made up, every digest right."""
    made = case(name)
    found = parse_bundle(made.evidence)
    state = {field: getattr(found, field) for field in StateShown.__dataclass_fields__}
    state |= {field: value.copy() for field, value in state.items() if isinstance(value, np.ndarray)}
    change(state)
    state["weights"] = weights_digest(state["offset"], state["coefficients"], combined(state["blinds"]))
    after = state_digest(state["cap"], state["sigma"], state["commitments"], state["weights"])
    receipt = forge(made, put(document(made), ("state", "after"), after), subjects=True)
    prior = found.prior
    assert prior is not None
    shown = Prior(prior.cap, prior.sigma, prior.commitments, prior.weights, prior.offset, prior.coefficients)
    return Evidence(receipt, StateShown(**state), shown, proof=found.proof).to_bytes()


def test_a_state_that_is_not_optimal() -> None:
    def unbalanced(state: dict[str, Any]) -> None:
        active = np.flatnonzero(state["coefficients"])[:2]
        state["coefficients"][active] += [1e-6, -1e-6]

    def shifted(state: dict[str, Any]) -> None:
        state["offset"] += 1e-6

    verify_evidence(forged_state(lambda state: None), TRUSTED)

    def one_bit(state: dict[str, Any]) -> None:
        row = int(np.flatnonzero((state["coefficients"] > 0.0) & (state["coefficients"] < state["cap"]))[0])
        state["coefficients"][row] = up(state["coefficients"][row])

    def another_group(state: dict[str, Any]) -> None:
        state["coefficients"][int(np.flatnonzero(state["coefficients"] == 0.0)[0])] = 1e-14

    for change, error in (
        (unbalanced, "state-*"),
        (one_bit, "state-coefficient-differs"),
        (another_group, "state-group-wrong"),
        (shifted, "state-offset-differs"),
    ):
        with raises_code(error):
            verify_evidence(forged_state(change), TRUSTED)


def test_a_prior_state_that_is_not_optimal() -> None:
    made = case(FULL)
    found = parse_bundle(made.evidence)
    prior = found.prior
    assert prior is not None
    assert prior.coefficients is not None
    coefficients = prior.coefficients.copy()
    coefficients[np.flatnonzero(coefficients)[:2]] += [1e-6, -1e-6]
    place = {bytes(row): at for at, row in enumerate(found.commitments)}
    order = [place[bytes(row)] for row in prior.commitments]
    weights = weights_digest(prior.offset or 0.0, coefficients, combined(found.blinds[order]))
    before = state_digest(prior.cap, prior.sigma, prior.commitments, weights)
    receipt = forge(made, put(document(made), ("state", "before"), before), subjects=True)
    changed = rebundle(
        made.evidence,
        {"receipt.json": receipt, "before/coefficients.npy": npy(coefficients)},
        lambda manifest: put(manifest, ("before", "weights"), weights.hex()),
    )
    with raises_code("state-*", match="before the edit"):
        verify_evidence(changed, TRUSTED)


def test_a_proof_of_other_weights() -> None:
    """The proof holds for these keys, and names other weights than the bundle, or none."""
    made = case("ward-certified_zero")
    found = parse_bundle(made.evidence)
    assert found.proof is not None
    proof = Proof.from_bytes(found.proof)
    for weights in (None, OTHER):
        altered = replace(proof, weights=weights).to_bytes()
        with raises_code("evidence-proof-mismatch"):
            verify_evidence(rebundle(made.evidence, {"proof.json": altered}), TRUSTED)


def test_a_bundle_is_a_function_of_its_entries() -> None:
    """Another order of admission, and another history, show the same bytes of the state and of its proof."""
    memory = ward_memory()
    version = memory.version
    order = np.random.default_rng(0).permutation(memory.version.size)
    keys, (values, ids, subjects, payloads, salts) = version.columns()
    rows = order.tolist()
    other, _ = first_version(
        Problem(keys[order], memory.cap, memory.sigma),
        values[order],
        [ids[row] for row in rows],
        [subjects[row] for row in rows],
        [payloads[row] for row in rows],
        b"".join(salts[32 * row : 32 * (row + 1)] for row in rows),
        preprocessing=version.preprocessing,
    )
    assert other.digest == version.digest
    shown = [Evidence(b"", StateShown.of(state), proof=_proof(StateShown.of(state))) for state in (version, other)]
    assert shown[0].to_bytes() == shown[1].to_bytes()
    extra = memory.admit(np.array([0.3, -0.2, 0.1])[: memory.dimension], np.zeros(memory.values.shape[1]), id="extra")
    assert extra.outcome == "admitted"
    memory.delete("extra")
    assert Evidence(b"", StateShown.of(memory.version), proof=shown[0].proof).to_bytes() == shown[0].to_bytes()


def test_no_bundle_is_written_around_a_proof_that_proved_nothing(tmp_path: Path) -> None:
    """A tie: one key has as many copies as reach the cap together, and nothing decides the group of the others."""
    square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    keys = np.vstack([np.repeat(square, [2, 3, 3, 3], axis=0), [[0.5, 0.0]]])
    memory = Memory.fit(keys, np.zeros(len(keys)), sigma=4.0, cap=1 / 8)
    with raises_code("proof-not-proved", match="undecidable"):
        write_evidence(tmp_path / "tie.zip", None, memory.version, case(FULL).envelope, prove=True)
    assert not list(tmp_path.iterdir())


def test_one_entry_twice() -> None:
    def doubled(state: dict[str, Any]) -> None:
        for field in ("keys", "values", "blinds", "commitments", "coefficients"):
            state[field][1] = state[field][0]

    with raises_code("evidence-commitment-repeated"):
        verify_evidence(forged_state(doubled), TRUSTED)


def test_a_receipt_whose_subjects_do_not_follow() -> None:
    made = case(FULL)
    receipt = forge(made, put(document(made), ("state", "after"), OTHER))
    with raises_code("receipt-subject-mismatch"):
        verify_evidence(rebundle(made.evidence, {"receipt.json": receipt}), TRUSTED)


MANIFEST = json.loads(members(case(FULL).evidence)["manifest.json"])


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=spelled(path)) for path, _ in leaves(MANIFEST) if path[0] in ("after", "before")],
)
def test_malformed_fields_of_the_manifest(path: Place) -> None:
    malformed: list[Any] = [True, 0, -1, 2**53 - 1, "\n", "inf", "0x1p+0", [1], {}]
    for wrong in malformed:
        # A state may have no entries, and then its arrays have no rows.
        counts_rows = wrong == 0 and wrong is not False and path[-1] == "entries"
        with raises_code("evidence-array-malformed" if counts_rows else "evidence-field-invalid"):
            verify_evidence(restated(case(FULL).evidence, path, wrong), TRUSTED)


@pytest.mark.parametrize("path", [pytest.param(path, id=spelled(path)) for path in objects(MANIFEST)])
def test_missing_and_unknown_fields_of_the_manifest(path: Place) -> None:
    data, inner = case(FULL).evidence, MANIFEST
    for key in path:
        inner = inner[key]
    if path != ("members",):
        for key in inner:
            error = "evidence-format-unsupported" if key == "format" else "evidence-field-missing"
            with raises_code(error):
                verify_evidence(restated(data, (*path, key), DROP), TRUSTED)
        with raises_code("evidence-field-unknown"):
            verify_evidence(restated(data, (*path, "x"), 1), TRUSTED)
    malformed: list[Any] = [True, 1, "x", []] if path else []
    for wrong in malformed:
        with raises_code("evidence-field-invalid"):
            verify_evidence(restated(data, path, wrong), TRUSTED)


@pytest.mark.parametrize("manifest", [b"[]", b"{}", b"null", b'{"format":1}'])
def test_a_manifest_that_is_none(manifest: bytes) -> None:
    contents = members(case(FULL).evidence)
    with raises_code("evidence-format-unsupported"):
        verify_evidence(packed(contents | {"manifest.json": manifest}), TRUSTED)
    with raises_code("json-not-canonical"):
        verify_evidence(packed(contents | {"manifest.json": contents["manifest.json"] + b"\n"}), TRUSTED)


def compressed(contents: dict[str, bytes]) -> bytes:
    import io
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_the_container_has_one_form() -> None:
    data = case(FULL).evidence
    contents = members(data)
    manifest, *rest = contents.items()
    for wrong in (
        b"",
        b"PK\x03\x04",
        data[:-1],
        data + b"\n",
        b"\n" + data,
        data[:-2] + b"\x01\x00x",
        compressed(contents),
        packed(dict([*rest, manifest])),
        packed(dict([manifest, *reversed(rest)])),
        data.replace(b"after/keys.npy", b"after/KEYS.npy", 1),
    ):
        with raises_code("evidence-container-invalid", "evidence-member-unknown"):
            verify_evidence(wrong, TRUSTED)
    with raises_code("evidence-member-missing"):
        verify_evidence(packed({}), TRUSTED)
    again = bytearray(data)
    # A change that keeps the checksum's place but not its value.
    again[14] ^= 1
    with raises_code("evidence-container-invalid"):
        verify_evidence(bytes(again), TRUSTED)
    assert zlib.crc32(contents["manifest.json"]) == int.from_bytes(data[14:18], "little")
