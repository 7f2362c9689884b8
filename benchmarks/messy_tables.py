"""Messy tables, made from open data, from the file to a verified erasure by the command line alone.

Each table is as people have it: missing cells in several spellings, a decimal comma, a Latin-1 header, gzip, a row of
units, UTF-16 from a spreadsheet, a title above the header, prices with their sign. `walk` types ``expunge create NAME
FILE``; where that stops with an error, it types the one option that the error names, and nothing else. Then it erases a
person, or deletes an entry, and verifies the receipt.

    make messy-tables
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars
from sklearn import datasets as sklearn_data

from expunge.datasets import conversations, icu_hours
from record import describe, write_result

__all__ = ["TABLES", "Walk", "walk"]

RESULTS = Path(__file__).parent / "results" / "messy-tables.json"
SEED = 20261119
SIGNS = ("hr", "sbp", "dbp", "rr", "spo2", "temp")

Runner = Callable[[Sequence[str]], tuple[int, str, str]]


@dataclass(frozen=True)
class Table:
    """One messy table: its file's name, what is wrong with it, and how it is written into a folder."""

    name: str
    file: str
    mess: str
    write: Callable[[Path], None]
    # What the first error names, where the file's name is not enough.
    option: tuple[str, ...] = ()


@dataclass(frozen=True)
class Walk:
    """What happened to one table: the options typed, the fit, the erasure, and whether its receipt was verified."""

    table: str
    mess: str
    option: tuple[str, ...]
    error: str
    entries: int
    keys: int
    healthy: bool
    warnings: tuple[str, ...]
    erased: int
    verified: bool
    seconds: float


def walk(table: Table, folder: Path, run: Runner) -> Walk:
    """Go from a file to a verified erasure. Raises RuntimeError where a command fails that should not."""
    table.write(folder / table.file)
    started = time.perf_counter()
    store = ("--store", f"sqlite:///{folder / f'{table.name}.db'}")
    code, out, error = run(["create", table.name, str(folder / table.file), "--json", *store])
    option: tuple[str, ...] = ()
    if code:
        message = json.loads(out)["message"]
        if code != 2 or not table.option or not re.search(rf"{table.option[0]}\b", message):
            raise RuntimeError(f"{table.name}: {message}")
        option, error = table.option, message.replace(f"{folder}/", "")
        code, out, complaint = run(["create", table.name, str(folder / table.file), *option, "--json", *store])
        if code:
            raise RuntimeError(f"{table.name} with {option}: {complaint}")
    made = json.loads(out)
    erased, leaf = _erase(table.name, folder, store, run)
    receipt, key = folder / f"{table.name}.receipt.json", folder / f"{table.name}.vkey"
    _done(run(["log", str(leaf), "--out", str(receipt), *store]))
    key.write_text(_done(run(["show", "--verifier-key", *store])), encoding="utf-8")
    code, _, _ = run(["verify", "receipt", str(receipt), "--trust", str(key)])
    return Walk(
        table.name,
        table.mess,
        option,
        error if option else "",
        made["entries"],
        len(made["key_columns"]),
        made["report"]["healthy"],
        tuple(made["report"]["warnings"]),
        erased,
        code == 0,
        time.perf_counter() - started,
    )


def _erase(name: str, folder: Path, store: tuple[str, ...], run: Runner) -> tuple[int, int]:
    """Erase the first person of a memory, or its first entry: how many entries went, and the leaf of the receipt."""
    import expunge

    with expunge.open(f"sqlite:///{folder / f'{name}.db'}") as opened:
        memory = opened[name]
        first = memory.ids[0]
        subject = memory.subjects[0]
    if subject is not None:
        told = json.loads(_done(run(["erase-subject", subject, "--yes", "--json", *store])))
        (part,) = told["memories"]
        return len(part["receipt"]["applied"]), part["receipt"]["index"]
    told = json.loads(_done(run(["delete", name, first, "--yes", "--json", *store])))
    return len(told["applied"]), told["index"]


def _done(result: tuple[int, str, str]) -> str:
    code, out, error = result
    if code:
        raise RuntimeError(error)
    return out


def _text(header: Sequence[str], rows: Iterable[Sequence[object]], sign: str = ",", end: str = "\n") -> str:
    return "".join(sign.join(map(str, row)) + end for row in (header, *rows))


def _hours() -> list[dict[str, Any]]:
    """The bundled hours of intensive care: patient, stay, hour, six vital signs, and which of them were filled in."""
    sample = icu_hours()
    return [
        {"id": name, "patient": subject, **payload}
        for name, subject, payload in zip(sample.ids, sample.subjects, sample.payloads, strict=True)
    ]


def _gaps(path: Path) -> None:
    """Vital signs that were filled in are empty again, in the spellings that wards use."""
    spelled = ("", "NA", "N/A", "null", "-", "?", "NaN", "None", "#N/A")
    rows = []
    for place, hour in enumerate(_hours()):
        cells = [
            spelled[(place + sign) % len(spelled)] if name in hour["filled"] else hour[name]
            for sign, name in enumerate(SIGNS)
        ]
        rows.append([hour["patient"], f"2026-01-{place % 28 + 1:02d} {hour['hour'] % 24:02d}:00", *cells])
    path.write_text(_text(("patient", "charttime", *SIGNS), rows))


def _semicolons(path: Path) -> None:
    iris = sklearn_data.load_iris()
    rows = [
        [str(x).replace(".", ",") for x in row] + [iris.target_names[kind]]
        for row, kind in zip(iris.data.tolist(), iris.target, strict=True)
    ]
    path.write_text("\ufeff" + _text((*iris.feature_names, "species"), rows, ";", "\r\n"), encoding="utf-8")


def _latin(path: Path) -> None:
    wine = sklearn_data.load_wine()
    header = ["Weinprobe Nr", "Säure (g/l)", "Farbstärke", "Erzeuger", *wine.feature_names[3:]]
    rows = [
        [place, row[1], row[9], ("Müller", "Weiß", "Groß")[kind], *row[3:]]
        for place, (row, kind) in enumerate(zip(wine.data.tolist(), wine.target, strict=True), 1)
    ]
    path.write_bytes(_text(header, rows, ";", "\r\n").encode("latin-1"))


def _packed(path: Path) -> None:
    cancer = sklearn_data.load_breast_cancer()
    rows = [
        [f"B-{place:04d}", *row, "malignant" if not kind else "benign"]
        for place, (row, kind) in enumerate(zip(cancer.data.tolist(), cancer.target, strict=True))
    ]
    path.write_bytes(gzip.compress(_text(("patient_id", *cancer.feature_names, "diagnosis"), rows).encode()))


def _unit_row(path: Path) -> None:
    diabetes = sklearn_data.load_diabetes(scaled=False)
    names = [name if name != "sex" else "sex (1/2)" for name in diabetes.feature_names]
    units = ["years", "", "kg/m2", "mmHg", *["mg/dl"] * 3, "", "log(mg/dl)", "mg/dl"]
    path.write_text(_text(names, [units, *diabetes.data.tolist()], "\t"))


def _wide(path: Path) -> None:
    digits = sklearn_data.load_digits()
    rows = [
        [
            f"scan{place:04d}",
            *row,
            f"digit {kind}",
        ]
        for place, (row, kind) in enumerate(zip(digits.data.tolist()[:600], digits.target.tolist(), strict=False))
    ]
    path.write_text(_text(("scan_id", *digits.feature_names, "digit"), rows, "|"))


def _parquet(path: Path) -> None:
    rows = _hours()
    start = np.datetime64("2026-01-01T00:00:00")
    columns: dict[str, Any] = {
        "subject_id": [row["patient"] for row in rows],
        "time": [(start + np.timedelta64(row["hour"], "h")).astype(object) for row in rows],
        "ventilated": [row["rr"] > 25 for row in rows],
    }
    columns |= {sign: [None if sign in row["filled"] else row[sign] for row in rows] for sign in SIGNS}
    polars.DataFrame(columns).with_columns(polars.lit("ICU").cast(polars.Categorical).alias("ward")).write_parquet(path)


def _embedded(path: Path) -> None:
    chats = conversations()
    lines = [
        {"id": name, "user": user, "date": payload["date"], "text": payload["query"], "embedding": key.tolist()}
        for name, user, payload, key in zip(chats.ids, chats.subjects, chats.payloads, chats.keys, strict=True)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _spreadsheet(path: Path) -> None:
    """What a spreadsheet calls Unicode text: UTF-16, tabs, and rows of empty cells below the table."""
    wine = sklearn_data.load_wine()
    rows = [[f"Flasche {place}", *row] for place, row in enumerate(wine.data.tolist())]
    empty = [[""] * len(rows[0])] * 3
    path.write_text(_text(("", *wine.feature_names), [*rows, *empty], "\t", "\r\n"), encoding="utf-16")


def _joined(path: Path) -> None:
    """Two exports in one file, a constant column, and one weight in grams among kilograms."""
    rows = _hours()
    header = ["patient", "hour", *SIGNS, "monitor", "weight [kg]"]
    rng = np.random.default_rng(SEED)
    weights = rng.normal(75, 12, len(rows)).round(1)
    weights[17] *= 10_000
    lines = [
        [row["patient"], row["hour"], *(row[sign] for sign in SIGNS), 3, weight]
        for row, weight in zip(rows, weights.tolist(), strict=True)
    ]
    path.write_text(_text(header, [*lines[:400], header, *lines[400:]]))


def _headless(path: Path) -> None:
    iris = sklearn_data.load_iris()
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in iris.data.tolist()))


def _mixed(path: Path) -> None:
    rng = np.random.default_rng(SEED)
    rows = []
    for hour in _hours():
        lactate = float(rng.gamma(2.0, 1.0))
        rows.append([hour["patient"], *(hour[sign] for sign in SIGNS), f"{lactate:.1f}" if lactate > 0.5 else "<0.5"])
    path.write_text(_text(("patient", *SIGNS, "lactate"), rows))


def _repeated_ids(path: Path) -> None:
    rows = [[hour["id"].partition("/")[0], *(hour[sign] for sign in SIGNS)] for hour in _hours()]
    path.write_text(_text(("id", *SIGNS), rows))


def _mostly_missing(path: Path) -> None:
    rng = np.random.default_rng(SEED)
    rows = []
    for hour in _hours():
        troponin = f"{rng.gamma(1.5, 20.0):.0f}" if rng.random() < 0.17 else ""
        rows.append([hour["patient"], *(hour[sign] for sign in SIGNS), troponin])
    path.write_text(_text(("patient", *SIGNS, "troponin"), rows))


def _filtered(path: Path) -> None:
    """A data frame that was filtered, sorted and saved with its index."""
    rows = [[place, *(hour[sign] for sign in SIGNS)] for place, hour in enumerate(_hours()) if hour["hr"] > 70]
    path.write_text(_text(("", *SIGNS), sorted(rows, key=lambda row: str(row[1]))))


def _grouped(path: Path) -> None:
    cancer = sklearn_data.load_breast_cancer()
    rows = [[f'"{row[3]:,.0f}"', f'"{row[23]:,.0f}"', *row[:3]] for row in cancer.data.tolist()]
    path.write_text(_text(("mean area", "worst area", *cancer.feature_names[:3]), rows))


def _titled(path: Path) -> None:
    """A report as a spreadsheet saves it: a title, a date, an empty row, the table, and a row of means."""
    rows = [[hour["id"], *(hour[sign] for sign in SIGNS)] for hour in _hours()]
    means = ["Mittelwert", *(f"{np.mean([row[place] for row in rows]):.1f}" for place in range(1, len(SIGNS) + 1))]
    blank = ";" * len(SIGNS)
    above = f"Station 7, Vitalwerte{blank}\nStand: 1. Mai 2026{blank}\n{blank}\n"
    path.write_text(above + _text(("record_id", *SIGNS), [*rows, means], ";"))


def _letterhead(path: Path) -> None:
    rows = [[hour["patient"], *(hour[sign] for sign in SIGNS)] for hour in _hours()]
    path.write_text("Hospital,St. Anna\nWard,7\nPrinted by,A. Moser\n" + _text(("patient", *SIGNS), rows))


def _priced(path: Path) -> None:
    """Units in the cells: money with thousands separators, per cent, and a word behind a blank."""
    wine = sklearn_data.load_wine()
    rng = np.random.default_rng(SEED)
    rows = [
        [
            f"m{place % 60:02d}",
            f'"${50 * row[12] + 10 * rng.random():,.2f}"',
            f"{row[0]:.1f}%",
            f"{row[4]:.0f} mg",
            row[2],
            row[9],
        ]
        for place, row in enumerate(wine.data.tolist())
    ]
    path.write_text(_text(("member", "price", "alcohol", "magnesium", "ash", "colour"), rows))


TABLES = (
    Table("gaps", "hours.csv", "a quarter of the cells missing, in nine spellings; times as text", _gaps),
    Table("semicolons", "iris.csv", "semicolons, decimal commas, byte order mark, units in the header", _semicolons),
    Table("latin", "wein.csv", "Latin-1 header and names, semicolons", _latin),
    Table("packed", "biopsies.csv.gz", "gzip; one row per patient; 30 columns of very different scale", _packed),
    Table("units", "diabetes.txt", "a row of units below the header; tabs; no format in the name", _unit_row),
    Table("wide", "digits.csv", "64 columns, some constant, vertical bars", _wide),
    Table("parquet", "icu.parquet", "Parquet with timestamps, nulls, booleans and categories", _parquet),
    Table("embedded", "chats.jsonl", "JSON Lines with a list of 384 numbers, text and dates", _embedded),
    Table("spreadsheet", "wine.txt", "UTF-16 with tabs, an unnamed first column, empty rows at the end", _spreadsheet),
    Table("joined", "export.csv", "a header repeated inside, a constant column, an outlier 10,000-fold", _joined),
    Table("filtered", "quick.csv", "the index of a filtered and sorted data frame, with gaps", _filtered),
    Table(
        "titled", "bericht.csv", "a title, a date and an empty row above the header, a row of means at the end", _titled
    ),
    Table("priced", "wines.csv", "units in the cells: $62,600.50, 13.2%, 101 mg", _priced),
    Table("headless", "iris.data", "no header", _headless, ("--no-header",)),
    Table(
        "letterhead",
        "ward.csv",
        "three lines of several cells above the header",
        _letterhead,
        ("--skip-lines", "3"),
    ),
    Table("mixed", "labs.csv", "text among the numbers: <0.5", _mixed, ("--also-missing", "<0.5")),
    Table("grouped", "areas.csv", "thousands separators in 1,001", _grouped, ("--decimal", "point")),
    Table("repeated-ids", "stays.csv", "a column called id that repeats", _repeated_ids, ("--subject-column", "id")),
    Table(
        "mostly-missing",
        "troponin.csv",
        "a column that is missing in 83 % of the rows",
        _mostly_missing,
        ("--missing", "median"),
    ),
)


def _typed(words: Sequence[str]) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-m", "expunge", *words], capture_output=True, text=True, check=False)  # noqa: S603
    return done.returncode, done.stdout, done.stderr


def main() -> None:
    """Walk every table, print one line each, and keep the result."""
    walks = []
    with TemporaryDirectory() as folder:
        for table in TABLES:
            found = walk(table, Path(folder), _typed)
            walks.append(found)
            print(
                f"{found.table:15} {found.entries:4} entries, {found.keys:3} keys, "
                f"{'healthy' if found.healthy else 'NOT HEALTHY'}, {found.erased:3} erased, "
                f"{'verified' if found.verified else 'NOT VERIFIED'}, {found.seconds:.1f} s  "
                f"{' '.join(found.option) or '(no option)'} {' | '.join(found.warnings)}"
            )
    write_result(RESULTS, {"machine": describe(), "tables": [vars(found) for found in walks]})


if __name__ == "__main__":
    main()
