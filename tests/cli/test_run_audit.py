"""``expunge audit`` from the command line; what the audits find is in tests/audit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from audit.small_audits import shortened
from cli.command_runner import ROOT, answer, call, every_command
from expunge.audit.experiments import EXPERIMENTS, OWN_ROWS
from expunge.cli.commands.run_audit import AUDITS, OWN_KEYS

GUIDE = (ROOT / "docs" / "guides" / "auditing.md").read_text(encoding="utf-8")


def test_every_experiment_has_a_command() -> None:
    assert {*EXPERIMENTS, OWN_ROWS, "all"} == set(AUDITS)
    audits = {name for name in every_command() if name.startswith("audit ")}
    assert audits == {f"audit {name}" for name in (*AUDITS, "report")}
    for name in EXPERIMENTS:
        assert f"`expunge audit {name}`" in GUIDE


def test_the_commands_of_the_guide_are_understood() -> None:
    lines = re.findall(r"^expunge (.*?)(?: +#.*)?$", GUIDE, re.MULTILINE)
    assert len(lines) >= 5
    for line in lines:
        words = line.split()
        name = " ".join(words[:2])
        every_command()[name].make_context(name, words[2:])


def test_an_audit_runs_verifies_and_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = call("audit", "expiry", "--out", "a").stdout
    assert "moves the readout by 0.0e+00 (the paper's solver: 4.6e-09)" in told
    found = answer("audit", "expiry", "--out", "a", "--resume")
    assert found["resumed"] == found["tasks"] == 1
    assert found["numbers"]["coefficient after"] == pytest.approx(0.03327, abs=1e-5)
    assert found["digest"] == json.loads(Path("a/expiry/manifest.json").read_text())["digest"]
    assert "numbers ✓" in call("verify", "evidence", "a").stdout
    verified = answer("verify", "evidence", "a/expiry")
    assert verified["verified"] is True
    assert verified["states"] > 8


@pytest.mark.parametrize("kind", ["csv", "jsonl", "npy", "parquet"])
def test_ones_own_keys_come_from_any_table(kind: str, tmp_path: Path) -> None:
    keys = np.random.default_rng(0).standard_normal((30, 2))
    file = tmp_path / f"mine.{kind}"
    if kind == "npy":
        np.save(file, keys)
    elif kind == "csv":
        file.write_text("id,k0,k1\n" + "".join(f"e{n},{a!r},{b!r}\n" for n, (a, b) in enumerate(keys.tolist())))
    elif kind == "jsonl":
        file.write_text("".join(json.dumps({"k": row}) + "\n" for row in keys.tolist()))
    else:
        import polars

        polars.DataFrame({"k0": keys[:, 0], "k1": keys[:, 1]}).write_parquet(file)
    with shortened(2):
        found = answer("audit", "deletion", "--keys", file, "--quick", "--out", tmp_path / "out", "--jobs", 1)
    assert found["numbers"]["own/ours/attempted"] == found["numbers"]["own/ours/returned"] == 2.0
    manifest = json.loads((tmp_path / "out" / "deletion" / "manifest.json").read_text())
    assert manifest["settings"]["keys"]["rows"] == 30
    assert manifest["settings"]["keys"]["source"] == f"mine.{kind}"


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["deletion", "--sigma", "2"], 2, "--sigma goes with --keys"),
        (["deletion", "--nu", "0.2"], 2, "--nu goes with --keys"),
        (["deletion", "--clinical", "nowhere"], 2, "there is no nowhere"),
        (["streaming", "--clinical", "."], 2, "--clinical goes with deletion, projection, selection, or all"),
        (["deletion", "--keys", "nowhere.csv"], 4, "cannot read nowhere.csv"),
        (["deletion", "--keys", "few.csv"], 2, "at least 26 keys, and few.csv has 2"),
        (["deletion", "--keys", "few.csv", "--key-columns", "x*"], 2, "no column that matches 'x*'"),
        (["expiry", "--keys", "many.npy"], 2, "takes no keys"),
        (["deletion", "--keys", "many.npy", "--clinical", "."], 2, "--keys does without it"),
        (["expiry", "--backend", "slurm"], 2, "--backend is local or ray, not 'slurm'"),
        (["expiry", "--address", "localhost:1"], 2, "add --backend ray"),
        (["expiry", "--jobs", "0"], 2, "--jobs"),
        (["expiry", "--out", "few.csv"], 4, "cannot make few.csv/expiry"),
        (["report", "nowhere"], 4, "there is no folder nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    words: list[str], code: int, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("few.csv").write_text("k0,k1\n1,2\n3,4\n")
    np.save("many.npy", np.random.default_rng(0).standard_normal((30, 2)))
    told = call("audit", *words, code=code).stderr
    assert len(told.splitlines()) == 1
    assert complaint in told
    if code == 2:
        assert not Path("expunge-audit").exists()


def test_a_second_run_does_not_overwrite_the_first(tmp_path: Path) -> None:
    call("audit", "expiry", "--out", tmp_path)
    assert "continue it with --resume" in call("audit", "expiry", "--out", tmp_path, code=2).stderr


def test_tampered_results_fail(tmp_path: Path) -> None:
    call("audit", "expiry", "--out", tmp_path)
    manifest = tmp_path / "expiry" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"finished": true', '"finished": false'))
    assert "archive-unfinished" in call("verify", "evidence", tmp_path, code=1).stderr
    assert "holds no audit" in call("verify", "evidence", tmp_path / "expiry" / "states", code=2).stderr


def test_those_that_take_keys_say_so() -> None:
    for name in OWN_KEYS:
        assert any("--keys" in example for example in every_command()[f"audit {name}"].examples)
