"""What `import expunge` brings and what it costs; the public names; the tree of errors."""

from __future__ import annotations

import ast
import os
import pkgutil
import re
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

import expunge
from expunge import errors

HEAVY = (
    "clarabel",
    "cryptography",
    "daqp",
    "fastapi",
    "flint",
    "matplotlib",
    "numba",
    "piqp",
    "proxsuite",
    "psycopg",
    "ray",
    "scipy",
    "sklearn",
    "sqlalchemy",
    "torch",
)

PUBLIC = {
    "AdmissionRefused",
    "Attempt",
    "Bounds",
    "Busy",
    "Conflict",
    "DecrementCertificate",
    "DeletionRefused",
    "ExpungeError",
    "Hit",
    "InputError",
    "Judgement",
    "Memory",
    "MissingExtra",
    "Neighbour",
    "Partition",
    "Preview",
    "Proof",
    "Receipt",
    "Refused",
    "ReserveCertificate",
    "SignedReceipt",
    "Solution",
    "SolveError",
    "Stale",
    "StateCheck",
    "Store",
    "StoreError",
    "StoredMemory",
    "VerificationError",
    "Warranty",
    "WarrantyList",
    "__version__",
}


def python(program: str, **environment: str) -> str:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stdout.strip()


def test_importing_loads_nothing_heavy() -> None:
    program = f"import sys, expunge; print([name for name in {HEAVY} if name in sys.modules])"
    assert python(program) == "[]"


def test_using_a_memory_loads_no_backend_and_no_extra() -> None:
    program = (
        "import sys, expunge; "
        "memory = expunge.Memory.fit([[0.0], [1.0], [2.0]], [0, 1, 2], sigma=1.0, nu=0.5); "
        "memory.admit([5.0], 1); memory.delete('0'); memory.read([0.5]); "
        "print([name for name in ('daqp', 'proxsuite', 'clarabel', 'piqp', 'torch', 'matplotlib', 'sqlalchemy') "
        "if name in sys.modules])"
    )
    assert python(program) == "[]"


def test_the_import_is_quick() -> None:
    """Best of three, less what starting Python itself takes: the machine may be busy."""

    def best(program: str) -> float:
        seconds = []
        for _ in range(3):
            started = time.perf_counter()
            python(program)
            seconds.append(time.perf_counter() - started)
        return min(seconds)

    assert best("import expunge") - best("pass") < 0.5


def test_the_public_names_are_these() -> None:
    assert set(expunge.__all__) == PUBLIC
    assert list(expunge.__all__) == sorted(expunge.__all__)
    assert dir(expunge) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(expunge, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = expunge.Nothing


def test_every_module_has_what_it_exports() -> None:
    for found in pkgutil.walk_packages(expunge.__path__, "expunge."):
        try:
            module = import_module(found.name)
        except ModuleNotFoundError as missing:
            # Triton comes with the GPU builds of torch alone.
            if missing.name != "triton":
                raise
            continue
        if found.ispkg and not hasattr(module, "__all__"):
            continue
        assert module.__all__, found.name
        assert all(hasattr(module, name) for name in module.__all__), found.name


def test_no_module_needs_posix_to_be_imported() -> None:
    """What POSIX alone has is imported where it is used."""
    posix = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty"}
    package = Path(expunge.__file__).parent
    for path in package.rglob("*.py"):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.Import):
                assert not posix & {alias.name for alias in statement.names}, path
            elif isinstance(statement, ast.ImportFrom):
                assert statement.module not in posix, path


def test_the_tree_of_errors_is_as_drawn() -> None:
    """Every class is drawn once, under its parent, with the builtin it also is."""
    drawn: dict[str, tuple[str | None, str | None]] = {}
    stack: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^    ((?:[│ ]   )*(?:[├└]── )?)(\w+)(?: \((\w+)\))?(?:\s{2,}\S.*)?$", line)
        if found:
            depth = len(found.group(1)) // 4
            name = found.group(2)
            drawn[name] = (stack[depth - 1] if depth else None, found.group(3))
            stack[depth:] = [name]
    classes = {name: getattr(errors, name) for name in errors.__all__}
    assert set(drawn) == set(classes)
    for name, cls in classes.items():
        parent, builtin = drawn[name]
        bases = [base.__name__ for base in cls.__bases__]
        assert bases == [base for base in (parent or "Exception", builtin) if base]
        assert issubclass(cls, errors.ExpungeError)
        assert cls.__doc__
