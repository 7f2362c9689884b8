"""Long conversations with questions and the turns that answer them: the LoCoMo data set.

Maharana et al., *Evaluating Very Long-Term Conversational Memory of LLM Agents* (https://arxiv.org/abs/2402.17753).
Its licence, CC BY-NC 4.0, does not let it ship here: `locomo` reads a copy that you have. Nothing is downloaded.

A turn's text is ``speaker: what was said``, with the caption of a shared picture after it. Questions of category 5
(adversarial: the evidence is another's, or none answers) are left out unless asked for. Evidence that names no turn
of the conversation is dropped, and a question left without any goes too; `Dialogue.dropped` counts both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expunge.datasets.minilm import embed
from expunge.errors import InputError
from expunge.types import Matrix

__all__ = ["Dialogue", "locomo"]

CATEGORIES = (1, 2, 3, 4)
TURN = re.compile(r"D\d+:\d+")


@dataclass(frozen=True, eq=False, repr=False)
class Dialogue:
    """One conversation, in order.

    ``keys`` (n, 384) embed the turns ``texts``; turn i is ``ids[i]`` by ``speakers[i]``. ``queries`` (m, 384) embed
    the ``questions``, and ``evidence[j]`` are the ids of the turns that answer question j, of ``categories[j]``.
    """

    id: str
    ids: tuple[str, ...]
    speakers: tuple[str, ...]
    texts: tuple[str, ...]
    keys: Matrix
    questions: tuple[str, ...]
    queries: Matrix
    evidence: tuple[tuple[str, ...], ...]
    categories: tuple[int, ...]
    dropped: dict[str, int]

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        people = " and ".join(dict.fromkeys(self.speakers))
        return f"<Dialogue {self.id} of {people}: {len(self)} turns, {len(self.questions)} questions>"


def locomo(
    path: str | Path,
    *,
    cache: str | Path | None = None,
    categories: Sequence[int] = CATEGORIES,
    encoder: Callable[[list[str]], Matrix] | None = None,
) -> tuple[Dialogue, ...]:
    """Conversations of a LoCoMo file (``locomo10.json``), embedded; `cache` is a folder for the embeddings.

    `encoder` embeds texts (n,) → (n, d) in place of the packaged model. Raises InputError for a file that is not
    LoCoMo's, and MissingExtra without a model.
    """
    source = Path(path)
    try:
        records = json.loads(source.read_text(encoding="utf-8"))
        parsed = [_dialogue(record, frozenset(categories)) for record in records]
    except (OSError, ValueError) as problem:
        raise InputError(f"{source} cannot be read ({problem})") from None
    except (KeyError, TypeError, AttributeError) as problem:
        raise InputError(f"{source} is not in LoCoMo's layout ({problem!r})") from None
    encode = encoder or (lambda texts: embed(texts, folder=cache))
    return tuple(
        Dialogue(keys=encode(list(one["texts"])), queries=encode(list(one["questions"])), **one) for one in parsed
    )


def _dialogue(record: dict[str, Any], categories: frozenset[int]) -> dict[str, Any]:
    talk = record["conversation"]
    sessions = sorted(int(name.removeprefix("session_")) for name in talk if re.fullmatch(r"session_\d+", name))
    turns = [turn for number in sessions for turn in talk[f"session_{number}"]]
    if not turns:
        raise InputError(f"conversation {record['sample_id']} has no turns")
    known = {turn["dia_id"] for turn in turns}
    kept: list[tuple[str, tuple[str, ...], int]] = []
    dropped = {"evidence": 0, "questions": 0}
    for question in record["qa"]:
        if question["category"] not in categories:
            continue
        # Some entries name several turns in one string, or none.
        named = [name for text in question["evidence"] for name in TURN.findall(text)]
        found = tuple(dict.fromkeys(name for name in named if name in known))
        dropped["evidence"] += sum(name not in known for name in named)
        if found:
            kept.append((question["question"], found, question["category"]))
        else:
            dropped["questions"] += 1
    if not kept:
        raise InputError(f"conversation {record['sample_id']} has no question with evidence")
    return {
        "id": record["sample_id"],
        "ids": tuple(turn["dia_id"] for turn in turns),
        "speakers": tuple(turn["speaker"] for turn in turns),
        "texts": tuple(map(_text, turns)),
        "questions": tuple(question for question, _, _ in kept),
        "evidence": tuple(evidence for _, evidence, _ in kept),
        "categories": tuple(category for _, _, category in kept),
        "dropped": dropped,
    }


def _text(turn: dict[str, Any]) -> str:
    said = f"{turn['speaker']}: {turn['text']}"
    caption = turn.get("blip_caption")
    return f"{said} [shares {caption}]" if caption else said
