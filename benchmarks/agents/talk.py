"""Random conversations over one store: what agents do, and a comparison of what is there with what should be.

Each step asks a program for something, tells the model, and holds the answer to it. What is not as it should be is a
failure, in words.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any

from agents.expected import Entry, Expected, Hold, Node, Outcome
from agents.marks import marks_in, new_mark
from agents.programs import Programs, ToolError
from expunge.integrations.embedding import words

__all__ = ["Conversation", "Talk"]

_SAID = """she moved to Lisbon in spring;he is allergic to peanuts;the divorce was in March;her sister teaches chemistry
they want a dog and a garden;the interview went badly;he owes his brother money;she drinks green tea at night
the train leaves at noon on Fridays;his knee hurts since the marathon;her password hint is the old street
the surgery is planned for June;he stopped smoking two years ago;she plays the cello in an orchestra"""
SAID = [text.strip() for text in _SAID.replace("\n", ";").split(";")]
# Minutes that some items live.
TTL = 0.02
_TOPICS = ("health", "money", "family", "work")


@dataclass
class Conversation:
    """One user's thread, and how many steps it has left."""

    user: str
    thread: str
    steps: int
    began: bool = False


@dataclass
class Talk:
    """Conversations with one store."""

    programs: Programs
    rng: Random
    expected: Expected = field(default_factory=Expected)
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    leaves: dict[int, str] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def fail(self, what: str) -> None:
        """Note that something is not as it should be."""
        self.failures.append(f"after {self.done[-3:]}: {what}")

    async def step(self, conversation: Conversation) -> None:
        """Do one thing at random."""
        steps: list[tuple[int, Callable[[Conversation], Awaitable[None]]]] = [
            (24, self.remember),
            (8, self.recall),
            (6, self.update),
            (5, self.forget),
            (5, self.forget_by_meaning),
            (14, self.admit_fact),
            (4, self.delete_fact),
            (14, self.put_items),
            (4, self.delete_item),
            (5, self.look_at_items),
            (14, self.say),
            (1, self.erase_thread),
            (2, self.hold),
            (2, self.release),
            (2, self.sweep),
            (4, self.erase_person),
        ]
        weights, choices = zip(*steps, strict=True)
        chosen = self.rng.choices(choices, weights)[0]
        self.done.append(chosen.__name__)
        self.counts[f"steps: {chosen.__name__}"] += 1
        try:
            await chosen(conversation)
        except ToolError as problem:
            self.fail(f"{chosen.__name__} was refused: {problem}")

    # What is written.

    async def remember(self, conversation: Conversation) -> None:
        """Keep one note, or several at once."""
        user, notes = conversation.user, []
        way = self._way()
        known = self._sources("notes", None if way == "stdio" else user)
        shared = way == "stdio" and self.rng.random() < 0.15
        for _ in range(1 if self.rng.random() < 0.7 else self.rng.randint(2, 4)):
            note: dict[str, Any] = {"text": self._text()}
            if self.rng.random() < 0.3:
                note["metadata"] = {"topic": self.rng.choice(_TOPICS), "code": self._mark()}
            if known and (shared or self.rng.random() < 0.3):
                note["derived_from"] = self.rng.sample(known, min(len(known), self.rng.randint(1, 3)))
            if self.rng.random() < 0.1:
                note["expires"] = "5s" if self.rng.random() < 0.3 else "30d"
            if self.rng.random() < 0.2:
                note["id"] = f"note-{self._mark()}"
            notes.append(note)
        owner = None if shared else user
        more = {} if owner is None else {"subject": owner}
        asked = self._tool(way, "remember", **(notes[0] if len(notes) == 1 else {"notes": notes}), **more)
        given = time.time() + 5 if any(note.get("expires") == "5s" for note in notes) else None
        answer = await self._unless_late(asked, given, str(notes))
        if answer is None:
            return
        for name, note in zip(answer["ids"], notes, strict=True):
            ends = await self._end_of(way, name, more) if "expires" in note else None
            marks = (note["text"], name, str(note.get("metadata")))
            sources = tuple(("notes", one) for one in note.get("derived_from", ()))
            self._add(Entry(("notes", name), owner, note["text"], self._marks(owner, *marks), sources, ends))

    async def admit_fact(self, conversation: Conversation) -> None:
        """Admit a fact over HTTP, made from notes, items or other facts."""
        sources = list[Node]()
        for memory in ("notes", "items", "facts"):
            known = self._sources(memory, conversation.user if self.rng.random() < 0.8 else None)
            if known and self.rng.random() < 0.3:
                sources.append((memory, self.rng.choice(known)))
        owner = None if sources and self.rng.random() < 0.2 else conversation.user
        await self._admit_fact(owner, sources)

    async def _admit_fact(self, owner: str | None, sources: list[Node]) -> None:
        name, text = f"fact-{self._mark()}", self._text()
        stated = [one if memory == "facts" else [memory, one] for memory, one in sources]
        body = {"key": words([text])[0].tolist(), "value": [1.0], "id": name, "payload": {"text": text}}
        more = {} if self.rng.random() < 0.7 else {"Idempotency-Key": str(uuid.UUID(int=self.rng.getrandbits(128)))}
        receipt = await self.programs.ask(
            "POST", "/v1/memories/facts/admit", body | {"subject": owner, "derived_from": stated}, **more
        )
        self._told(receipt["index"], "service")
        self._add(Entry(("facts", name), owner, text, self._marks(owner, name, text), tuple(sources)))

    async def put_items(self, conversation: Conversation) -> None:
        """Put items into the LangGraph store: new ones in one batch, or a new version of one."""
        user = conversation.user
        mine = self._mine("items", user)
        if mine and self.rng.random() < 0.4:
            await self.settle()
            mine = self._mine("items", user)
        if mine and self.rng.random() < 0.6:
            old = self.rng.choice(mine)
            outcome = self.expected.outcome({"items": {old.node[1]}})
            puts = [self._put(user, _item_key(old.node[1]))]
        else:
            outcome = self.expected.outcome({})
            puts = [self._put(user, f"item-{self._mark()}") for _ in range(self.rng.choice((1, 1, 1, 3)))]
        given = time.time() + 60 * TTL if any("ttl" in one for one in puts) else None
        asked = self._unless_late(self.programs.agent("put", puts=puts), given, str(puts))
        answer = await self._refused_as_expected(asked, outcome, "items", wait=True)
        if answer is None:
            self.expected.forbid(self._marks(None, str(puts)))
            return
        self.expected.remove(outcome.gone)
        await self._read_items({one["key"]: one["value"]["text"] for one in puts}, user)

    async def say(self, conversation: Conversation) -> None:
        """One turn of the user's thread, which the checkpointer keeps."""
        node, text = ("threads", conversation.thread), self._text()
        asked = {"thread": conversation.thread, "user": conversation.user, "text": text}
        if conversation.began and node not in self.expected.entries:
            # Erased: a run that goes on is refused, and nothing of it is kept.
            self.expected.forbid(self._marks(conversation.user, text, conversation.thread))
            self.counts["late writes"] += 1
            try:
                await self.programs.agent("say", **asked)
                self.fail("a late write to an erased thread was kept")
            except ToolError as problem:
                self.counts["late writes refused"] += problem.code == "thread-erased"
                if problem.code != "thread-erased":
                    raise
            return
        await self.programs.agent("say", **asked)
        before = self.expected.entries.get(node)
        said = text if before is None else f"{before.text}\n{text}"
        conversation.began = True
        marks = self._marks(conversation.user, conversation.thread, said)
        self.expected.entries.pop(node, None)
        self._add(Entry(node, conversation.user, said, marks))

    # What is read.

    async def recall(self, conversation: Conversation) -> None:
        """Every note that is found is one of those there are, word for word."""
        mode = self.rng.choice((None, "text", "meaning", "hybrid"))
        more = {} if mode is None else {"mode": mode}
        query = self.rng.choice(SAID)
        found = await self._tool(self._way(), "recall", query=query, subject=conversation.user, k=5, **more)
        for note in found["notes"]:
            entry = self.expected.entries.get(("notes", note["id"]))
            if entry is None or (entry.text, entry.subject) != (note["text"], conversation.user):
                self.fail(f"recall found {note}")
        self.counts["notes recalled"] += len(found["notes"])

    async def look_at_items(self, conversation: Conversation) -> None:
        """Items that are searched for are this user's, as they were put last."""
        query, namespace = self.rng.choice(SAID), ["memories", conversation.user]
        found = await self.programs.agent("search", namespace=namespace, query=query, limit=5)
        texts = {entry.text for entry in self._mine("items", conversation.user)}
        for _, key, value in found["items"]:
            if value["text"] not in texts:
                self.fail(f"a search of items found {key} {value}")

    # What is erased.

    async def update(self, conversation: Conversation) -> None:
        """Replace a note."""
        await self.settle()
        mine = self._mine("notes", conversation.user)
        if not mine:
            return
        old = self.rng.choice(mine)
        outcome, text = self.expected.outcome({"notes": {old.node[1]}}), self._text()
        asked = {"id": old.node[1], "text": text, "subject": conversation.user}
        replaced = self._unless_late(self._tool(self._way(), "update", **asked), old.ends, text)
        answer = await self._refused_as_expected(replaced, outcome, "notes", wait=True)
        if answer is None:
            self.expected.forbid(self._marks(None, text))
            return
        self._compare_gone(answer["erased"], outcome, "notes", conversation.user)
        self.expected.remove(outcome.gone)
        # The metadata stays, and its mark with it.
        kept = {mark for mark in old.marks if mark not in old.text and mark not in old.node[1]}
        marks = self._marks(conversation.user, text, answer["id"]) | kept
        self._add(Entry(("notes", answer["id"]), conversation.user, text, marks, old.sources, old.ends))

    async def forget(self, conversation: Conversation) -> None:
        """Forget notes by their ids."""
        await self.settle()
        mine = self._mine("notes", conversation.user)
        if not mine:
            return
        names = {one.node[1] for one in self.rng.sample(mine, min(len(mine), self.rng.randint(1, 2)))}
        outcome, way = self.expected.outcome({"notes": names}), self._way()
        dry = await self._tool(way, "forget", ids=sorted(names), subject=conversation.user, dry_run=True)
        if ("refused" in dry) != ("notes" in outcome.kept) or dry["erased"]:
            self.fail(f"a dry run of forget said {dry.get('refused')}")
        asked = self._tool(way, "forget", ids=sorted(names), subject=conversation.user)
        answer = await self._refused_as_expected(asked, outcome, "notes", wait=True)
        if answer is not None:
            self._compare_gone(answer["ids"], outcome, "notes", conversation.user)
            self.expected.remove(outcome.gone)
            again = await self._tool(way, "forget", ids=sorted(names), subject=conversation.user)
            if again["ids"]:
                self.fail(f"a repeated forget erased {again['ids']}")

    async def forget_by_meaning(self, conversation: Conversation) -> None:
        """Forget what a preview shows, by its token; sometimes something changes in between."""
        await self.settle()
        user, way = conversation.user, self._way()
        shown = await self._tool(way, "forget", about=self.rng.choice(SAID), subject=user, k=self.rng.randint(1, 3))
        if shown["erased"]:
            self.fail("forget with about erased something")
        for note in shown["preview"]:
            entry = self.expected.entries.get(("notes", note["id"]))
            if entry is None or entry.subject != user or (note["text"] != entry.text):
                self.fail(f"a preview showed {note}")
        if "confirm" not in shown:
            return
        self.counts["previews"] += 1
        if self.rng.random() < 0.2:
            if self.rng.random() < 0.5:
                text = self._text()
                made = await self._tool(way, "remember", text=text, subject=user)
                self._add(Entry(("notes", made["ids"][0]), user, text, self._marks(user, text)))
            else:
                # Made from what was shown, in another memory.
                await self._admit_fact(None, [("notes", self.rng.choice(shown["ids"]))])
            try:
                await self._tool(way, "forget", confirm=shown["confirm"])
                self.fail("a token was good for another state")
            except ToolError as problem:
                self.counts["tokens refused after an edit"] += problem.code == "preview-ended"
                if problem.code != "preview-ended":
                    raise
            return
        outcome = self.expected.outcome({"notes": set(shown["ids"])})
        asked = self._tool(way, "forget", confirm=shown["confirm"])
        answer = await self._refused_as_expected(asked, outcome, "notes", wait=True)
        if answer is not None:
            if set(answer["ids"]) != set(shown["ids"]):
                self.fail(f"the preview showed {shown['ids']}, and {answer['ids']} were erased")
            self.expected.remove(outcome.gone)

    async def delete_fact(self, conversation: Conversation) -> None:
        """Delete a fact over HTTP."""
        await self.settle()
        mine = self._mine("facts", conversation.user)
        if not mine:
            return
        name = self.rng.choice(mine).node[1]
        outcome = self.expected.outcome({"facts": {name}})
        asked = self.programs.ask("POST", "/v1/memories/facts/delete", {"id": name})
        answer = await self._refused_as_expected(asked, outcome, "facts", wait=True)
        if answer is not None:
            self._told(answer["index"], "service")
            self.expected.remove(outcome.gone)

    async def delete_item(self, conversation: Conversation) -> None:
        """Delete an item of the LangGraph store."""
        await self.settle()
        mine = self._mine("items", conversation.user)
        if not mine:
            return
        name = self.rng.choice(mine).node[1]
        outcome = self.expected.outcome({"items": {name}})
        asked = self.programs.agent("delete", namespace=["memories", conversation.user], key=_item_key(name))
        if not await self._refused_as_expected(asked, outcome, "items"):
            self.expected.remove(outcome.gone)

    async def erase_thread(self, conversation: Conversation) -> None:
        """Erase the thread of the conversation."""
        await self.settle()
        if ("threads", conversation.thread) not in self.expected.entries:
            return
        outcome = self.expected.outcome({"threads": {conversation.thread}})
        asked = self.programs.agent("erase_thread", thread=conversation.thread)
        if not await self._refused_as_expected(asked, outcome, "threads"):
            self.expected.remove(outcome.gone)

    async def erase_person(self, conversation: Conversation) -> None:
        """Erase everything of a person, over one of four ways, and see that nobody else lost anything."""
        await self.settle()
        user = conversation.user
        outcome, way = self.expected.outcome_of_subject(user), self.rng.choice(("stdio", "http", "service", "agent"))
        held = self.expected.of(user)
        memories = {entry.node[0] for entry in held} | {memory for memory, _ in outcome.gone} | outcome.kept
        if way == "agent":
            answer = await self.programs.agent("erase_subject", subject=user)
            complete, erased = answer["complete"], answer["erased"]
            self.counts["threads found absent"] += answer["findings"].get("absent", 0)
            for finding in answer["findings"].keys() - {"absent"}:
                self.counts[f"threads found {finding}"] += answer["findings"][finding]
        elif way == "service":
            job = await self.programs.ask("POST", "/v1/erasures", {"subject": user}, Prefer="wait=60")
            if job["state"] != "done":
                self.fail(f"the erasure of a person ended {job['state']}: {job['problem']}")
                return
            complete = job["result"]["complete"]
            erased = {part["memory"]: part["applied"] for part in job["result"]["memories"] if part["applied"]}
        else:
            answer = await self._tool(way, "forget_subject", subject=user)
            complete, erased = answer["complete"], None
            if answer["entries"] != len(outcome.gone):
                self.fail(
                    f"{answer['entries']} entries of {user} were erased, and not {sorted(outcome.gone)}: {answer}"
                )
        self.counts[f"persons erased over {way}"] += 1
        self.counts["entries of persons erased"] += len(outcome.gone)
        self.counts["persons whose erasure a hold kept from being complete"] += bool(outcome.kept)
        if complete is bool(outcome.kept):
            self.fail(
                f"the erasure of a person is {'' if complete else 'not '}complete; held in {outcome.kept}: {answer}"
            )
        if erased is not None:
            named = {(memory, name) for memory, names in erased.items() for name in names}
            if named != outcome.gone:
                self.fail(f"an erasure over {way} in {memories} took {named ^ outcome.gone} otherwise than it should")
        self.expected.remove(outcome.gone)
        await self.compare()

    async def sweep(self, conversation: Conversation | None = None) -> None:
        """Erase what has ended, over one of two ways."""
        while self.expected.doubtful(time.time()):
            await asyncio.sleep(0.1)
        due = self.expected.due(time.time())
        if self.rng.random() < 0.5:
            await self.programs.agent("sweep")
        else:
            job = await self.programs.ask("POST", "/v1/retention", None, Prefer="wait=60")
            if job["state"] != "done":
                self.fail(f"a sweep ended {job['state']}: {job['problem']}")
        self.counts["entries swept"] += len(due)
        self.expected.remove(due)

    async def settle(self) -> None:
        """Sweep where something is due: programs sweep now and then, and the model is to know of it."""
        if self.expected.doubtful(time.time()) or self.expected.due(time.time()):
            await self.sweep()

    # Holds.

    async def hold(self, conversation: Conversation) -> None:
        """Place a hold on an entry, or on everything of a person in one memory."""
        await self.settle()
        mine = self.expected.of(conversation.user)
        if not mine or len(self.expected.holds) > 8:
            return
        entry, reason = self.rng.choice(mine), f"case {self._mark()}"
        memory, name = entry.node
        on_entry = self.rng.random() < 0.5
        about = {"id": name} if on_entry else {"subject": conversation.user}
        placed = await self.programs.ask("POST", f"/v1/memories/{memory}/holds", {"reason": reason, **about})
        subject = None if on_entry else conversation.user
        marks = self._marks(subject, reason, name if on_entry else "")
        self.expected.holds[placed["number"]] = Hold(memory, name if on_entry else None, subject, marks)

    async def release(self, conversation: Conversation | None = None) -> None:
        """End a hold; what a hold kept without its source goes with the next sweep."""
        await self.settle()
        if self.expected.holds:
            number = self.rng.choice(sorted(self.expected.holds))
            await self.programs.ask("DELETE", f"/v1/holds/{number}")
            self.expected.release(number)

    # What is there.

    async def compare(self) -> None:
        """Compare everything that is there, by every way, with what should be."""
        await self.settle()
        self.counts["comparisons"] += 1
        there: dict[Node, tuple[str | None, str]] = {}
        after: str | None = None
        while True:
            page = await self.programs.tool("stdio", "list", k=100, **({} if after is None else {"after": after}))
            for note in page["notes"]:
                there["notes", note["id"]] = note.get("subject"), note["text"]
            after = page.get("next_after")
            if after is None:
                break
        cursor: str | None = None
        while True:
            more = "" if cursor is None else f"&cursor={cursor}"
            found = await self.programs.ask("GET", f"/v1/memories/facts/entries?content=true{more}")
            for item in found["items"]:
                there["facts", item["id"]] = item["subject"], item["payload"]["text"]
            cursor = found["next"]
            if cursor is None:
                break
        for name, (value, _) in (await self.programs.agent("entries"))["entries"].items():
            there["items", name] = _item_owner(name), value["text"]
        wanted = {
            node: (entry.subject, entry.text) for node, entry in self.expected.entries.items() if node[0] != "threads"
        }
        for node in wanted.keys() - there.keys():
            self.counts["entries lost"] += 1
            self.fail(f"{node} is lost: {self.expected.entries[node]}")
        for node in there.keys() - wanted.keys():
            self.counts["entries that should be gone"] += 1
            self.fail(f"{node} should be gone")
        for node in wanted.keys() & there.keys():
            if wanted[node] != there[node]:
                self.fail(f"{node} is {there[node]}, and should be {wanted[node]}")
        self.counts["entries compared"] += len(wanted)

    async def compare_threads(self, conversations: Iterable[Conversation]) -> None:
        """Compare what every thread says."""
        for one in conversations:
            entry = self.expected.entries.get(("threads", one.thread))
            said = (await self.programs.agent("state", thread=one.thread))["said"]
            mine = [text for text in said if not text.startswith("you said ")]
            if mine != ([] if entry is None else entry.text.split("\n")):
                self.fail(f"thread {one.thread} says {mine}, and should say {entry}")
            self.counts["threads compared"] += 1

    async def compare_scopes(self, users: Iterable[str]) -> None:
        """Each person's notes by the server that wants a subject: theirs, and no others."""
        for user in users:
            page = await self.programs.tool("http", "list", subject=user, k=100)
            mine = {entry.node[1] for entry in self._mine("notes", user)}
            if {note["id"] for note in page["notes"]} != mine or page["total"] != len(mine):
                self.fail(f"the list of {user} is not theirs")
            self.counts["persons compared"] += 1

    async def verify_told(self) -> None:
        """Verify over the protocol every receipt that was told."""
        for leaf, way in sorted(self.leaves.items()):
            answer = await self.programs.tool("stdio" if way == "service" else way, "verify_receipt", leaf=leaf)
            self.counts["receipts verified over the protocol"] += answer["verified"]
            if not answer["verified"]:
                self.fail(f"leaf {leaf} does not verify: {answer['problem']}")

    # How.

    def _way(self) -> str:
        return self.rng.choice(("stdio", "http"))

    async def _tool(self, way: str, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.programs.tool(way, tool, **arguments)
        for receipt in answer.get("receipts", ()):
            self._told(receipt["leaf"], way)
        return answer

    def _told(self, leaf: int, way: str) -> None:
        self.leaves[leaf] = way

    async def _end_of(self, way: str, name: str, more: dict[str, str]) -> float | None:
        """When a note ends, as the server says; None for one that goes on for days."""
        found = await self._tool(way, "get", ids=[name], **more)
        if not found["notes"]:
            return time.time()
        ends = datetime.fromisoformat(found["notes"][0]["expires"]).timestamp()
        return ends if ends < time.time() + 3600 else None

    async def _read_items(self, put: dict[str, str], user: str) -> None:
        """Enter the entries of items that were put."""
        found = (await self.programs.agent("entries"))["entries"]
        for name, (value, ends) in found.items():
            if _item_owner(name) == user and put.get(_item_key(name)) == value["text"]:
                self._add(Entry(("items", name), user, value["text"], self._marks(user, name, value["text"]), (), ends))

    async def _unless_late(
        self, asked: Awaitable[dict[str, Any]], given: float | None, told: str
    ) -> dict[str, Any] | None:
        """The answer to a call that gave an end; None where the end came before the answer, and nothing is kept."""
        try:
            return await asked
        except ToolError as problem:
            if problem.code != "expires-past" or given is None or time.time() < given:
                raise
        self.counts["calls done after the end that they gave"] += 1
        self.expected.forbid(self._marks(None, told))
        return None

    async def _refused_as_expected(
        self, asked: Awaitable[dict[str, Any] | None], outcome: Outcome, memory: str, *, wait: bool = False
    ) -> Any:
        """Whether an edit was refused for a hold, as it should be; with ``wait`` its answer, None where it was."""
        try:
            answer = await asked
        except ToolError as problem:
            if problem.code != "deletion-refused" or memory not in outcome.kept:
                raise
            self.counts["erasures refused for a hold"] += 1
            if outcome.gone:
                self.fail(f"an erasure was refused, and {outcome.gone} should have gone")
            return None if wait else True
        if memory in outcome.kept and answer is not None:
            self.fail(f"an erasure in {memory} was not refused, in spite of a hold")
        return answer if wait else False

    def _compare_gone(self, told: Iterable[str], outcome: Outcome, memory: str, user: str) -> None:
        """What an answer says has gone is what the caller could see of it."""
        seen = {
            name
            for where, name in outcome.gone
            if where == memory and self.expected.entries[where, name].subject == user
        }
        if set(told) != seen:
            self.fail(f"{set(told) ^ seen} went otherwise than was told")

    def _sources(self, memory: str, user: str | None) -> list[str]:
        """Ids that something can be made from: of a person, or of all."""
        return [
            name
            for (where, name), entry in self.expected.entries.items()
            if where == memory and entry.ends is None and (user is None or entry.subject == user)
            if not any(one not in self.expected.entries for one in entry.sources)
        ]

    def _mine(self, memory: str, user: str) -> list[Entry]:
        return [entry for entry in self.expected.of(user) if entry.node[0] == memory]

    def _put(self, user: str, key: str) -> dict[str, Any]:
        put: dict[str, Any] = {"namespace": ["memories", user], "key": key, "value": {"text": self._text()}}
        return put | ({"ttl": TTL} if self.rng.random() < 0.03 else {})

    def _add(self, entry: Entry) -> None:
        self.expected.add(entry)
        self.counts["entries"] += 1

    def _text(self) -> str:
        return f"{self.rng.choice(SAID)} {self._mark()}"

    def _mark(self) -> str:
        return new_mark(self.rng)

    def _marks(self, subject: str | None, *texts: str) -> frozenset[str]:
        """Every mark in some texts, and that of a subject."""
        return frozenset(marks_in("\n".join([subject or "", *texts]).encode()))


def _item_key(name: str) -> str:
    return str(json.loads(name)[1])


def _item_owner(name: str) -> str:
    return str(json.loads(name)[0][1])
