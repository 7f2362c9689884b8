"""The table of error codes, the statements that raise them and the pages that explain them belong together."""

from __future__ import annotations

import ast
from pathlib import Path

import expunge
from expunge import errors
from expunge.error_codes import CODES, DEFECT, OUTSIDE, outside_of
from expunge.errors import Busy, StoreError

KNOWN = {code: kind for kinds in CODES.values() for kind, codes in kinds.items() for code in codes}
SOURCES = sorted(Path(expunge.__file__).parent.rglob("*.py"))
FORMATS = Path(__file__).parents[1] / "docs" / "formats"
PLAIN = {code for title in ("Every package", "The service") for codes in CODES[title].values() for code in codes}


def test_what_is_raised_is_in_the_table_with_its_class() -> None:
    literals: set[str] = set()
    for path in SOURCES:
        if path.name == "error_codes.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                literals.add(node.value)
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            for keyword in node.keywords:
                if keyword.arg == "code" and isinstance(keyword.value, ast.Constant):
                    assert KNOWN[str(keyword.value.value)] == node.func.id, f"{path}:{node.lineno}"
    assert set(KNOWN) <= literals, "a code that nothing raises"


def test_every_class_is_in_the_table() -> None:
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert KNOWN[kind.default_code] == name
    assert set(KNOWN.values()) <= set(errors.__all__)


def test_the_formats_explain_every_code_of_theirs() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in FORMATS.glob("*.md"))
    for code in KNOWN.keys() - PLAIN - {"receipt-error"}:
        assert f"`{code}`" in pages, f"{code} is in no document"


def test_the_code_decides_and_then_the_nearest_class() -> None:
    assert outside_of(Busy("x")).status == 503
    assert outside_of(StoreError("x", code="damaged")) == OUTSIDE["damaged"]
    assert outside_of(StoreError("x", code="signing-key-missing")) == OUTSIDE["store-error"]
    assert outside_of(ValueError("x")) is DEFECT
