"""The two samples of real data that ship with the package, read with NumPy alone.

Each comes with its licence and a notice of its sources and changes, in its folder under ``data/``.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from expunge.datasets.vitals import CHANNELS, UNITS, Stay, alarms, vital_signs
from expunge.types import Matrix

__all__ = ["Sample", "conversations", "icu_hours", "icu_stays"]

# The first hours of each stay are entries; the hours after them are the queries.
FIRST_HOURS = 72
TOPIC_TEMPERATURE = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Sample:
    """Entries ready for a memory, and queries to ask it.

    Row i of ``keys`` (n, d) and ``values`` (n, dv) is the entry ``ids[i]`` of ``subjects[i]``, made from
    ``payloads[i]``; row j of ``queries`` (m, d) is what ``query_texts[j]`` says about ``query_subjects[j]``, and
    ``evidence[j]`` are the ids of the entries that answer it; evidence is empty where nobody has marked any.
    ``key_names`` is empty where coordinates have no meaning of their own. ``sigma`` and ``nu`` suit the data;
    ``licence`` is its SPDX identifier and ``notice`` the attribution that must go with it. Arrays are
    float64 and read-only.
    """

    keys: Matrix
    values: Matrix
    ids: tuple[str, ...]
    subjects: tuple[str, ...]
    payloads: tuple[dict[str, Any], ...]
    key_names: tuple[str, ...]
    value_names: tuple[str, ...]
    queries: Matrix
    query_texts: tuple[str, ...]
    query_subjects: tuple[str, ...]
    sigma: float
    nu: float
    licence: str
    notice: str
    evidence: tuple[tuple[str, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return (
            f"<Sample of {len(self)} entries of {len(set(self.subjects))} subjects, d={self.keys.shape[1]}, "
            f"dv={self.values.shape[1]}, {len(self.query_texts)} queries; {self.licence}>"
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """What `Memory.fit` takes: ``Memory.fit(**sample.arguments)``."""
        return {
            "keys": self.keys,
            "values": self.values,
            "sigma": self.sigma,
            "nu": self.nu,
            "ids": self.ids,
            "subjects": self.subjects,
            "payloads": self.payloads,
        }


def icu_hours() -> Sample:
    """Twelve patients' first 72 hours in intensive care, from the MIMIC-IV demo: 864 hourly entries.

    Keys are six vital signs standardized over the whole demo's long stays; values are the hour's oxygen
    saturation in % and its event flag (1 where any vital sign is outside its limits); payloads hold the hour
    in clinical units, and which vital signs were filled in rather than measured. Queries are the six hours
    that follow in each stay.

    Contains information from the MIMIC-IV Clinical Database Demo 2.2 (Johnson et al., PhysioNet, 2023,
    https://doi.org/10.13026/dp1f-ex47), made available under the Open Database License, ODbL 1.0: a database
    made from it must stay under that licence and carry the notice.
    """
    rows, vitals, keys = _icu_rows()
    hours = [int(row["hour"]) for row in rows]
    stays, patients = [row["stay_id"] for row in rows], [row["subject_id"] for row in rows]
    events = alarms(vitals).any(axis=1).astype(np.float64)
    values = np.column_stack([vitals[:, CHANNELS.index("spo2")], events])
    entries = [place for place, hour in enumerate(hours) if hour < FIRST_HOURS]
    later = [place for place, hour in enumerate(hours) if hour >= FIRST_HOURS]
    return Sample(
        keys=_frozen(keys[entries]),
        values=_frozen(values[entries]),
        ids=tuple(f"stay-{stays[place]}/h{hours[place]:03d}" for place in entries),
        subjects=tuple(f"patient-{patients[place]}" for place in entries),
        payloads=tuple(
            {"hour": hours[place], **vital_signs(vitals[place]), "filled": rows[place]["filled"].split()}
            for place in entries
        ),
        key_names=CHANNELS,
        value_names=("spo2", "event"),
        queries=_frozen(keys[later]),
        query_texts=tuple(
            f"stay {stays[place]}, hour {hours[place]}: "
            + ", ".join(
                f"{name} {value:g} {unit}"
                for (name, value), unit in zip(vital_signs(vitals[place].round(1)).items(), UNITS, strict=True)
            )
            for place in later
        ),
        query_subjects=tuple(f"patient-{patients[place]}" for place in later),
        sigma=2.0,
        nu=0.4,
        licence="ODbL-1.0",
        notice=_text("icu/NOTICE.txt"),
    )


def icu_stays() -> tuple[Stay, ...]:
    """The same twelve patients' 78 hours as stays, for experiments on whole stays."""
    rows, vitals, keys = _icu_rows()
    names = np.array([row["stay_id"] for row in rows])
    measured = np.array([[name not in row["filled"].split() for name in CHANNELS] for row in rows])
    for array in (vitals, keys, measured):
        array.setflags(write=False)
    found = []
    for stay in dict.fromkeys(names.tolist()):
        # A stay's rows are together, in the order of its hours.
        places = np.flatnonzero(names == stay)
        part = slice(int(places[0]), int(places[-1]) + 1)
        patient = rows[part.start]["subject_id"]
        found.append(Stay(f"stay-{stay}", f"patient-{patient}", vitals[part], measured[part], keys[part]))
    return tuple(found)


def conversations() -> Sample:
    """Ten days of fifteen synthetic users' chats with an assistant, from MemoryBank: 566 exchanges, 100 questions.

    An entry is one exchange: its key is the 384-dimensional all-MiniLM-L6-v2 embedding (unit length) of
    what was said and answered, its payload the text, its subject the user's name in the data set. Its value is a
    mixture over eight topics, named in ``value_names``: the softmax of the key's cosines with the embeddings
    of those names, at temperature 0.05, so that a readout is the mixture of topics near a query. Queries are
    the data set's probing questions, each about one user's chats, embedded likewise: asking them needs no model.
    The evidence of a question, the exchanges that hold its answer, was marked by hand for this package; one question
    has none.

    MemoryBank is MIT-licensed, Copyright (c) 2023 Wanjun Zhong.
    """
    exchanges, questions = _lines("conversations/exchanges.jsonl"), _lines("conversations/questions.jsonl")
    marked = _lines("conversations/evidence.jsonl")
    embedded = np.load(io.BytesIO(_bytes("conversations/embeddings.npz")), allow_pickle=False)
    keys = embedded["exchanges"].astype(np.float64)
    return Sample(
        keys=_frozen(keys),
        values=_frozen(_softmax(keys @ embedded["topics"].astype(np.float64).T / TOPIC_TEMPERATURE)),
        ids=tuple(one["id"] for one in exchanges),
        subjects=tuple(one["user"] for one in exchanges),
        payloads=tuple({name: one[name] for name in ("date", "query", "response")} for one in exchanges),
        key_names=(),
        value_names=tuple(json.loads(_text("conversations/topics.json"))),
        queries=_frozen(embedded["questions"].astype(np.float64)),
        query_texts=tuple(one["question"] for one in questions),
        query_subjects=tuple(one["user"] for one in questions),
        sigma=0.6,
        nu=0.8,
        licence="MIT",
        notice=_text("conversations/NOTICE.txt"),
        evidence=tuple(tuple(one["evidence"]) for one in marked),
    )


def _icu_rows() -> tuple[list[dict[str, str]], Matrix, Matrix]:
    """The file's rows, their vitals (n, 6) in clinical units, and the same standardized."""
    standard = json.loads(_text("icu/standard.json"))
    rows = list(csv.DictReader(io.StringIO(_text("icu/hours.csv"))))
    vitals = np.array([[float(row[name]) for name in CHANNELS] for row in rows], dtype=np.float64)
    return rows, vitals, (vitals - np.array(standard["mean"])) / np.array(standard["scale"])


def _bytes(name: str) -> bytes:
    return files("expunge.datasets").joinpath("data", *name.split("/")).read_bytes()


def _text(name: str) -> str:
    return _bytes(name).decode("utf-8")


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _text(name).splitlines()]


def _softmax(rows: Matrix) -> Matrix:
    shares = np.exp(rows - rows.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _frozen(array: Matrix) -> Matrix:
    array.setflags(write=False)
    return array
