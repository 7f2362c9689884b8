from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from studies import forget, student
from studies.recall import KEY_BYTES, NOISE_BYTES, PARTNER_BYTES, QUIZ, QUIZ_NOISE, QUIZ_PAIRS, guessed, quiz_rows


def test_a_student_learns_its_teacher() -> None:
    errors = student.learn(0, steps=60)
    assert errors[-1] < 0.1 * errors[0]


def test_the_teacher_has_no_error_against_itself() -> None:
    teacher = student.Layer(torch.Generator().manual_seed(3))
    context, questions = torch.randn(14, 5, dtype=torch.float64), torch.randn(8, 5, dtype=torch.float64)
    assert torch.equal(teacher.read(context, questions), teacher.read(context, questions))
    assert teacher.read(context, questions).shape == (8, 3)


def test_what_can_be_guessed_in_the_quiz_without_its_pairs() -> None:
    asked = quiz_rows(20_000, seed=5)[:, 2 * QUIZ_PAIRS + QUIZ_NOISE :].reshape(-1, QUIZ_PAIRS, 2).numpy()
    guesses = np.random.default_rng(6).integers(*PARTNER_BYTES, asked.shape[:2])
    right = 0.0
    for place in range(QUIZ_PAIRS):
        before = asked[:, :place, 0] == asked[:, place : place + 1, 0]
        right += (before.any(1) | (guesses[:, place] == asked[:, place, 1])).mean() / QUIZ_PAIRS
    # Four standard errors, were the answers independent.
    assert abs(right - guessed()) < 4 * (0.25 / asked[..., 0].size) ** 0.5


def test_the_quiz_can_be_answered_from_its_pairs() -> None:
    rows = quiz_rows(20, seed=0).long()
    assert rows.shape == (20, QUIZ.block + 1)
    first = 2 * QUIZ_PAIRS + QUIZ_NOISE
    for row in rows.tolist():
        book = dict(zip(row[0 : 2 * QUIZ_PAIRS : 2], row[1 : 2 * QUIZ_PAIRS : 2], strict=True))
        assert len(book) == QUIZ_PAIRS
        assert all(KEY_BYTES[0] <= key < KEY_BYTES[1] for key in book)
        assert all(PARTNER_BYTES[0] <= partner < PARTNER_BYTES[1] for partner in book.values())
        assert all(NOISE_BYTES[0] <= noise < NOISE_BYTES[1] for noise in row[2 * QUIZ_PAIRS : first])
        assert [book[key] for key in row[first::2]] == row[first + 1 :: 2]


def test_a_deleted_secret_is_told_only_by_chance(tmp_path: Path) -> None:
    model = forget.train(0, steps=40)
    rows = forget.trials(model, 10, seed=1)
    assert sum(row["told_before"] for row in rows) >= 8
    assert all(row["shared_word"] for row in rows if row["told_after"])
    assert all(row["outcome"] in ("decrement", "certified_zero", "rescued") for row in rows)


def test_decay_reads_with_the_given_coefficients() -> None:
    keys, values = np.array([[0.0], [4.0]]), np.eye(2)
    assert forget.ask(keys, keys, np.array([0.5, 0.5]), values).tolist() == [0, 1]
    assert forget.ask(keys, keys, np.array([1e-12, 1.0]), values).tolist() == [1, 1]


def test_the_student_command_writes_its_result(tmp_path: Path) -> None:
    student.main(["--seeds", "0", "--out", str(tmp_path)])
    content = json.loads((tmp_path / "student.json").read_text())
    assert content["rows"] == []
    assert content["machine"]["versions"]["torch"]
