"""A process with a LangGraph store and a graph whose threads can be erased: one request per line in JSON, one answer.

    python -m agents.graph_process STORE KEY THREADS

``THREADS`` is the URL of the checkpointer's database.
"""

from __future__ import annotations

import json
import operator
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import IndexConfig, PutOp

import expunge
from expunge.errors import ExpungeError
from expunge.integrations.embedding import DIMENSION, words
from expunge.integrations.langgraph import ErasableCheckpointer, ExpungeStore

__all__ = ["Agent"]


class Talk(TypedDict):
    """The state of a thread."""

    said: Annotated[list[str], operator.add]


class Agent:
    """What a request can ask for; each method is one kind of request."""

    def __init__(
        self, store: expunge.store.Store, saver: BaseCheckpointSaver[Any], threads: str, stack: ExitStack
    ) -> None:
        index: IndexConfig = {"dims": DIMENSION, "embed": lambda texts: words(texts).tolist(), "fields": ["text"]}
        self._store, self._stack = store, stack
        self.items = ExpungeStore(store, memory="items", index=index)
        self.threads = ErasableCheckpointer(saver, store, threads)
        builder = StateGraph(Talk)
        builder.add_node("answer", lambda talk: {"said": [f"you said {len(talk['said'])} things"]})
        builder.add_edge(START, "answer")
        builder.add_edge("answer", END)
        self.graph = builder.compile(checkpointer=self.threads, store=self.items)

    def put(self, puts: list[dict[str, Any]]) -> dict[str, Any]:
        """Put items, by ``put`` or in one batch; the ids of their entries."""
        self.items.batch([PutOp(tuple(one["namespace"]), one["key"], one["value"], ttl=one.get("ttl")) for one in puts])
        return self.entries()

    def entries(self) -> dict[str, Any]:
        """Values and ends of all entries by id."""
        found = {}
        for note in self.items.notebook.notes():
            ends = note.attributes.expires
            found[note.id] = [note.payload["value"], None if ends is None else ends.timestamp()]
        return {"entries": found}

    def get(self, namespace: list[str], key: str) -> dict[str, Any]:
        """The value of one item."""
        found = self.items.get(tuple(namespace), key, refresh_ttl=False)
        return {"value": None if found is None else found.value}

    def search(self, namespace: list[str], query: str, limit: int) -> dict[str, Any]:
        """Items of a namespace, best first."""
        found = self.items.search(tuple(namespace), query=query, limit=limit, refresh_ttl=False)
        return {"items": [[list(one.namespace), one.key, one.value] for one in found]}

    def erase_subject(self, subject: str) -> dict[str, Any]:
        """Erase everything of a subject, and delete their threads."""
        done = self.threads.erase_subject(subject)
        assert done.erasure is not None
        summary = done.erasure.summary
        return {
            "complete": done.erasure.complete,
            "erased": summary.applied,
            "kept": [part.memory for part in summary.memories if part.kept],
            "findings": dict(done.findings),
            "waiting": done.waiting,
        }

    def delete(self, namespace: list[str], key: str) -> dict[str, Any]:
        """Delete one item."""
        self.items.delete(tuple(namespace), key)
        return {}

    def erase_thread(self, thread: str) -> dict[str, Any]:
        """Erase one thread."""
        done = self.threads.erase_threads([thread])
        return {"findings": dict(done.findings), "waiting": done.waiting}

    def sweep(self) -> dict[str, Any]:
        """Erase what has ended."""
        self.items.sweep_ttl()
        return {}

    def say(self, thread: str, user: str, text: str) -> dict[str, Any]:
        """One turn of a thread."""
        config: RunnableConfig = {"configurable": {"thread_id": thread, "user_id": user}}
        return {"said": self.graph.invoke({"said": [text]}, config)["said"]}

    def follow(self) -> dict[str, Any]:
        """Delete threads that were erased from elsewhere."""
        done = self.threads.follow()
        return {"findings": dict(done.findings), "waiting": done.waiting}

    def state(self, thread: str) -> dict[str, Any]:
        """What was said in a thread."""
        found = self.graph.get_state({"configurable": {"thread_id": thread}})
        return {"said": found.values.get("said", [])}

    def rest(self) -> dict[str, Any]:
        """Let go of what others have erased, which a library does when it is asked, and close the saver's database.

        An open connection keeps pages of the database in its cache, in SQLite's own memory.
        """
        self._stack.close()
        self._store.retry_erasures()
        return {}

    def answer(self, line: str) -> dict[str, Any]:
        """The answer to one request; the code of an error where there is one."""
        asked = json.loads(line)
        try:
            told: dict[str, Any] = getattr(self, asked.pop("do"))(**asked)
            return told
        except ExpungeError as problem:
            return {"error": problem.code, "detail": str(problem)}


def open_saver(url: str, stack: ExitStack) -> BaseCheckpointSaver[Any]:
    """LangGraph's own saver of a database."""
    if url.startswith("sqlite:///"):
        from langgraph.checkpoint.sqlite import SqliteSaver

        return stack.enter_context(SqliteSaver.from_conn_string(url.removeprefix("sqlite:///")))
    from langgraph.checkpoint.postgres import PostgresSaver

    saver = stack.enter_context(PostgresSaver.from_conn_string(url))
    saver.setup()
    return saver


def main() -> None:
    """Answer until there is no more to answer."""
    address, key, threads = sys.argv[1:]
    with ExitStack() as stack:
        store = stack.enter_context(expunge.open(address, Path(key)))
        savers = stack.enter_context(ExitStack())
        agent = Agent(store, open_saver(threads, savers), threads, savers)
        print("{}", flush=True)
        for line in sys.stdin:
            print(json.dumps(agent.answer(line)), flush=True)


if __name__ == "__main__":
    main()
