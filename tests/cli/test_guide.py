"""docs/guides/cli.md: every command on it runs, in order, and every command is on it; likewise for requests."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cli.command_runner import ROOT, call, every_command, shell
from expunge.error_codes import OUTSIDE

GUIDE = (ROOT / "docs" / "guides" / "cli.md").read_text(encoding="utf-8")
REQUEST = (ROOT / "docs" / "guides" / "handling-a-request.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_command_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain commands in this process, which is quicker; whatever needs a shell in one."""
    (table,) = re.findall(r"```csv\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "hours.csv").write_text(table, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    ran = 0
    for block in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            stated = re.search(r"# exits with (\d)", line)
            code = int(stated.group(1)) if stated else 0
            program, *words = shlex.split(line, comments=True)
            if program == "expunge" and not re.search(r"[>|$]", line):
                complaint = call(*words, code=code).stderr
                ran += 1
            else:
                complaint = shell(line, tmp_path, code=code).stderr
            if stated:
                assert complaint.startswith("error: ")
                assert len(complaint.splitlines()) == 1
    assert ran > 40


@pytest.mark.slow
def test_the_way_of_a_request_runs_and_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ellipsis in the shown text stands for anything."""
    (table,) = re.findall(r"```csv\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "hours.csv").write_text(table, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```sh\n(.*?)```(?:\s*```text\n(.*?)```)?", REQUEST, re.DOTALL)
    assert sum(bool(shown) for _, shown in blocks) == 11
    for commands, shown in blocks:
        printed = ""
        for line in commands.splitlines():
            stated = re.search(r"# exits with (\d)", line)
            code = int(stated.group(1)) if stated else 0
            program, *words = shlex.split(line, comments=True)
            plain = program == "expunge" and not re.search(r"[>|$]", line)
            printed += (call(*words, code=code) if plain else shell(line, tmp_path, code=code)).stdout
        for line in shown.splitlines():
            wanted = ".*".join(re.escape(part).replace(r"\ ", " +") for part in line.split("…"))
            assert re.search(wanted.replace(" + +", " +"), printed), f"{line}\n---\n{printed}"


def test_the_error_that_the_guide_shows_is_the_error(tmp_path: Path) -> None:
    (tmp_path / "broken.csv").write_text("k0,k1,v0\n1,2,97\n1,oops,98\n", encoding="utf-8")
    done = shell("expunge create broken broken.csv --sigma 2 --nu 0.3", tmp_path, code=2)
    (shown,) = re.findall(r"```text\n(error: .*?)\n```", GUIDE)
    assert done.stderr.strip() == shown
    assert not list(tmp_path.glob("expunge.db*"))


def test_every_command_is_in_the_guide_and_nothing_else() -> None:
    listed = re.findall(r"^\| `([a-z -]+)` \|", GUIDE.partition("## Every command")[2], re.MULTILINE)
    assert sorted(listed) == sorted(every_command())
    used = set(
        re.findall(
            r"^expunge ((?:(?:case|checkpoint|erasures|export|key|mirror|verify) )?[a-z-]+)", GUIDE, re.MULTILINE
        )
    )
    assert used <= set(every_command())
    audits = {name for name in every_command() if name.startswith("audit ")}  # docs/guides/auditing.md has these
    services = {name for name in every_command() if name.split()[0] in ("serve", "token")}  # and service.md these
    keys = {"key rotate", "key revoke"}  # and lost-signing-key.md these
    # and witnesses.md these
    witnesses = {"witness serve", "checkpoint witness", "checkpoint timestamp"}
    witnesses |= {"verify tiles", "export tiles", "export cose"}
    # and mirrors.md these
    mirrors = {name for name in every_command() if name.split()[0] in ("mirror", "scan")}
    # docs/guides/mcp.md has mcp, operating.md has warm, verifier.md has verifier
    assert set(every_command()) - used - audits - services - keys - witnesses - mirrors == {
        "demo",
        "mcp",
        "verifier",
        "warm",
    }


def test_exit_codes_are_those_of_the_guide() -> None:
    stated = {int(code) for code in re.findall(r"^\| (\d) \|", GUIDE, re.MULTILINE)}
    assert stated == {0, *(code.exit for code in OUTSIDE.values())}
