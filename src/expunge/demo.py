"""The main job on real data, start to finish, in a folder that stays: ``expunge demo`` or ``python -m expunge.demo``.

Twelve patients' hours in intensive care and fifteen people's chats, both shipped with the package, go into a SQLite
store. Then: ask, prune under warranty, erase a patient, read the receipt, verify it offline, tamper with copies of it,
watch certificates expire. Everything shown is computed on the spot; a step that does not come out as told raises.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

import expunge
from expunge.cli.output import fields, listing, seconds, snippet, stated_panel
from expunge.errors import ExpungeError, InputError, StoreError, VerificationError

if TYPE_CHECKING:
    from expunge.attestation.evidence import Prior
    from expunge.datasets import Sample
    from expunge.store import SignedReceipt, Store, StoredMemory

__all__ = ["FOLDER", "Demo", "main", "run"]

FOLDER = Path("expunge-demo")
PATIENT = "patient-10021487"
# Rows of the samples' queries: the erased patient's next hour, and a question about music.
HOUR, QUESTION = 36, 84
WIDEST = 100
MARK = "README.txt"
README = """\
What `expunge demo` left here. Everything can be deleted.

expunge.db           the store: two memories of real data, two of three entries, one ledger
expunge.db.key       its signing key, made by the demo
log.vkey             the public key that receipts and the log verify under
head-kept.txt        a signed head of the log, kept before the erasure
receipts/            the receipt of the erasure, and the proof of its place in the log
evidence/            what a stranger needs to recompute the receipt's numbers
tampered/            copies that were changed, and do not verify
questions/           two queries as vectors
NOTICE-*.txt         where the data come from, and under which licence

Run commands from inside this folder: `expunge.db` is where they look by default.
"""


@dataclass(frozen=True)
class Step:
    """A finished part of the demo."""

    name: str
    seconds: float


@dataclass
class Demo:
    """What a run has done so far."""

    folder: Path
    console: Console
    steps: list[Step] = field(default_factory=list)
    caught: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)
    total: float = 0.0

    @property
    def program(self) -> str:
        """How to call ``expunge`` from within the folder."""
        script = Path(sys.executable).with_name("expunge")
        found = shutil.which("expunge")
        if found is not None and Path(found).resolve() == script.resolve():
            return "expunge"
        if script.exists():
            return shlex.quote(os.path.relpath(script, self.folder))
        return f"{shlex.quote(sys.executable)} -m expunge"

    @property
    def next_commands(self) -> list[str]:
        """Three commands to try, from within the folder."""
        return [
            f"{self.program} search conversations --at @questions/rock-bands.npy",
            f"{self.program} erase-subject Susan --dry-run",
            f"{self.program} verify evidence evidence/erasure.zip --trust log.vkey",
        ]

    def say(self, *parts: RenderableType) -> None:
        """Print, a little indented."""
        for part in parts:
            self.console.print(Padding(part, (0, 0, 0, 2), expand=False) if part else "")

    @contextmanager
    def step(self, name: str, heading: str, about: str) -> Iterator[None]:
        """One part, under its heading, timed."""
        self.console.print()
        title = Text.assemble((f"{len(self.steps) + 1} ", "bold cyan"), (heading, "bold"))
        self.console.print(Rule(title, align="left", style="cyan"))
        self.say(Text(about, style="dim"), *([] if name == "fit" else [""]))
        started = time.perf_counter()
        yield
        self.steps.append(Step(name, time.perf_counter() - started))


def run(folder: Path = FOLDER, *, fresh: bool = False, console: Console | None = None) -> Demo:
    """Run the demo in a new folder. Raises InputError if it exists; `fresh` replaces one that a demo has made."""
    console = Console(highlight=False) if console is None else console
    if console.width > WIDEST:
        console.width = WIDEST
    _make(folder, fresh)
    demo = Demo(folder, console)
    _greet(demo)
    _warm_up(demo)
    from expunge import datasets
    from expunge.store import open as open_store

    with open_store(f"sqlite:///{folder / 'expunge.db'}", origin="expunge-demo") as store:
        (folder / "log.vkey").write_text(store.log_key.to_text() + "\n", encoding="utf-8")
        hours, chats = datasets.icu_hours(), datasets.conversations()
        for name, sample in (("icu", hours), ("conversations", chats)):
            (folder / f"NOTICE-{name}.txt").write_text(sample.notice, encoding="utf-8")
        with demo.step("fit", "Fit", "Each entry gets a weight: its part in the memory's shape. Many weigh nothing."):
            _fit(demo, store, {"icu": hours, "conversations": chats})
        with demo.step("ask", "Ask", "The answer is a weighted mean of values near the query; shares say whose."):
            _ask(demo, store, hours, chats)
        with demo.step(
            "prune", "Prune", "Entries proved to weigh nothing leave the live memory, each under a warranty."
        ):
            _prune(demo, store, hours)
        with demo.step(
            "erase", "Erase a patient", "Solved again without them, checked, signed, logged; their content destroyed."
        ):
            receipt, prior = _erase(demo, store, hours)
        with demo.step(
            "verify", "Verify it offline", "From a few files and the public key: no store, no solver, no network."
        ):
            _verify(demo, store, receipt, prior)
        with demo.step("tamper", "Tamper with it", "Copies of the same files, each with one thing changed."):
            _tamper(demo, store, receipt, prior)
        with demo.step(
            "expire",
            "Watch certificates expire",
            "A zero weight is true today. Later entries can end it, and the warranty knows.",
        ):
            _expire(demo, store, chats)
    demo.total = time.perf_counter() - demo.started
    _farewell(demo)
    return demo


def main() -> None:
    """``python -m expunge.demo``: the same as ``expunge demo``."""
    from expunge.cli.app import app

    app(["demo", *sys.argv[1:]], prog_name="expunge")


def _make(folder: Path, fresh: bool) -> None:
    try:
        if folder.exists():
            ours = folder.is_dir() and (folder / MARK).is_file() and (folder / MARK).read_text("utf-8") == README
            if not ours:
                raise InputError(f"{folder} exists and was not made by the demo; choose another with --folder")
            if not fresh:
                raise InputError(f"{folder} has an earlier demo in it; --fresh replaces it, --folder goes elsewhere")
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        (folder / MARK).write_text(README, encoding="utf-8")
        for part in ("receipts", "evidence", "tampered", "questions"):
            (folder / part).mkdir()
    except (OSError, ValueError) as problem:
        if isinstance(problem, ExpungeError):
            raise
        raise StoreError(f"cannot make {folder}: {problem}") from None


def _greet(demo: Demo) -> None:
    demo.console.print()
    demo.console.print(
        Text.assemble(
            ("expunge ", "bold"), (expunge.__version__, "dim"), "  A memory you can delete from, and prove it."
        )
    )
    demo.console.print(Text(f"A tour on real data, kept in {demo.folder}/.", style="dim"))


def _warm_up(demo: Demo) -> None:
    """Have every loop compiled, so that the times below are those of the work."""
    from expunge.memory.memory import Memory

    started = time.perf_counter()
    with demo.console.status("Compiling the solver (the first time only) …"):
        grid = np.random.default_rng(0).standard_normal((200, 2))
        memory = Memory.fit(grid, grid, sigma=1.0, nu=0.4)
        memory.prune("archive")
        memory.admit([3.0, 3.0], [0.0, 0.0])
        memory.delete(memory.ids[:4])
        memory.prune("forget", sketch=1)
        memory.admit([-3.0, 3.0], [0.0, 0.0])
    took = time.perf_counter() - started
    if took > 3.0:
        demo.console.print(
            Text(f"The solver was compiled in {seconds(took)}; that is kept for the next time.", style="dim")
        )


def _fit(demo: Demo, store: Store, data: dict[str, Sample]) -> None:
    rows = []
    for name, sample in data.items():
        with demo.console.status(f"Fitting {name} …"):
            started = time.perf_counter()
            memory = store.create(name, **sample.arguments)
            took = time.perf_counter() - started
        zero = int(memory.partition.reserve.size)
        sizes = [str(len(memory)), str(len(set(sample.subjects))), str(memory.dimension)]
        rows.append([name, *sizes, f"{zero} ({zero / len(memory):.0%})", f"{memory.check().worst:.0e}", seconds(took)])
    (demo.folder / "head-kept.txt").write_bytes(store.checkpoint().to_bytes())
    columns = ["memory", "entries", "people", "length", "weigh nothing", "error", "took"]
    demo.say(
        listing(columns, rows, right=columns[1:]),
        "The error is recomputed from the keys. Above 1e-09 nothing is stored.",
    )


def _ask(demo: Demo, store: Store, hours: Sample, chats: Sample) -> None:
    demo.say(_question(hours.query_texts[HOUR].partition(": ")[2]))
    answer = store["icu"].read(hours.queries[HOUR])[0]
    demo.facts["answer"] = float(answer[0])
    demo.say(f"Hours like it: oxygen saturation {answer[0]:.1f}%, vital signs out of limits in {answer[1]:.0%}.")
    demo.say(_hits(store["icu"], hours.queries[HOUR], 3, _vitals), "")
    demo.say(_question(chats.query_texts[QUESTION]))
    demo.say(_hits(store["conversations"], chats.queries[QUESTION], 3, lambda payload: payload["query"]))
    np.save(demo.folder / "questions" / "next-hour.npy", hours.queries[HOUR])
    np.save(demo.folder / "questions" / "rock-bands.npy", chats.queries[QUESTION])


def _prune(demo: Demo, store: Store, hours: Sample) -> None:
    icu = store["icu"]
    before, size = icu.read(hours.queries), len(icu)
    kept, forgotten = icu.prune("archive"), store["conversations"].prune("forget")
    same = np.array_equal(before, icu.read(hours.queries))
    _must(same, "pruning changed an answer")
    demo.say(
        fields(
            [
                ("icu", f"{size} → {len(icu)} entries; {len(kept.applied)} set aside in an archive"),
                ("conversations", f"{len(forgotten.applied)} forgotten: content destroyed, a number kept of each"),
                ("proved", "by rigorous bounds on every rounding, not by a tolerance"),
                ("answers", f"{len(before)} queries asked before and after: the same to the last bit"),
            ]
        )
    )


def _erase(demo: Demo, store: Store, hours: Sample) -> tuple[SignedReceipt, Prior]:
    from expunge.attestation.evidence import Prior
    from expunge.memory.memory import Memory

    icu = store["icu"]
    with demo.console.status("Erasing …"):
        prior = Prior.of(icu.view)
        started = time.perf_counter()
        done = store.erase_subject(PATIENT)
        took = time.perf_counter() - started
    receipt = done.memories[0].receipt
    if receipt is None or not done.complete:
        raise StoreError(f"the erasure is not complete: {done!r}")
    with demo.console.status("Fitting a memory that never saw the patient …"):
        others = [row for row, subject in enumerate(hours.subjects) if subject != PATIENT]
        never = Memory.fit(hours.keys[others], hours.values[others], sigma=hours.sigma, cap=icu.cap)
        difference = float(np.abs(icu.read(hours.queries) - never.read(hours.queries)).max())
    _must(difference < 1e-9, "the memory differs from one that never saw the patient")
    demo.say(_receipt(demo, receipt, took))
    answer = icu.read(hours.queries[HOUR])[0]
    demo.say(
        "",
        f"The same question again: {demo.facts['answer']:.1f}% before, {answer[0]:.1f}% now",
        _hits(icu, hours.queries[HOUR], 2, _vitals),
        "",
        Text.assemble(
            "A memory that never saw the patient gives ",
            (f"the same {len(hours.queries)} answers", "bold green"),
            f", to {difference:.0e}.",
        ),
    )
    demo.facts |= {"erased": len(receipt.applied), "difference": difference}
    return receipt, prior


def _receipt(demo: Demo, receipt: SignedReceipt, took: float) -> RenderableType:
    from expunge.ledger.envelope import parse_envelope
    from expunge.ledger.receipt_parsing import parse_predicate
    from expunge.ledger.statement import parse_statement

    stated = parse_predicate(parse_statement(parse_envelope(receipt.envelope).payload))
    extra = [
        ("took", f"{seconds(took)}, durable on disk"),
        ("ledger", f"leaf {receipt.index}; it names nobody and holds no content"),
    ]
    return stated_panel(stated, title=f"receipt: everything of {PATIENT}", extra=extra)


def _verify(demo: Demo, store: Store, receipt: SignedReceipt, prior: Prior) -> None:
    from expunge.attestation.evidence import write_evidence
    from expunge.ledger.note import NoteKey
    from expunge.verify import verify_consistency, verify_evidence, verify_inclusion, verify_receipt

    folder, icu = demo.folder, store["icu"]
    inclusion = store.inclusion(receipt.index)
    (folder / "receipts" / "erasure.json").write_bytes(receipt.envelope)
    (folder / "receipts" / "erasure.tlog-proof").write_bytes(inclusion.to_bytes())
    bundle = folder / "evidence" / "erasure.zip"
    proof = icu.prove() if find_spec("flint") is not None else None
    write_evidence(bundle, prior, icu.view, receipt.envelope, proof=proof, inclusion=inclusion)
    trusted = NoteKey.from_text((folder / "log.vkey").read_text(encoding="utf-8").strip())
    keys, log_keys, origin = [trusted.public], [trusted], trusted.name
    envelope = (folder / "receipts" / "erasure.json").read_bytes()
    carried = (folder / "receipts" / "erasure.tlog-proof").read_bytes()
    kept, extension = (folder / "head-kept.txt").read_bytes(), store.consistency(2).to_bytes()
    checks: list[tuple[str, str, Callable[[], object]]] = [
        ("signature", "signed by the store, without contradictions", lambda: verify_receipt(envelope, keys)),
        (
            "inclusion",
            f"leaf {receipt.index} of the log, under a signed head",
            lambda: verify_inclusion(envelope, carried, log_keys, origin),
        ),
        (
            "consistency",
            "the log only grew since the head kept at the start",
            lambda: verify_consistency(kept, extension, log_keys, origin),
        ),
        (
            "evidence",
            f"all recomputed from the {len(icu)} entries left",
            lambda: verify_evidence(bundle, keys, log_keys=log_keys, origin=origin),
        ),
    ]
    rows: list[list[str | Text]] = []
    for name, what, check in checks:
        with demo.console.status(f"Checking {name} …"):
            started = time.perf_counter()
            check()
        rows.append([Text("✓", style="bold green"), name, seconds(time.perf_counter() - started), what])
    demo.say(_grid(rows))


def _tamper(demo: Demo, store: Store, receipt: SignedReceipt, prior: Prior) -> None:
    from expunge.attestation.evidence import Evidence, StateShown
    from expunge.ledger.envelope import parse_envelope, sign_statement
    from expunge.ledger.signing import SigningKey
    from expunge.ledger.statement import parse_statement
    from expunge.store import EVENT_TYPE
    from expunge.verify import verify_evidence, verify_inclusion, verify_log, verify_receipt

    keys, log_keys, origin = [store.public_key], [store.log_key], store.origin
    genuine = parse_envelope(receipt.envelope)
    rosier = genuine.payload.replace(b'"live":%d' % len(store["icu"]), b'"live":%d' % (len(store["icu"]) + 1))
    changed = replace(genuine, payload=rosier).to_bytes()
    forged = sign_statement(parse_statement(genuine.payload), SigningKey.generate()).to_bytes()
    carried = store.inclusion(receipt.index).to_bytes()
    leaves = [leaf.envelope for leaf in store.receipts()]
    shown = StateShown.of(store["icu"].view)
    weights = shown.coefficients.copy()
    weights[0] = np.nextafter(weights[0], 0.0)
    nudged = Evidence(receipt.envelope, replace(shown, coefficients=weights), prior, inclusion=carried).to_bytes()
    head = store.checkpoint().to_bytes()
    (demo.folder / "tampered" / "erasure.json").write_bytes(changed)
    (demo.folder / "tampered" / "erasure.zip").write_bytes(nudged)
    attempts: list[tuple[str, Callable[[], object]]] = [
        ("a number in the receipt", lambda: verify_receipt(changed, keys)),
        ("the same receipt, signed by somebody else", lambda: verify_receipt(forged, keys)),
        ("another receipt in its place in the log", lambda: verify_inclusion(leaves[0], carried, log_keys, origin)),
        (
            "one weight in the evidence, by its last bit",
            lambda: verify_evidence(nudged, keys, log_keys=log_keys, origin=origin),
        ),
        (
            "the erasure cut out of the log",
            lambda: verify_log(
                [*leaves[: receipt.index], *leaves[receipt.index + 1 :]],
                head,
                keys,
                log_keys,
                origin,
                also=(EVENT_TYPE,),
            ),
        ),
    ]
    rows: list[list[str | Text]] = []
    for what, attempt in attempts:
        try:
            attempt()
        except VerificationError as problem:
            demo.caught[what] = problem.code
            rows.append([Text("✗", style="bold red"), what, Text(problem.code, style="red")])
        else:
            raise VerificationError(f"nobody noticed: {what}")
    demo.say(_grid(rows))


def _expire(demo: Demo, store: Store, chats: Sample) -> None:
    keys = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]])
    told: dict[str, str] = {}
    for mode in ("forget", "archive"):
        memory = store.create(f"example-{mode}", keys, [1.0, 2.0, 9.0], sigma=5.0, cap=1.0, ids=["a", "b", "c"])
        memory.prune("forget" if mode == "forget" else "archive")
        slack = memory.warranties()[0].slack
        memory.admit([0.0, -10.0], 3.0, id="d")
        if mode == "forget":
            row = memory.warranties()[0]
            _must(row.status == "expired", "the certificate did not expire")
            told[mode] = f"content gone: its certificate is {row.status}, ended by edit {row.expired_at}"
        else:
            _must("c" in memory, "the entry did not come back")
            told[mode] = (
                f"content kept: the entry is back, with weight {memory.coefficients[memory.ids.index('c')]:.3f}"
            )
    demo.say(
        "The smallest case: keys (−1, 0), (1, 0), (0, 0.9). The third weighs nothing.",
        f"Its slack is {slack:.4f}. Prune it, then admit (0, −10):",
        Padding(fields(told.items()), (0, 0, 1, 2)),
        "The forgotten conversations left one number each. As people go on talking:",
    )
    demo.say(_going_on(demo, store["conversations"], chats))


def _going_on(demo: Demo, memory: StoredMemory, chats: Sample) -> RenderableType:
    def standing() -> tuple[int, int]:
        rows = memory.warranties()
        return sum(row.status == "valid" for row in rows), len(rows)

    valid, issued = standing()
    rows: list[list[str | Text]] = [[_bar(valid, issued), f"{valid} of {issued}", "certificates valid"]]
    for place in (0, 6, 12):
        query, text, who = chats.queries[place], chats.query_texts[place], chats.query_subjects[place]
        memory.admit(query, memory.read(query)[0], subject=who, payload={"query": text})
        valid, _ = standing()
        rows.append([_bar(valid, issued), f"{valid} of {issued}", f"after {who}: {text}"])
    _must(valid < issued, "no certificate expired")
    demo.facts |= {"valid": valid, "issued": issued}
    return _grid(rows)


def _farewell(demo: Demo) -> None:
    console = demo.console
    console.print()
    console.print(Rule(style="cyan"))
    times = [*((step.name, step.seconds) for step in demo.steps), ("in all", demo.total)]
    rows = [[Text(name, style="dim") for name, _ in times], [Text(seconds(took)) for _, took in times]]
    demo.say(_grid(rows), "")
    demo.say(Text.assemble(("Next", "bold"), f"  {demo.folder}/ is yours to explore (see {MARK}):"), "")
    # Unbroken, so that a narrow terminal does not put line ends into what is copied.
    others = [name for name in ("EXPUNGE_STORE", "EXPUNGE_KEY") if os.environ.get(name)]
    unset = [f"unset {' '.join(others)}"] if others else []
    for line in (f"cd {shlex.quote(str(demo.folder))}", *unset, *demo.next_commands):
        console.print(Text(f"  {line}", style="cyan"), soft_wrap=True)
    console.print()


def _question(text: str) -> Text:
    return Text.assemble(("Q  ", "bold cyan"), (text, "bold"))


def _hits(memory: StoredMemory, query: Any, count: int, shown: Callable[[Any], str]) -> RenderableType:
    return _grid(
        [[f"{hit.share:.1%}", hit.id, snippet(shown(hit.payload), 160)] for hit in memory.search(query, count)]
    )


def _vitals(payload: dict[str, Any]) -> str:
    return ", ".join(f"{name} {round(payload[name], 1):g}" for name in ("hr", "sbp", "rr", "spo2", "temp"))


def _bar(part: int, whole: int, width: int = 16) -> Text:
    full = round(width * part / whole)
    return Text.assemble(("█" * full, "green"), ("░" * (width - full), "bright_black"))


def _grid(rows: Sequence[Sequence[str | Text]]) -> RenderableType:
    """Columns without a header; the last gives way where space is short."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for place in range(len(rows[0])):
        table.add_column(no_wrap=place < len(rows[0]) - 1)
    for row in rows:
        *cells, last = [cell if isinstance(cell, Text) else Text(cell) for cell in row]
        last.no_wrap, last.overflow = True, "ellipsis"
        table.add_row(*cells, last)
    return Padding(table, (0, 0, 0, 2))


def _must(true: bool, otherwise: str) -> None:
    if not true:
        raise VerificationError(f"the demo did not come out as told: {otherwise}")


if __name__ == "__main__":
    main()
