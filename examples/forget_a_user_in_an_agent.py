"""Give an agent a long-term memory through LangGraph's store interface, and forget one of its users."""

from __future__ import annotations

import tempfile

from langgraph.store.base import IndexConfig

import expunge
from expunge.integrations.embedding import words
from expunge.integrations.langgraph import ExpungeStore

SAID = {
    "ann": ["I drink green tea in the morning", "My violin lesson is on Friday", "I never eat peanuts"],
    "bob": ["My train leaves at noon", "I would rather have coffee than tea"],
}

with tempfile.TemporaryDirectory() as folder, expunge.open(f"sqlite:///{folder}/agent.db") as ledger:
    index: IndexConfig = {"dims": 256, "embed": lambda texts: words(texts).tolist(), "fields": ["text"]}
    store = ExpungeStore(ledger, index=index)
    for user, sentences in SAID.items():
        for number, sentence in enumerate(sentences):
            store.put(("memories", user), f"note-{number}", {"text": sentence})

    def recall(query: str) -> list[str]:
        """The two notes that are nearest to a question."""
        return [item.value["text"] for item in store.search(("memories",), query=query, limit=2)]

    print("before:", recall("which tea in the morning?"))
    done = store.erase_subject("ann")
    print(f"forgotten: {done.count} notes of ann, complete: {done.complete}")
    print("after: ", recall("which tea in the morning?"))
    print(f"{ledger.size} leaves in the ledger; the store verifies: {ledger.verify().entries} notes left")
