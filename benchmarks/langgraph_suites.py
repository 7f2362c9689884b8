"""Run the tests that LangGraph has for its own stores and savers against ours, and account for every difference.

The suites of ``langgraph-checkpoint-sqlite`` and ``langgraph-checkpoint-postgres``, in the versions that are
installed, are taken from their source distributions on the package index, or from a checkout of LangGraph with
``--suites DIR``; nothing of them is kept. `ExpungeStore` stands for `SqliteStore`, `PostgresStore` and their
asynchronous kin, savers are wrapped in `ErasableCheckpointer` (`agents/suite_substitutes.py`). A test that does not
pass needs a reason in `REASONS`; the command fails for one that has none, and for a reason that no test needs.

    python benchmarks/langgraph_suites.py [--suites ~/langgraph]

Writes benchmarks/results/langgraph_suites.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

from record import describe, write_result

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from store.postgres_server import quick_folder, running_server

OUT = Path(__file__).parent / "results" / "langgraph_suites.json"
PACKAGES = {"sqlite": "langgraph-checkpoint-sqlite", "postgres": "langgraph-checkpoint-postgres"}
# What the suites need besides, installed into a temporary folder. Tests that LangGraph marks as flaky are retried.
PLUGINS = ("pytest-asyncio==1.3.0", "pytest-mock==3.15.1", "pytest-retry==1.7.0")
# Why a test does not pass, by the beginning of its name.
_LOOP = "LangGraph's asynchronous stores refuse a synchronous call in the thread of their loop; ours serve it"
_SQL = "looks into tables of LangGraph's own, which ours has not"
_TIMES = "sets the times of rows back in a table of LangGraph's own, which ours has not"
_ENDED = (
    "reads an item that has ended: LangGraph's stores answer with it until a sweep, ours where omit_expired is False"
)
_NEWER = "asks for a newer langgraph-checkpoint-conformance than 0.0.2, and fails so with LangGraph's own saver"
_READ = (
    "gives no refresh_on_read: LangGraph's SqliteStore puts no end off then, its base class and PostgresStore do, and "
    "so does ours"
)
_LOCKED = "opens a database that another process has locked; the list of threads has to look at it first"
REASONS: dict[str, str] = {
    "sqlite/test_async_store.py::test_no_running_loop": _LOOP,
    "sqlite/test_conformance_delta.py": _NEWER,
    "sqlite/test_store.py::test_vector_store_initialization": _SQL,
    "sqlite/test_store.py::test_sql_injection_vulnerability": (
        "expects a filter with quotes in its name to be refused; here no name is part of a statement, and none is found"
    ),
    "sqlite/test_ttl.py::test_ttl_override_default": _READ,
    "sqlite/test_writes_task_path_migration.py::test_setup_does_not_wait": _LOCKED,
    "sqlite/test_writes_task_path_migration.py::test_async_setup_does_not_wait": _LOCKED,
    "postgres/test_async_store.py::test_no_running_loop": _LOOP,
    "postgres/test_async_store.py::test_abatch_uses_single_pool_checkout": _SQL,
    "postgres/test_async_store.py::test_omit_expired_disabled_preserves_expired_rows[default-default]": _ENDED,
    "postgres/test_async_store.py::test_omit_expired_disabled_preserves_expired_rows[pipe-default]": _ENDED,
    "postgres/test_async_store.py::test_omit_expired_disabled_preserves_expired_rows[pool-default]": _ENDED,
    "postgres/test_store.py::test_omit_expired_disabled_preserves_expired_rows[default-default]": _ENDED,
    "postgres/test_store.py::test_omit_expired_disabled_preserves_expired_rows[pipe-default]": _ENDED,
    "postgres/test_store.py::test_omit_expired_disabled_preserves_expired_rows[pool-default]": _ENDED,
    "postgres/test_async_store.py::test_omit_expired_search_pagination": _TIMES,
    "postgres/test_store.py::test_omit_expired_search_pagination": _TIMES,
    "postgres/test_conformance_delta.py": _NEWER,
}


def suite(package: str, folder: Path, suites: Path | None) -> Path:
    """The folder of a package's tests, which is copied or fetched."""
    target = folder / package
    if suites is not None:
        source = suites / "libs" / package.removeprefix("langgraph-")
        shutil.copytree(source / "tests", target / "tests")
        return target
    wanted = f"{package}=={version(package)}"
    words = ["download", "--quiet", "--no-binary", ":all:", "--no-deps", "--no-build-isolation", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", *words, wanted], check=True)  # noqa: S603
    with tarfile.open(next(folder.glob(f"{package.replace('-', '_')}-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.glob(f"{package.replace('-', '_')}-*") if path.is_dir())


def run_suite(places: list[Path], environment: dict[str, str], select: str | None) -> list[dict[str, Any]]:
    """Run one suite in parts, one beside the other, each from a folder of its own; the outcome of each test."""
    for place in places:
        (place / "pytest.ini").write_text(
            "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
        )
    words = [sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", "-p", "agents.suite_substitutes"]
    words += ["-p", "no:cacheprovider", *([] if select is None else ["-k", select])]
    listed = subprocess.run(  # noqa: S603
        [*words, "--collect-only", "tests"], cwd=places[0], env=environment, check=True, capture_output=True, text=True
    )
    tests = [line for line in listed.stdout.splitlines() if "::" in line]
    running, outs = list[subprocess.Popen[bytes]](), list[Path]()
    for number, place in enumerate(places[: len(tests)]):
        outs.append(place / "outcomes.jsonl")
        outs[-1].touch()
        asked = [*words, *tests[number :: len(places)]]
        own = {**environment, "LANGGRAPH_SUITES_OUT": str(outs[-1])}
        running.append(subprocess.Popen(asked, cwd=place, env=own, stdout=subprocess.DEVNULL))  # noqa: S603
    for part in running:
        part.wait()
    found = [json.loads(line) for out in outs for line in out.read_text().splitlines()]
    if missing := set(tests) - {one["test"] for one in found}:
        raise RuntimeError(f"{len(missing)} of {len(tests)} tests have no outcome, such as {min(missing)}")
    return found


def reason_of(package: str, test: str) -> str | None:
    """Why a test does not pass."""
    file, _, name = test.removeprefix("tests/").partition("::")
    asked = f"{package}/{file}::{name}"
    return next((key for key in REASONS if asked.startswith(key)), None)


def main() -> int:
    """Run the suites, print what differs, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", type=Path, help="a checkout of LangGraph, in place of the package index")
    parser.add_argument("--only", choices=list(PACKAGES), nargs="+", default=list(PACKAGES))
    parser.add_argument("--parts", type=int, default=1, help="parts of a suite to run side by side")
    parser.add_argument("-k", dest="select", help="tests to run, for a trial; nothing is written")
    parser.add_argument("--out", type=Path, default=OUT)
    chosen = parser.parse_args()
    folder = quick_folder("suites")
    rows, different, used = list[dict[str, Any]](), list[dict[str, str]](), set[str]()
    try:
        plugins = folder / "plugins"
        words = ["install", "--quiet", "--no-deps", "--target", str(plugins), *PLUGINS]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)  # noqa: S603
        paths = [str(plugins), str(Path(__file__).parent), *filter(None, sys.path)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LANGGRAPH_SUITES_FOLDER": str(folder)}
        for kind in chosen.only:
            package = PACKAGES[kind]
            whole = suite(package, folder, chosen.suites)
            with ExitStack() as servers:
                places = [folder / f"{kind}-{number}" for number in range(chosen.parts)]
                for place in places:
                    shutil.copytree(whole, place)
                    if kind == "postgres":
                        # Each part has a server of its own: tests empty tables that others use.
                        point_at(place, servers.enter_context(running_server()).folder)
                found = run_suite(places, environment, chosen.select)
                rows += counts(package, found)
                for one in found:
                    if one["outcome"] == "failed":
                        key = reason_of(kind, one["test"])
                        used |= set() if key is None else {key}
                        told = "" if key is None else REASONS[key]
                        name = f"{kind}/{one['test'].removeprefix('tests/')}"
                        different.append({"test": name, "reason": told, "told": one["told"]})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for row in rows:
        print("{package} {file}: {passed} of {tests} pass, {skipped} skipped".format(**row))
    for one in different:
        print(f"  {one['test']}: {one['reason'] or 'NO REASON: ' + one['told']}")
    unused = [key for key in REASONS if key not in used and key.partition("/")[0] in chosen.only]
    print(f"reasons that no test needs: {unused}")
    if chosen.select is None:
        versions = {package: version(package) for package in (PACKAGES[kind] for kind in chosen.only)}
        write_result(chosen.out, {"versions": versions, "files": rows, "differences": different, "machine": describe()})
    return 1 if unused or any(not one["reason"] for one in different) else 0


def point_at(place: Path, socket: Path) -> None:
    """Let the tests connect to a server of this machine, by its socket, in place of the one they expect."""
    conftest = place / "tests" / "conftest.py"
    host = f"postgres://postgres@{str(socket).replace('/', '%2F')}/"
    text = re.sub(r"postgres://postgres:postgres@localhost:\d+/", host, conftest.read_text())
    conftest.write_text(text.replace("?sslmode=disable", ""))


def counts(package: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outcomes by file; a test that fails before or after itself counts once."""
    worst: dict[str, str] = {}
    for one in found:
        if one["outcome"] != "passed" or one["test"] not in worst:
            worst[one["test"]] = one["outcome"]
    by_file: dict[str, Counter[str]] = {}
    for test, outcome in worst.items():
        by_file.setdefault(test.partition("::")[0].removeprefix("tests/"), Counter())[outcome] += 1
    return [
        {
            "package": package,
            "file": file,
            "tests": told.total(),
            **{word: told[word] for word in ("passed", "skipped")},
        }
        for file, told in sorted(by_file.items())
    ]


if __name__ == "__main__":
    raise SystemExit(main())
