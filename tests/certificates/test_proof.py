from __future__ import annotations

import ast
import dataclasses
import json
import math
import re
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

import expunge.certificates.proof as prover
import expunge.verify.proof as verifier
from expunge import Memory
from expunge.certificates.bounds import Sites
from expunge.certificates.proof import Finding, Proof, Witness, prove_partition, prove_state
from expunge.errors import InputError, StoreError
from expunge.problem.check import check_state
from expunge.problem.problem import cap_from
from expunge.types import Matrix, Vector
from expunge.verify.proof import GUARD, verify_proof
from expunge.verify.proof_format import MOST_BITS, problem_digest, weights_digest
from highprecision import Truth, solve_exactly
from problems import PROBLEMS
from raising import raises_code

PAPER = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]])
SQUARE = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
INNER = np.array([[0.0, 0.0], [0.1, 0.2]])


def cap_of(name: str) -> float:
    """The cap that a memory keeps of a problem's: 1/m is rounded so that m·C reaches 1."""
    problem = PROBLEMS[name]
    return problem.cap if problem.cap > 1.0 else cap_from(problem.size, cap=problem.cap)


@cache
def truth_of(name: str, cap: float) -> Truth:
    return solve_exactly(PROBLEMS[name].keys, cap=cap, sigma=PROBLEMS[name].sigma)


def letters(coefficients: Vector, cap: float) -> str:
    return "".join("r" if a <= 0.0 else "b" if a >= cap else "m" for a in coefficients.tolist())


def random_instance(seed: int) -> tuple[Matrix, float, float]:
    rng = np.random.default_rng(seed)
    size, dimension = int(rng.integers(4, 30)), int(rng.integers(1, 7))
    keys = rng.standard_normal((size, dimension)) * rng.choice([0.1, 1.0, 3.0])
    if rng.uniform() < 0.4:
        keys[rng.integers(size, size=size // 3)] = keys[rng.integers(size, size=size // 3)]
    return keys, float(1.0 / (rng.uniform(0.1, 0.95) * size)), float(rng.uniform(0.3, 4.0))


def test_the_papers_third_key_is_proved_zero() -> None:
    truth = solve_exactly(PAPER, cap=1.0, sigma=5.0)
    assert truth.offset - truth.scores[2] == pytest.approx(0.00817, abs=5e-6)
    proof = prove_partition(PAPER, [0.5, 0.5, 0.0], cap=1.0, sigma=5.0)
    assert (proof.outcome, proof.bits, proof.partition) == ("proved", 106, "mmr")
    assert proof.proved_zero.tolist() == [2]
    assert proof.proved_rows.tolist() == [0, 1, 2]
    assert (proof.margin.tolist(), proof.bound.tolist(), proof.reserve.tolist()) == ([0, 1], [], [2])
    assert proof.method == "ball arithmetic, 106 bits"
    verify_proof(proof, PAPER, cap=1.0, sigma=5.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_true_partition_is_proved_and_verified(name: str) -> None:
    problem, cap = PROBLEMS[name], cap_of(name)
    truth = truth_of(problem.name, cap)
    for first_bits in (53, 106):
        proof = prove_partition(problem.keys, truth.coefficients, cap=cap, sigma=problem.sigma, first_bits=first_bits)
        assert proof.partition == letters(truth.coefficients, cap)
        assert proof.outcome == "proved", proof.reason
        verify_proof(proof.to_bytes(), problem.keys, cap=cap, sigma=problem.sigma)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_memory_proves_its_groups_and_its_weights(name: str) -> None:
    problem = PROBLEMS[name]
    memory = Memory.fit(problem.keys, problem.values, sigma=problem.sigma, cap=min(problem.cap, 1.0))
    truth = truth_of(name, memory.cap)
    proof = memory.prove()
    assert proof.outcome == "proved", proof.reason
    assert proof.partition == letters(truth.coefficients, memory.cap)
    assert proof.weights == weights_digest(truth.coefficients, memory.offset)
    verify_proof(proof.to_bytes(), problem.keys, cap=memory.cap, sigma=memory.sigma)


@pytest.mark.parametrize("separation", [1e-3, 1e-5, 1e-7, 1e-9])
def test_weights_that_are_wrong_within_the_right_groups_are_disproved(separation: float) -> None:
    """A tangent pair can trade a quarter of the mass: the groups are right, the check passes, the weights are not."""
    keys = np.array([[0.0, -1.0], [0.0, -2.5], [-separation, 1.0], [separation, 1.0]])
    memory = Memory.fit(keys, np.arange(4.0), sigma=2.0, cap=0.6)
    assert {2, 3} <= set(memory.partition.margin.tolist())
    assert memory.prove().outcome == "proved"
    wrong = memory.coefficients.copy()
    share = 0.95 * wrong[2]
    assert share > 0.2
    wrong[2:] += [-share, share]
    told: dict[str, Any] = {"cap": memory.cap, "sigma": memory.sigma}
    assert prove_partition(keys, wrong, **told).outcome == "proved"
    if separation <= 1e-7:
        assert check_state(keys, wrong, memory.offset, **told).worst < 1e-14
    proof = prove_state(keys, wrong, memory.offset, **told)
    assert (proof.outcome, proof.witness, proof.weights) == ("disproved", None, None)
    assert [(found.row, found.quantity) for found in proof.wrong] == [(2, "coefficient"), (3, "coefficient")]
    for found in proof.wrong:
        assert found.row is not None
        assert found.low < memory.coefficients[found.row] < found.high
    with raises_code("proof-not-proved"):
        verify_proof(proof.to_bytes(), keys, **told)
    # Whoever writes the wrong weights into a file that says proved is found out.
    lie = dataclasses.replace(memory.prove(), weights=weights_digest(wrong, memory.offset))
    with raises_code("proof-weights-mismatch"):
        verify_proof(lie, keys, **told)


def test_one_bit_of_the_offset_is_disproved() -> None:
    memory = Memory.fit(np.random.default_rng(0).standard_normal((12, 2)), np.zeros(12), sigma=1.0, nu=0.4)
    told: dict[str, Any] = {"cap": memory.cap, "sigma": memory.sigma}
    proof = prove_state(memory.keys, memory.coefficients, math.nextafter(memory.offset, 1.0), **told)
    assert [(found.row, found.quantity) for found in proof.wrong] == [(None, "offset")]
    assert Proof.from_bytes(proof.to_bytes()) == proof


def test_a_weight_that_rounds_to_the_cap_is_proved_on_the_margin() -> None:
    cap = cap_from(11, cap=1 / 11)
    memory = Memory.fit(np.array([[0.0]] * 9 + [[5.0], [9.0]]), np.zeros(11), sigma=1.0, cap=cap)
    assert set(memory.coefficients.tolist()) == {cap}
    proof = memory.prove()
    assert (proof.outcome, proof.partition) == ("proved", "mmmmmmmmmbb")
    verify_proof(proof, memory.keys, cap=cap, sigma=1.0)


def test_a_proof_is_the_same_bytes_each_time() -> None:
    memory = Memory.fit(np.random.default_rng(1).standard_normal((40, 3)), np.zeros(40), sigma=1.5, nu=0.4)
    assert memory.prove().to_bytes() == Memory.fit(memory.keys, np.zeros(40), sigma=1.5, nu=0.4).prove().to_bytes()


@pytest.mark.parametrize("seed", range(40))
def test_random_partitions_are_proved_only_if_true(seed: int) -> None:
    keys, cap, sigma = random_instance(seed)
    truth = solve_exactly(keys, cap=cap, sigma=sigma).coefficients
    proof = prove_partition(keys, truth, cap=cap, sigma=sigma)
    assert proof.outcome == "proved"
    verify_proof(proof, keys, cap=cap, sigma=sigma)
    sites = Sites.of(keys + 0.0)
    rng = np.random.default_rng(seed)
    for _ in range(4):
        site = int(rng.integers(sites.counts.size))
        rows = np.flatnonzero(sites.of_row == site)
        wrong = truth.copy()
        wrong[rows] = rng.choice(
            [a for a in (0.0, cap / 2, cap) if letters(truth[rows[:1]], cap) != letters(np.array([a]), cap)]
        )
        refuted = prove_partition(keys, wrong, cap=cap, sigma=sigma)
        assert refuted.outcome == "disproved"
        assert refuted.wrong
        assert refuted.proved_rows.size == refuted.proved_zero.size == 0
        with raises_code("proof-*"):
            verify_proof(forged(keys, wrong, cap, sigma), keys, cap=cap, sigma=sigma)


def forged(keys: Matrix, coefficients: Vector, cap: float, sigma: float) -> Proof:
    """The best lie a prover could tell: right digest, and the margin system's own solution as the witness."""
    said = prove_partition(keys, coefficients, cap=cap, sigma=sigma)
    sites = Sites.of(keys + 0.0)
    labels = np.array(list(said.partition))[np.unique(sites.of_row, return_index=True)[1]]
    witness = None
    if "m" in said.partition:
        attempt = prover._WithMargin(sites, labels, cap, sigma)
        attempt.floating()
        middle = (attempt.low + attempt.high)[attempt.margin] / 2.0
        if np.isfinite(middle).all():
            scale = max(80, attempt.rest.denominator.bit_length())
            attempt._keep_witness(scale, [int(Fraction(a) * (1 << scale)) for a in middle.tolist()])
        witness = attempt.witness or Witness(80, (1 << 80, *[0] * (attempt.margin.size - 1)))
    return dataclasses.replace(said, outcome="proved", wrong=(), undecided=(), reason="", witness=witness)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in PROBLEMS if not n.startswith("sequential")])
def test_the_fp64_enclosures_contain_the_truth(name: str) -> None:
    problem = PROBLEMS[name]
    truth = truth_of(problem.name, problem.cap)
    sites = Sites.of(problem.keys + 0.0)
    first = np.unique(sites.of_row, return_index=True)[1]
    labels = np.array(list(letters(truth.coefficients[first], problem.cap)))
    if "m" not in labels:
        return
    attempt = prover._WithMargin(sites, labels, problem.cap, problem.sigma)
    attempt.floating()
    with ctx.workprec(256):
        for site in attempt.margin.tolist():
            exact = truth.exact[first[site]] * int(sites.counts[site])
            assert arb(attempt.low[site]) <= exact + arb("1e-40")
            assert exact <= arb(attempt.high[site]) + arb("1e-40")
    for site in attempt.outside.tolist():
        slack = truth.scores[first[attempt.margin[0]]] - truth.scores[first[site]]
        assert attempt.low[site] - 1e-15 <= slack <= attempt.high[site] + 1e-15


def test_copies_are_one_site_even_if_their_coefficients_differ() -> None:
    keys = np.repeat(PAPER, [2, 1, 3], axis=0)
    for coefficients in ([0.25, 0.25, 0.5, 0, 0, 0], [0.0, 0.5, 0.5, 0, 0, 0]):
        proof = prove_partition(keys, coefficients, cap=0.7, sigma=5.0)
        assert (proof.outcome, proof.partition) == ("proved", "mmmrrr")
        assert proof.witness is not None
        assert len(proof.witness.numerators) == 2
        verify_proof(proof, keys, cap=0.7, sigma=5.0)


def test_an_empty_margin_needs_a_mass_of_exactly_one() -> None:
    keys = np.vstack([SQUARE, INNER])
    proof = prove_partition(keys, [0.25] * 4 + [0.0] * 2, cap=0.25, sigma=4.0)
    assert (proof.outcome, proof.partition, proof.witness) == ("proved", "bbbbrr", None)
    verify_proof(proof, keys, cap=0.25, sigma=4.0)
    swapped = prove_partition(keys, [0.25, 0.25, 0.25, 0.0, 0.25, 0.0], cap=0.25, sigma=4.0)
    assert swapped.outcome == "disproved"
    assert 3 in {found.row for found in swapped.wrong}
    few = prove_partition(keys, [0.25] * 3 + [0.0] * 3, cap=0.25, sigma=4.0)
    assert (few.outcome, few.wrong[0].quantity) == ("disproved", "mass")
    assert few.wrong[0].low < -0.25 < few.wrong[0].high
    full = prove_partition(SQUARE, np.full(4, 0.25), cap=0.25, sigma=4.0)
    assert (full.outcome, full.partition) == ("proved", "bbbb")
    # The rounding of 1/7 leaves no feasible point, so these groups are not those of an optimum.
    rounded = prove_partition(np.eye(7), np.full(7, 1 / 7), cap=1 / 7, sigma=1.0)
    assert (rounded.outcome, rounded.wrong[0].quantity, rounded.wrong[0].row) == ("disproved", "mass", None)
    assert 0 < abs(rounded.wrong[0].low) < 1e-15


@pytest.mark.parametrize(
    ("keys", "coefficients", "cap", "rows"),
    [
        # Four equal coefficients by symmetry, and the site of two copies has exactly that cap.
        (
            np.vstack([np.repeat(SQUARE, [2, 3, 3, 3], axis=0), INNER]),
            [1 / 8] * 2 + [1 / 12] * 9 + [0] * 2,
            1 / 8,
            {0, 1},
        ),
        (
            np.vstack([np.repeat(SQUARE, [2, 3, 3, 3], axis=0), INNER]),
            [0.12] * 2 + [1 / 12] * 9 + [0] * 2,
            1 / 8,
            {0, 1},
        ),
        (np.vstack([SQUARE, INNER]), [1 / 4] * 3 + [0.2] + [0] * 2, 1 / 4, {0, 1, 2, 3}),
        (np.vstack([SQUARE, INNER[:1]]), [1 / 4] * 4 + [0.1], 1 / 4, {4}),
    ],
)
def test_an_exact_tie_is_undecidable_and_never_proved(
    keys: Matrix, coefficients: list[float], cap: float, rows: set[int]
) -> None:
    for most_bits in (53, 200, 2048):
        proof = prove_partition(keys, coefficients, cap=cap, sigma=4.0, most_bits=most_bits)
        assert proof.outcome == "undecidable"
        assert {found.row for found in proof.undecided} == rows
        assert all(found.low <= target <= found.high for found in proof.undecided for target in [tie(found, keys, cap)])
        assert "tie" in proof.reason
        with raises_code("proof-not-proved"):
            verify_proof(proof.to_bytes(), keys, cap=cap, sigma=4.0)
        with raises_code("proof-*"):
            verify_proof(forged(keys, np.array(coefficients), cap, 4.0), keys, cap=cap, sigma=4.0)


def tie(found: Finding, keys: Matrix, cap: float) -> float:
    """The forbidden value that the interval still contains."""
    if found.quantity == "slack" or found.high < cap / 2:
        return 0.0
    return cap * int((keys == keys[found.row]).all(axis=1).sum())


def test_a_memory_with_a_tie_is_reported_undecidable() -> None:
    keys = np.vstack([np.repeat(SQUARE, [2, 3, 3, 3], axis=0), INNER])
    memory = Memory.fit(keys, np.zeros(len(keys)), sigma=4.0, cap=1 / 8)
    assert prove_partition(memory.keys, memory.coefficients, cap=1 / 8, sigma=4.0).outcome == "undecidable"


def test_a_near_tie_is_decided_by_more_bits() -> None:
    """The third key of a mirror pair, moved through the boundary one unit in the last place at a time."""
    height = math.sqrt(-25.0 * math.log((1.0 + math.exp(-4.0 / 25.0)) / 2.0) - 1.0)
    outcomes = []
    for ulps in range(-6, 7):
        keys = np.vstack([PAPER[:2], [[0.0, height + ulps * math.ulp(height)]]])
        proof = prove_partition(keys, [0.5, 0.5, 0.0], cap=1.0, sigma=5.0)
        assert proof.bits == 106
        outcomes.append(proof.outcome)
        if proof.outcome == "proved":
            verify_proof(proof, keys, cap=1.0, sigma=5.0)
    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {"proved", "disproved"}


def test_progress_tells_the_precision_and_what_is_open() -> None:
    problem = PROBLEMS["near-duplicates-1e-06"]
    truth = truth_of(problem.name, problem.cap)
    seen: list[tuple[int, int]] = []
    proof = prove_partition(
        problem.keys,
        truth.coefficients,
        cap=problem.cap,
        sigma=problem.sigma,
        progress=lambda bits, left: seen.append((bits, left)),
    )
    assert [bits for bits, _ in seen] == [53, 106]
    assert proof.bits == 106
    assert seen[0][1] == problem.size


def test_a_file_comes_back_the_same(tmp_path: Path) -> None:
    path = tmp_path / "paper.proof"
    proof = prove_partition(PAPER, [0.5, 0.5, 0.0], cap=1.0, sigma=5.0)
    proof.save(path)
    assert Proof.load(path) == proof
    assert Proof.load(path).to_bytes() == path.read_bytes()
    assert list(tmp_path.iterdir()) == [path]
    verify_proof(path, PAPER, cap=1.0, sigma=5.0)
    verify_proof(str(path), PAPER.tolist(), cap=1.0, sigma=5.0)
    for outcome in (
        prove_partition(SQUARE, np.full(4, 0.2), cap=0.25, sigma=4.0),
        prove_partition(PAPER, [1, 0, 0], cap=1.0, sigma=5.0),
    ):
        assert Proof.from_bytes(outcome.to_bytes()) == outcome
    with pytest.raises(StoreError):
        Proof.load(tmp_path / "missing")
    with pytest.raises(StoreError):
        proof.save(tmp_path / "no" / "such" / "folder")


def test_the_sample_in_the_documentation_verifies() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats" / "proof.md").read_text(encoding="utf-8")
    sample = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert sample is not None
    verify_proof(sample[1].encode(), PAPER, cap=1.0, sigma=5.0)


def sample() -> dict[str, Any]:
    proof = prove_partition(PAPER, [0.5, 0.5, 0.0], cap=1.0, sigma=5.0)
    content: dict[str, Any] = json.loads(proof.to_bytes())
    return content


def spelled(content: object) -> bytes:
    return (json.dumps(content, sort_keys=True, indent=1) + "\n").encode()


def change(**fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda content: {**content, **fields}


def witness(**fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda content: {**content, "witness": {**content["witness"], **fields}}


def finding(**fields: Any) -> list[dict[str, Any]]:
    return [{"row": 2, "quantity": "slack", "low": (-1.0).hex(), "high": (1.0).hex(), **fields}]


HALF = "2" + 26 * "0"
TAMPERED: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("format", change(format="expunge/proof/v1"), "proof-format-unsupported"),
    ("list", lambda content: [content], "proof-not-json"),
    ("missing", lambda content: {k: v for k, v in content.items() if k != "digest"}, "proof-field-missing"),
    ("unknown", change(keys=[]), "proof-field-unknown"),
    ("outcome spelling", change(outcome="true"), "proof-field-invalid"),
    ("outcome", change(outcome="disproved"), "proof-contradictory"),
    ("outcome undecidable", change(outcome="undecidable", witness=None), "proof-contradictory"),
    (
        "honest failure",
        change(outcome="undecidable", witness=None, reason="a", undecided=finding()),
        "proof-not-proved",
    ),
    ("partition letters", change(partition="mmx"), "proof-field-invalid"),
    ("partition empty", change(partition=""), "proof-field-invalid"),
    ("partition longer", change(partition="mmrr"), "proof-size-mismatch"),
    ("partition", change(partition="mrm"), "proof-digest-mismatch"),
    ("digest", change(digest="0" * 64), "proof-digest-mismatch"),
    ("digest spelling", change(digest="G" * 64), "proof-field-invalid"),
    ("bits type", change(bits="53"), "proof-field-invalid"),
    ("bits bool", change(bits=True), "proof-field-invalid"),
    ("bits range", change(bits=1 << 20), "proof-field-invalid"),
    ("undecided", change(undecided=finding()), "proof-contradictory"),
    ("undecided row", change(undecided=finding(row=3)), "proof-contradictory"),
    ("undecided quantity", change(undecided=finding(quantity="x")), "proof-field-invalid"),
    ("undecided float", change(undecided=finding(low="nan")), "proof-field-invalid"),
    ("undecided field", change(undecided=finding(more=1)), "proof-field-unknown"),
    ("undecided type", change(undecided={}), "proof-field-invalid"),
    ("wrong", change(wrong=finding()), "proof-contradictory"),
    ("reason", change(reason="because"), "proof-contradictory"),
    ("reason type", change(reason=None), "proof-field-invalid"),
    ("weights", change(weights="0" * 64), "proof-weights-mismatch"),
    ("weights spelling", change(weights="0" * 63), "proof-field-invalid"),
    ("weights type", change(weights=1), "proof-field-invalid"),
    (
        "weights of nothing",
        change(outcome="undecidable", witness=None, reason="a", undecided=finding(), weights="0" * 64),
        "proof-contradictory",
    ),
    ("seconds", change(seconds=(0.5).hex()), "proof-field-unknown"),
    ("no witness", change(witness=None), "proof-witness-missing"),
    ("witness type", change(witness=[]), "proof-field-invalid"),
    ("witness field", witness(more=1), "proof-field-unknown"),
    ("witness lacks", lambda content: {**content, "witness": {"scale": 106}}, "proof-field-missing"),
    ("witness list", witness(numerators="80"), "proof-field-invalid"),
    ("scale", witness(scale=107), "proof-witness-mass"),
    ("scale range", witness(scale=1 << 20), "proof-field-invalid"),
    ("scale beyond", witness(scale=MOST_BITS + 1), "proof-field-invalid"),
    ("bits beyond", change(bits=MOST_BITS + 1), "proof-field-invalid"),
    ("numerators short", witness(numerators=[HALF]), "proof-witness-length"),
    ("numerators mass", witness(numerators=[HALF, HALF[:-1] + "1"]), "proof-witness-mass"),
    ("numerators huge", witness(numerators=[HALF, "f" * 99]), "proof-field-invalid"),
    ("numerators sign", witness(numerators=[HALF, "-1"]), "proof-field-invalid"),
    ("numerators zeros", witness(numerators=[HALF, "0" + HALF]), "proof-field-invalid"),
    ("numerators false", witness(numerators=["1" + 26 * "0", "3" + 26 * "0"]), "proof-coefficient-unproved"),
    ("numerators off", witness(numerators=["1f8" + 24 * "0", "208" + 24 * "0"]), "proof-slack-unproved"),
]


@pytest.mark.parametrize(("tamper", "error"), [t[1:] for t in TAMPERED], ids=[t[0] for t in TAMPERED])
def test_a_tampered_file_raises_the_named_error(tamper: Callable[[dict[str, Any]], object], error: str) -> None:
    with raises_code(error):
        verify_proof(spelled(tamper(sample())), PAPER, cap=1.0, sigma=5.0)


def test_every_field_is_tampered_with() -> None:
    fields = {re.split("[ ]", name)[0] for name, _, _ in TAMPERED}
    assert set(sample()) <= fields | {"witness"}


def test_other_bytes_are_refused() -> None:
    good = spelled(sample())
    for data, error in (
        (b"", "proof-not-json"),
        (b"\xff", "proof-not-json"),
        (good[:-2], "proof-not-json"),
        (b"[" * 100_000, "proof-not-json"),
        (good + b" ", "proof-not-canonical"),
        (good.replace(b": ", b":"), "proof-not-canonical"),
    ):
        with raises_code(error):
            verify_proof(data, PAPER, cap=1.0, sigma=5.0)
    verify_proof(good, PAPER, cap=1.0, sigma=5.0)


def test_a_proof_holds_for_its_own_inputs_only() -> None:
    proof = prove_partition(PAPER, [0.5, 0.5, 0.0], cap=1.0, sigma=5.0)
    moved = PAPER.copy()
    moved[2, 1] = np.nextafter(0.9, 1.0)
    for keys, cap, sigma in ((moved, 1.0, 5.0), (PAPER, 0.75, 5.0), (PAPER, 1.0, 5.5), (PAPER[::-1], 1.0, 5.0)):
        with raises_code("proof-digest-mismatch"):
            verify_proof(proof, keys, cap=cap, sigma=sigma)
    with raises_code("proof-size-mismatch"):
        verify_proof(proof, PAPER[:2], cap=1.0, sigma=5.0)
    with pytest.raises(InputError):
        verify_proof(proof, PAPER, cap=0.0, sigma=5.0)
    with pytest.raises(InputError):
        verify_proof(proof, PAPER, cap=1.0, sigma=math.nan)
    verify_proof(proof, PAPER * np.array([1.0, -1.0]) * np.array([1.0, -1.0]), cap=1.0, sigma=5.0)


def test_a_false_partition_with_a_right_digest_is_caught() -> None:
    """Each way in which a partition can be false meets the check that is about it."""
    keys = np.vstack([SQUARE, INNER])
    for coefficients, cap, error in (
        ([0.25] * 4 + [0.0] * 2, 0.3, "proof-mass-unproved"),
        ([0.25, 0.25, 0.25, 0.0, 0.25, 0.0], 0.25, "proof-slack-unproved"),
        ([0.2, 0.2, 0.2, 0.2, 0.2, 0.0], 0.4, "proof-coefficient-unproved"),
    ):
        given = np.array(coefficients)
        if error == "proof-mass-unproved":
            given[given > 0.0] = cap
        with raises_code(error):
            verify_proof(forged(keys, given, cap, 4.0), keys, cap=cap, sigma=4.0)
    far = PAPER * np.array([1.0, 4.0])
    with raises_code("proof-slack-unproved"):
        verify_proof(forged(far, np.array([0.5, 0.5, 0.0]), 1.0, 5.0), far, cap=1.0, sigma=5.0)
    twice = np.repeat(PAPER, [2, 1, 1], axis=0)
    proof = prove_partition(twice, [0.25, 0.25, 0.5, 0.0], cap=1.0, sigma=5.0)
    split = dataclasses.replace(proof, partition="mrmr")
    split = dataclasses.replace(split, digest=problem_digest(twice, 1.0, 5.0, split.partition))
    with raises_code("proof-copies-split"):
        verify_proof(split, twice, cap=1.0, sigma=5.0)


def test_a_margin_beyond_the_witness_is_not_accepted() -> None:
    """Twelve keys whose kernel matrix has an eigenvalue of 1e-17 need a witness with more than thirty bits."""
    problem = PROBLEMS["polygon-12-wide"]
    truth = truth_of(problem.name, problem.cap)
    proof = prove_partition(problem.keys, truth.coefficients, cap=problem.cap, sigma=problem.sigma)
    assert proof.witness is not None
    verify_proof(proof, problem.keys, cap=problem.cap, sigma=problem.sigma)
    cap, bound = Fraction(problem.cap), int(proof.bound.size)
    scale = 80
    numerators = [x >> (proof.witness.scale - 30) << (scale - 30) for x in proof.witness.numerators]
    numerators[0] += int((1 - cap * bound) * (1 << scale)) - sum(numerators)
    crude = dataclasses.replace(proof, witness=Witness(scale, tuple(numerators)))
    with raises_code("proof-condition-unproved", "proof-coefficient-unproved"):
        verify_proof(crude, problem.keys, cap=problem.cap, sigma=problem.sigma)


def shifted(proof: Proof, scale: int, by: int) -> Proof:
    """The same witness over 2^scale, with 2^by moved from one coefficient to another."""
    assert proof.witness is not None
    numerators = [x << (scale - proof.witness.scale) for x in proof.witness.numerators]
    numerators[0] += 1 << (scale + by)
    numerators[1] -= 1 << (scale + by)
    return dataclasses.replace(proof, witness=Witness(scale, tuple(numerators)))


@pytest.mark.parametrize("by", [-9, -30, -45])
def test_a_false_witness_of_many_bits_is_refused_at_few(monkeypatch: pytest.MonkeyPatch, by: int) -> None:
    problem = PROBLEMS["polygon-12-wide"]
    truth = truth_of(problem.name, problem.cap)
    proof = prove_partition(problem.keys, truth.coefficients, cap=problem.cap, sigma=problem.sigma)
    used = precisions(monkeypatch)
    with raises_code("proof-coefficient-unproved"):
        verify_proof(shifted(proof, MOST_BITS, by), problem.keys, cap=problem.cap, sigma=problem.sigma)
    assert max(used) == 53 + GUARD


def test_a_false_empty_margin_of_many_bits_is_refused_at_few(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = np.vstack([SQUARE, INNER])
    false = forged(keys, np.array([0.25, 0.25, 0.25, 0.0, 0.25, 0.0]), 0.25, 4.0)
    used = precisions(monkeypatch)
    with raises_code("proof-slack-unproved"):
        verify_proof(dataclasses.replace(false, bits=MOST_BITS), keys, cap=0.25, sigma=4.0)
    assert max(used) == 53 + GUARD


@pytest.mark.parametrize("bits", [53, 106, 2048, MOST_BITS])
def test_what_is_proved_at_any_precision_verifies(bits: int) -> None:
    paper = prove_partition(PAPER, [0.5, 0.5, 0.0], cap=1.0, sigma=5.0, first_bits=bits, most_bits=MOST_BITS)
    assert paper.witness is not None
    # The witness comes from balls, whatever decides the signs.
    assert paper.witness.scale == max(106, bits)
    verify_proof(paper.to_bytes(), PAPER, cap=1.0, sigma=5.0)
    keys, coefficients = np.vstack([SQUARE, INNER]), [0.25] * 4 + [0.0] * 2
    full = prove_partition(keys, coefficients, cap=0.25, sigma=4.0, first_bits=bits, most_bits=MOST_BITS)
    verify_proof(full.to_bytes(), keys, cap=0.25, sigma=4.0)


def precisions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The precision of every start of ball arithmetic from here on."""
    used: list[int] = []

    class Noted(verifier._Balls):
        def __init__(self, *given: Any) -> None:
            used.append(ctx.prec)
            super().__init__(*given)

    monkeypatch.setattr(verifier, "_Balls", Noted)
    return used


@pytest.mark.parametrize(
    ("keys", "coefficients", "options"),
    [
        (PAPER, [0.5, 0.5], {}),
        (PAPER, [0.5, np.nan, 0.0], {}),
        (np.full((3, 2), np.inf), [0.5, 0.5, 0.0], {}),
        (PAPER, [0.5, 0.5, 0.0], {"cap": 0.0}),
        (PAPER, [0.5, 0.5, 0.0], {"sigma": -1.0}),
        (PAPER, [0.5, 0.5, 0.0], {"first_bits": 24}),
        (PAPER, [0.5, 0.5, 0.0], {"first_bits": 106, "most_bits": 53}),
        (PAPER, [0.5, 0.5, 0.0], {"most_bits": MOST_BITS + 1}),
    ],
)
def test_bad_arguments_are_refused(keys: Matrix, coefficients: list[float], options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        prove_partition(keys, coefficients, **{"cap": 1.0, "sigma": 5.0, **options})


def test_the_verifier_imports_nothing_of_the_prover_or_solver() -> None:
    source = Path(sys.modules["expunge.verify.proof"].__file__ or "").read_text(encoding="utf-8")
    imported = {node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    assert {name for name in imported if name and name.startswith("expunge")} == {
        "expunge.errors",
        "expunge.problem.problem",
        "expunge.types",
        "expunge.verify.ball_precision",
        "expunge.verify.kernel_intervals",
        "expunge.verify.optimum",
        "expunge.verify.proof_format",
    }
