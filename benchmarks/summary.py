"""Tables from the JSON that the benchmarks wrote: `python benchmarks/summary.py` prints them.

`python benchmarks/summary.py --write` puts them into README.md and the documents; a test compares.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from growth_tables import fleet, largest, memory, rates, workers

RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parent.parent
GROWTH = ROOT / "docs" / "results" / "how-it-grows.md"


def read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def small(number: float) -> str:
    return f"{number:.1e}".replace("e-0", "e-").replace("e+0", "e+")


def speed() -> list[str]:
    rows = [row for row in read("edits")["rows"] if row["n"] in (512, 2048, 8192)]
    lines = [
        "| times faster than LIBSVM's refit, same run (`make bench`) | "
        + " | ".join(f"n = {row['n']:,}" for row in rows)
        + " |",
        "|---|" + "---|" * len(rows),
    ]
    for name, label in (
        ("delete active", "delete an active entry, one of a backlog"),
        ("lone active", "delete an active entry, between other work"),
        ("first active", "delete an active entry, first after the fit"),
        ("admit reserve", "admit an entry that stays reserve"),
        ("fit", "cold fit"),
    ):
        ratios = (row["median_ratio"][name] for row in rows)
        lines.append(f"| {label} | " + " | ".join(f"{r:.0f}×" if r >= 10 else f"{r:.1f}×" for r in ratios) + " |")
    lines.append(
        "| worst residual, ours / LIBSVM at tol 1e-8 | "
        + " | ".join(f"{small(row['worst_residual'])} / {small(row['libsvm_residual'])}" for row in rows)
        + " |"
    )
    return lines


def evidence() -> list[str]:
    proofs, bounds, warranties = read("proofs"), read("bounds"), read("warranties")
    states = sum(row["states"] for row in proofs["grid"])
    proved = sum(row["proved"] for row in proofs["grid"])
    pairs = sum(row["pairs"] for row in warranties["warranties"])
    unsound = sum(row["unsound"] for row in warranties["warranties"])
    equal = max(row["worst_coefficient_difference"] for row in warranties["archive"])
    edits = sum(row["edits"] for row in warranties["archive"])
    largest = proofs["sizes"][-1]
    chained = [row["total"] for row in read("sequential").values()]
    durable = read("durable")
    crashes = {row["store"]: row["runs"] for row in durable["crash"]["rows"]}
    shared = durable["concurrency"]["rows"]
    applied = sum(row["tally"]["admitted"] + row["tally"]["deleted"] for row in shared)
    cost = {row["store"]: row["delete_over_bare_pair"] for row in durable["throughput"]["rows"] if row["n"] == 512}
    recovery = max(durable["recovery"]["rows"], key=lambda row: row["load_seconds"])
    return [
        "| claim | measured | command |",
        "|---|---|---|",
        f"| chained edits stay exact | {sum(row['operations'] for row in chained):,} operations at the paper's and ten "
        f"other seeds: {sum(row['rescued'] for row in chained)} rescues, worst residual "
        f"{small(max(row['worst_residual'] for row in chained))}, worst readout difference from polished DAQP "
        f"{small(100 * max(row['worst_readout'] for row in chained))} % of the value range | `make sequential` |",
        f"| zero weights are proved | {proved:,} of {states:,} partitions of the chained edits proved; "
        f"n = {largest['n']:,} in {largest['fp64_ms']:.0f} ms | `make proofs` |",
        f"| bounds hold for every query | {bounds['violations']} of {bounds['queries']:,} queries exceed them, "
        "half of them adversarial | `make bounds` |",
        f"| a warranty is never wrong | {unsound} of {pairs:,} (pruned key, edit) pairs | `make warranties` |",
        f"| an archive changes nothing | {small(equal)} largest coefficient difference in {edits:,} edits beside a "
        "memory that never prunes | `make warranties` |",
        f"| a crash leaves an edit whole or undone | {crashes['sqlite']} kills on SQLite, {crashes['postgresql']} on "
        "PostgreSQL: every state, ledger and retry right | `python benchmarks/durable.py crash` |",
        f"| nothing is lost among processes | {applied:,} edits by 8 processes on both stores: "
        f"{sum(row['lost'] for row in shared)} lost, {sum(row['applied_twice'] for row in shared)} applied twice | "
        "`python benchmarks/durable.py concurrency` |",
        f"| what durable, signed and checked costs at n = 512 | {cost['sqlite']:.1f}× (SQLite) and "
        f"{cost['postgresql']:.1f}× (PostgreSQL) a bare INSERT and DELETE; {recovery['n']:,} entries are back in "
        f"{recovery['load_seconds']:.1f} s | `make durable` |",
    ]


def first_receipt() -> str:
    """What the commands of the README take on a fresh machine."""
    found = read("first_receipt")
    lines = ["| typed on a fresh machine (`make first-receipt`) | seconds | of processors |", "|---|---|---|"]
    lines += [
        f"| `{row['command']}` | {row['seconds']:.0f} | {row['processor_seconds']:.0f} |" for row in found["commands"]
    ]
    told = (
        f"Beside pip, which downloaded {found['megabytes_downloaded']:.0f} MB, that is {found['own_seconds']:.0f} s, "
        f"with {found['own_processor_seconds']:.0f} s of processors, most of them for compiling, once. The machine has "
        f"{found['machine']['cores']} cores, and had a load of {found['load_average']:.0f}."
    )
    return "\n".join([*lines, "", told])


def summary() -> str:
    return "\n".join([*speed(), "", *evidence()])


def gate() -> str:
    """Times of the trainable gate on a GPU."""
    record = read("gate")
    lines = [
        "| a step in ms, fp32 | gate | unfused softmax | ratio | fused softmax | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for part, about in (("steps", "fresh weights"), ("trained", "trained weights")):
        for timing, label in (("graph", "CUDA graph"), ("eager", "eager")):
            for row in record[part]:
                if row["precision"] != "fp32":
                    continue
                names = ("gate", "softmax", "fused softmax")
                gated, plain, fused = (row[f"{name} {timing}_ms"] for name in names)
                cells = (f"{gated:.2f}", f"{plain:.2f}", f"{gated / plain:.2f}", f"{fused:.2f}", f"{gated / fused:.2f}")
                lines.append(f"| {about}, batch {row['batch']}, {label} | {' | '.join(cells)} |")
    contexts = record["contexts"]
    lines += [
        "",
        "| one layer, forward and backward, 16,384 tokens; context | "
        + " | ".join(f"{row['length']:,}" for row in contexts)
        + " |",
        "|---|" + "---|" * len(contexts),
        "| gate / unfused softmax | " + " | ".join(f"{row['gate / softmax']:.2f}" for row in contexts) + " |",
        "| gate / fused softmax | " + " | ".join(f"{row['gate / fused']:.2f}" for row in contexts) + " |",
        "",
        "| the solve alone, 192 problems of 64 to 192 keys | ms | times its arithmetic at full rate | products |",
        "|---|---|---|---|",
    ]
    for row in record["ops"]:
        if row["batch"] == 16 and "solve_ms" in row:
            times = row["solve_ms"] / row["floor_ms"]
            lines.append(f"| {row['keys']} | {row['solve_ms']:.3f} | {times:.0f} | {row['products_mean']:.0f} |")
    return "\n".join(lines)


# Rows of the attacks that the memory makes no promise about.
NOT_PROMISED = (
    *("game B, any", "game B, 20", "game C", "reconstruction", "a reserve entry that remains"),
    *("a mean kept", "median", "width on", "columns, width", "deviation on grid"),
)


def attacks() -> str:
    before = {(row["attack"], row["sees"]): row for row in read("attacks-before")["attacks"]}
    promised = [
        "| attack (`make attacks`) | the attacker sees | found before | found now | advantage now |",
        "|---|---|---|---|---|",
    ]
    others = ["| not promised | the attacker sees | found | advantage | |", "|---|---|---|---|---|"]
    for row in read("attacks")["attacks"]:
        low, high = row["interval"]
        found = f"{row['found']:,} of {row['trials']:,}"
        advantage = f"{row['advantage']:.3f} [{low:.3f}, {high:.3f}]"
        if row["attack"].startswith(NOT_PROMISED):
            others.append(f"| {row['attack']} | {row['sees']} | {found} | {advantage} | {row['note']} |")
        else:
            old = before[row["attack"], row["sees"]]
            share = f"{old['found']:,} of {old['trials']:,}"
            promised.append(f"| {row['attack']} | {row['sees']} | {share} | {found} | {advantage} |")
    return "\n".join([*promised, "", *others])


def twins() -> str:
    found = read("twins")
    total = found["histories"]
    counts = {
        "random histories, bit-equal to a fresh fit, a permuted fit and independent balls": found["bit_equal"],
        "with a pruning, a restore and a re-admission": found["with_prune_restore_and_readmit"],
        "whose save file was compared byte by byte": found["save_files_compared"],
        "in which balls were needed": found["histories_that_needed_balls"],
        "with an edit refused as beyond stated limits": found["beyond_stated_limits"],
    }
    lines = ["| `make twins` | histories |", "|---|---|"]
    lines += [f"| {name} | {count:,} of {total:,} |" for name, count in counts.items()]
    balls, decided = found["edits_that_needed_balls"], found["edits_with_bits_to_decide"]
    lines.append(
        f"| edits that needed balls | {balls:,} of {decided:,}, {found['seconds_in_edits_with_balls']:g} s in all |"
    )
    return "\n".join(lines)


def interop() -> str:
    lines = ["| artefact | software | version | result |", "|---|---|---|---|"]
    for row in read("interop")["rows"]:
        word = "accepted" if "accepted" in row else "refused"
        told = row.get("result") or f"{word} {row[word]:,} of {row['of']:,}"
        lines.append(f"| {row['artefact']} | {row['software']} | {row.get('version', '')} | {told} |")
    return "\n".join(lines)


def share(cell: dict[str, float]) -> str:
    """A mean with its interval."""
    return f"{cell['mean']:.3f} [{cell['low']:.3f}, {cell['high']:.3f}]"


def locomo() -> str:
    record = read("locomo")
    lines = []
    for when, told in (("before", "before pruning"), ("after", "after pruning")):
        lines += [f"| {told} | recall@5 | recall@10 | recall@25 | recall@25, last half |", "|---|---|---|---|---|"]
        for row in record[when]:
            cells = [share(row[name]) for name in ("recall@5", "recall@10", "recall@25", "recall@25, last half")]
            lines.append(f"| {row['search']} | {' | '.join(cells)} |")
        lines.append("")
    archived, turns = record["archived"], record["turns"]
    lines.append(
        f"{record['questions']:,} questions of {record['conversations']} conversations with {turns:,} turns; "
        f"{record['questions without evidence']} more name no turn as evidence. The pruning moves {archived:,} of "
        f"{turns:,} turns to the archive."
    )
    tuning = record["tuning"]
    lines += [
        "",
        "| constants | letters | k₁ | b | share of words | last half, recall@25: BM25 | fused |",
        "|" + "---|" * 7,
    ]
    for row in tuning["rows"]:
        named = tuning[row["constants"]]
        cells = [str(named[name]) for name in ("letters", "k1", "b", "share of words")]
        cells += [f"{row['BM25']:.3f}", f"{row['fused']:.3f}"]
        what = f"best of {tuning['grid']} on the first half" if row["constants"] == "chosen" else "in use"
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def forgetting() -> str:
    record = read("forgetting")
    lines = [
        "| searched by | taken | missed | false | paraphrases missed | shared facts missed | similar names |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        kinds = row["kinds"]
        hard = [f"{kinds['missed'].get(kind, 0)} of {kinds['to forget'][kind]}" for kind in ("paraphrase", "shared")]
        alike = kinds["false"].get("lookalike", 0)
        cells = [share(row["missed"]), share(row["false"]), *hard, f"{alike} of {row['taken']}"]
        lines.append(f"| {row['embedder']}, {row['mode']} | {row['chosen']} | {' | '.join(cells)} |")
    told = f"{record['requests']} requests, {record['notes']} notes, {record['to forget']} to be forgotten"
    return "\n".join([*lines, "", f"{told} (a note of two topics counts twice)."])


def conformance() -> str:
    """What the protocol's own suites have found of the MCP server."""
    rows = read("mcp_conformance")["suites"]
    words = ("passed", "needs a fixture tool", "not offered", "skipped", "warned", "told", "failed")
    lines = [f"| suite | scenarios | {' | '.join(words)} |", "|---" * (len(words) + 2) + "|"]
    for row in rows:
        cells = [str(row["checks"].get(word, 0)) for word in words]
        lines.append(f"| {row['suite']} | {row['scenarios']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def langgraph_store() -> str:
    """What LangGraph's interface costs over the memory beneath it."""
    record = read("langgraph_store")
    lines = [f"| {record['size']:,} items | in a batch | times | beside |", "|---|---|---|---|"]
    lines += [f"| {row['what']} | {row['batch']} | {row['ratio']:.2f} | {row['beside']} |" for row in record["rows"]]
    return "\n".join([*lines, "", f"Rebuilds while it was measured: {record['rebuilds']}."])


def langgraph_suites() -> str:
    """Which of LangGraph's own tests pass, and why the others do not."""
    record = read("langgraph_suites")
    lines = ["| suite | tests | pass | skipped by themselves |", "|---|---|---|---|"]
    for package, version in record["versions"].items():
        rows = [row for row in record["files"] if row["package"] == package]
        cells = [f"{sum(row[word] for row in rows):,}" for word in ("tests", "passed", "skipped")]
        lines.append(f"| {package} {version} | {' | '.join(cells)} |")
    lines += ["", "| what does not pass | why |", "|---|---|"]
    tests = dict.fromkeys((one["test"].partition("[")[0], one["reason"]) for one in record["differences"])
    lines += [f"| `{test}` | {reason} |" for test, reason in tests]
    return "\n".join(lines)


def conversations() -> str:
    """What random conversations with erasures have left, and lost."""
    record = read("conversations")
    counts = record["counts"]
    lines = [f"| seed {record['seed']}, {record['allocator']} | |", "|---|---|"]
    names = [
        "conversations",
        "stores",
        *sorted(name for name in counts if name.startswith("calls: ")),
        "entries",
        *sorted(name for name in counts if name.startswith("persons erased over ")),
        "persons whose erasure a hold kept from being complete",
        "tokens refused after an edit",
        "calls done after the end that they gave",
        "late writes refused",
        "entries compared",
        "entries lost",
        "entries that should be gone",
        "marks of erased entries",
        "marks of living entries in files",
        "marks of erased entries in files",
        "bytes of files searched",
        "secrets erased",
        "files with secrets of erased entries",
        *sorted(name for name in counts if name.startswith("marks of erased entries in the process")),
        *sorted(name for name in counts if name.startswith("mirrors: ")),
        "copies in mirrors",
        *sorted(name for name in counts if name.startswith("copies found ")),
        "leaves verified",
        "receipts verified",
        "receipts verified over the protocol",
        "ledgers verified",
    ]
    lines += [f"| {name} | {counts.get(name, 0):,} |" for name in names]
    return "\n".join([*lines, f"| failures | {len(record['failures']):,} |"])


def mirrors() -> str:
    """What is left of deleted entries in each system."""
    found = read("mirrors")
    lines = [
        "| system | before | after its own delete | API, count | after expunge | API, count | the ledger says |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        cells = [f"{row['system']} ({row['package']})", _pieces(row["own"]["before"])]
        for way in ("own", "expunge"):
            after, due = row[way]["after"], found["entries"] - row["deleted"]
            counted = "right" if row[way]["count"] == due else f"{row[way]['count']:,} of {due:,}"
            cells += [_pieces(after), f"{after['answered']} answered, count {counted}"]
        said = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in row["found"].items() if count)
        lines.append(f"| {' | '.join([*cells, said])} |")
    return "\n".join(lines)


def _pieces(found: dict[str, Any]) -> str:
    """Pieces of deleted entries in the files, and their bytes."""
    parts = ", ".join(f"{count:,} of {part}" for part, count in found["pieces"].items() if count)
    return f"{found['bytes']:,} bytes ({parts})" if parts else "0 bytes"


PLACES = (
    (ROOT / "docs" / "results" / "conversations.md", "conversations", conversations),
    (ROOT / "docs" / "guides" / "mcp.md", "conformance", conformance),
    (ROOT / "docs" / "guides" / "langgraph.md", "langgraph-store", langgraph_store),
    (ROOT / "docs" / "guides" / "langgraph.md", "langgraph-suites", langgraph_suites),
    (ROOT / "docs" / "results" / "mirrors.md", "mirrors", mirrors),
    (ROOT / "docs" / "results" / "retrieval.md", "locomo", locomo),
    (ROOT / "docs" / "results" / "forgetting.md", "forgetting", forgetting),
    (ROOT / "docs" / "interop.md", "interop", interop),
    (ROOT / "README.md", "results", summary),
    (ROOT / "README.md", "first receipt measured", first_receipt),
    (ROOT / "docs" / "guides" / "training.md", "gate", gate),
    (ROOT / "docs" / "concepts" / "nothing-remembers.md", "attacks", attacks),
    (ROOT / "docs" / "concepts" / "nothing-remembers.md", "twins", twins),
    *((GROWTH, make.__name__, make) for make in (rates, memory, largest, workers, fleet)),
)


def renewed(text: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    return f"{text.split(begin)[0]}{begin}\n\n{table}\n\n{end}{text.split(end)[1]}"


def main() -> None:
    for page, name, make in PLACES:
        if "--write" in sys.argv:
            page.write_text(renewed(page.read_text(encoding="utf-8"), name, make()), encoding="utf-8")
        else:
            print(make(), end="\n\n")


if __name__ == "__main__":
    main()
