"""The steps of the demo. Each does its work, prints it, and raises if it does not come out as told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from expunge.cli.output import duration_text, fields, judgement_line, listing, signed_receipt_panel, snippet
from expunge.demo.demo_run import DemoRun, text_grid
from expunge.errors import StoreError, VerificationError

if TYPE_CHECKING:
    from expunge.attestation.evidence import Prior
    from expunge.datasets import Sample
    from expunge.store import SignedReceipt, Store, StoredMemory

__all__ = ["ask", "erase", "expire", "fit", "prune", "tamper", "verify"]

PATIENT = "patient-10021487"
# Rows of the samples' queries: the erased patient's next hour, and a question about music.
HOUR_ROW, QUESTION_ROW = 36, 84


def fit(demo: DemoRun, store: Store, data: dict[str, Sample]) -> None:
    """Fit both samples, each as a memory of the store."""
    rows = []
    for name, sample in data.items():
        with demo.console.status(f"Fitting {name} …"):
            started = time.perf_counter()
            memory = store.create(name, **sample.arguments)
            elapsed = time.perf_counter() - started
        zero = int(memory.partition.reserve.size)
        sizes = [str(len(memory)), str(len(set(sample.subjects))), str(memory.dimension)]
        rows.append(
            [name, *sizes, f"{zero} ({zero / len(memory):.0%})", f"{memory.check().worst:.0e}", duration_text(elapsed)]
        )
    (demo.folder / "head-kept.txt").write_bytes(store.checkpoint().to_bytes())
    columns = ["memory", "entries", "people", "length", "weigh nothing", "error", "took"]
    demo.show(
        listing(columns, rows, right=columns[1:]),
        "The error is recomputed from the keys. Above 1e-09 nothing is stored.",
    )


def ask(demo: DemoRun, store: Store, hours: Sample, chats: Sample) -> None:
    """Ask one question of each memory, and keep both queries as files."""
    demo.show(_question_line(hours.query_texts[HOUR_ROW].partition(": ")[2]))
    answer = store["icu"].read(hours.queries[HOUR_ROW])[0]
    demo.facts["answer"] = float(answer[0])
    demo.show(f"Hours like it: oxygen saturation {answer[0]:.1f}%, vital signs out of limits in {answer[1]:.0%}.")
    demo.show(f"The query is {judgement_line(store['icu'].judge(hours.queries[HOUR_ROW])[0])}. Who carries the answer:")
    demo.show(_hit_table(store["icu"], hours.queries[HOUR_ROW], 3, _vitals), "")
    demo.show(_question_line(chats.query_texts[QUESTION_ROW]))
    demo.show(_hit_table(store["conversations"], chats.queries[QUESTION_ROW], 3, lambda payload: payload["query"]))
    np.save(demo.folder / "questions" / "next-hour.npy", hours.queries[HOUR_ROW])
    np.save(demo.folder / "questions" / "rock-bands.npy", chats.queries[QUESTION_ROW])


def prune(demo: DemoRun, store: Store, hours: Sample) -> None:
    """Prune both memories; no answer may change."""
    icu = store["icu"]
    before, size = icu.read(hours.queries), len(icu)
    kept, forgotten = icu.prune("archive"), store["conversations"].prune("forget")
    same = np.array_equal(before, icu.read(hours.queries))
    _require(same, "pruning changed an answer")
    demo.show(
        fields(
            [
                ("icu", f"{size} → {len(icu)} entries; {len(kept.applied)} set aside in an archive"),
                ("conversations", f"{len(forgotten.applied)} forgotten: content destroyed, a number kept of each"),
                ("", "until an entry is erased that is live now: then these numbers go, too, and the certificates end"),
                ("proved", "by rigorous bounds on every rounding, not by a tolerance"),
                ("answers", f"{len(before)} queries asked before and after: the same to the last bit"),
            ]
        )
    )


def erase(demo: DemoRun, store: Store, hours: Sample) -> tuple[SignedReceipt, Prior]:
    """Erase a patient; the memory must equal one that never saw them. Gives the receipt and the state before."""
    from expunge.attestation.evidence import Prior
    from expunge.memory.memory import Memory

    icu = store["icu"]
    with demo.console.status("Erasing …"):
        prior = Prior.of(icu.version)
        started = time.perf_counter()
        done = store.erase_subject(PATIENT)
        elapsed = time.perf_counter() - started
    receipt = done.memories[0].receipt
    if receipt is None or not done.complete:
        raise StoreError(f"the erasure is not complete: {done!r}")
    with demo.console.status("Fitting a memory that never saw the patient …"):
        others = [row for row, subject in enumerate(hours.subjects) if subject != PATIENT]
        never = Memory.fit(hours.keys[others], hours.values[others], sigma=hours.sigma, cap=icu.cap)
        difference = float(np.abs(icu.read(hours.queries) - never.read(hours.queries)).max())
    _require(difference < 1e-9, "the memory differs from one that never saw the patient")
    demo.show(_erasure_panel(demo, receipt, elapsed))
    answer = icu.read(hours.queries[HOUR_ROW])[0]
    demo.show(
        "",
        f"The same question again: {demo.facts['answer']:.1f}% before, {answer[0]:.1f}% now",
        _hit_table(icu, hours.queries[HOUR_ROW], 2, _vitals),
        "",
        Text.assemble(
            "A memory that never saw the patient gives ",
            (f"the same {len(hours.queries)} answers", "bold green"),
            f", to {difference:.0e}.",
        ),
    )
    demo.facts |= {"erased": len(receipt.applied), "difference": difference}
    return receipt, prior


def _erasure_panel(demo: DemoRun, receipt: SignedReceipt, elapsed: float) -> RenderableType:
    from expunge.ledger.envelope import parse_envelope
    from expunge.ledger.receipt_parsing import parse_predicate
    from expunge.ledger.statement import parse_statement

    stated = parse_predicate(parse_statement(parse_envelope(receipt.envelope).payload))
    extra = [
        ("took", f"{duration_text(elapsed)}, durable on disk"),
        ("ledger", f"leaf {receipt.index}; it names nobody and holds no content"),
    ]
    return signed_receipt_panel(stated, title=f"receipt: everything of {PATIENT}", extra=extra)


def verify(demo: DemoRun, store: Store, receipt: SignedReceipt, prior: Prior) -> None:
    """Write the files of the erasure, and verify each."""
    from expunge.attestation.evidence import write_evidence
    from expunge.ledger.note import NoteKey
    from expunge.ledger.signing import VerifyingKey
    from expunge.verify import verify_consistency, verify_evidence, verify_inclusion, verify_receipt

    folder, icu = demo.folder, store["icu"]
    inclusion = store.inclusion(receipt.index)
    (folder / "receipts" / "erasure.json").write_bytes(receipt.envelope)
    (folder / "receipts" / "erasure.tlog-proof").write_bytes(inclusion.to_bytes())
    bundle = folder / "evidence" / "erasure.zip"
    write_evidence(bundle, prior, icu.version, receipt.envelope, prove=True, inclusion=inclusion)
    trusted = NoteKey.from_text((folder / "log.vkey").read_text(encoding="utf-8").strip())
    keys, log_keys, origin = [VerifyingKey(trusted.public.raw)], [trusted], trusted.name
    envelope = (folder / "receipts" / "erasure.json").read_bytes()
    inclusion_file = (folder / "receipts" / "erasure.tlog-proof").read_bytes()
    kept, extension = (folder / "head-kept.txt").read_bytes(), store.consistency(2).to_bytes()
    checks: list[tuple[str, str, Callable[[], object]]] = [
        ("signature", "signed by the store, without contradictions", lambda: verify_receipt(envelope, keys)),
        (
            "inclusion",
            f"leaf {receipt.index} of the log, under a signed head",
            lambda: verify_inclusion(envelope, inclusion_file, log_keys, origin),
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
        rows.append([Text("✓", style="bold green"), name, duration_text(time.perf_counter() - started), what])
    demo.show(text_grid(rows))


def tamper(demo: DemoRun, store: Store, receipt: SignedReceipt, prior: Prior) -> None:
    """Alter copies of the files; no alteration may pass."""
    from expunge.attestation.evidence import Evidence, StateShown
    from expunge.ledger.envelope import parse_envelope, sign_statement
    from expunge.ledger.signing import SigningKey
    from expunge.ledger.statement import parse_statement
    from expunge.verify import verify_evidence, verify_inclusion, verify_ledger, verify_receipt

    keys, log_keys, origin = [store.public_key], [store.log_key], store.origin
    genuine = parse_envelope(receipt.envelope)
    payload = genuine.payload.replace(b'"live":%d' % len(store["icu"]), b'"live":%d' % (len(store["icu"]) + 1))
    changed = replace(genuine, payload=payload).to_bytes()
    forged = sign_statement(parse_statement(genuine.payload), SigningKey.generate()).to_bytes()
    inclusion = store.inclusion(receipt.index).to_bytes()
    leaves = [leaf.envelope for leaf in store.receipts()]
    shortened = [*leaves[: receipt.index], *leaves[receipt.index + 1 :]]
    shown = StateShown.of(store["icu"].version)
    weights = shown.coefficients.copy()
    weights[0] = np.nextafter(weights[0], 0.0)
    altered = Evidence(receipt.envelope, replace(shown, coefficients=weights), prior, inclusion=inclusion).to_bytes()
    head = store.checkpoint().to_bytes()
    (demo.folder / "tampered" / "erasure.json").write_bytes(changed)
    (demo.folder / "tampered" / "erasure.zip").write_bytes(altered)
    attempts: list[tuple[str, Callable[[], object]]] = [
        ("a number in the receipt", lambda: verify_receipt(changed, keys)),
        ("the same receipt, signed by somebody else", lambda: verify_receipt(forged, keys)),
        ("another receipt in its place in the log", lambda: verify_inclusion(leaves[0], inclusion, log_keys, origin)),
        (
            "one weight in the evidence, by its last bit",
            lambda: verify_evidence(altered, keys, log_keys=log_keys, origin=origin),
        ),
        (
            "the erasure cut out of the log",
            lambda: verify_ledger(shortened, head, keys, log_keys, origin),
        ),
    ]
    rows: list[list[str | Text]] = []
    for what, attempt in attempts:
        try:
            attempt()
        except VerificationError as problem:
            demo.tampering[what] = problem.code
            rows.append([Text("✗", style="bold red"), what, Text(problem.code, style="red")])
        else:
            raise VerificationError(f"nobody noticed: {what}")
    demo.show(text_grid(rows))


def expire(demo: DemoRun, store: Store, chats: Sample) -> None:
    """Admit entries until certificates of pruned ones expire."""
    keys = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]])
    results: dict[str, str] = {}
    for mode in ("forget", "archive"):
        memory = store.create(f"example-{mode}", keys, [1.0, 2.0, 9.0], sigma=5.0, cap=1.0, ids=["a", "b", "c"])
        memory.prune("forget" if mode == "forget" else "archive")
        slack = memory.warranties()[0].slack
        memory.admit([0.0, -10.0], 3.0, id="d")
        if mode == "forget":
            row = memory.warranties()[0]
            _require(row.status == "expired", "the certificate did not expire")
            results[mode] = f"content gone: its certificate is {row.status}"
        else:
            _require("c" in memory, "the entry did not come back")
            results[mode] = (
                f"content kept: the entry is back, with weight {memory.coefficients[memory.ids.index('c')]:.3f}"
            )
    demo.show(
        "The smallest case: keys (−1, 0), (1, 0), (0, 0.9). The third weighs nothing.",
        f"Its slack is {slack:.4f}. Prune it, then admit (0, −10):",
        Padding(fields(results.items()), (0, 0, 1, 2)),
        "The forgotten conversations left one number each. As people go on talking:",
    )
    demo.show(_admit_conversations(demo, store["conversations"], chats))


def _admit_conversations(demo: DemoRun, memory: StoredMemory, chats: Sample) -> RenderableType:
    def count_valid() -> tuple[int, int]:
        rows = memory.warranties()
        return sum(row.status == "valid" for row in rows), len(rows)

    valid, issued = count_valid()
    rows: list[list[str | Text]] = [[_bar(valid, issued), f"{valid} of {issued}", "certificates valid"]]
    for place in (0, 6, 12):
        query, text, who = chats.queries[place], chats.query_texts[place], chats.query_subjects[place]
        memory.admit(query, memory.read(query)[0], subject=who, payload={"query": text})
        valid, _ = count_valid()
        rows.append([_bar(valid, issued), f"{valid} of {issued}", f"after {who}: {text}"])
    _require(valid < issued, "no certificate expired")
    demo.facts |= {"valid": valid, "issued": issued}
    return text_grid(rows)


def _question_line(text: str) -> Text:
    return Text.assemble(("Q  ", "bold cyan"), (text, "bold"))


def _hit_table(memory: StoredMemory, query: Any, count: int, shown: Callable[[Any], str]) -> RenderableType:
    return text_grid(
        [[f"{hit.share:.1%}", hit.id, snippet(shown(hit.payload), 160)] for hit in memory.search(query, count)]
    )


def _vitals(payload: dict[str, Any]) -> str:
    return ", ".join(f"{name} {round(payload[name], 1):g}" for name in ("hr", "sbp", "rr", "spo2", "temp"))


def _bar(part: int, whole: int, width: int = 16) -> Text:
    full = round(width * part / whole)
    return Text.assemble(("█" * full, "green"), ("░" * (width - full), "bright_black"))


def _require(true: bool, otherwise: str) -> None:
    if not true:
        raise VerificationError(f"the demo did not come out as told: {otherwise}")
