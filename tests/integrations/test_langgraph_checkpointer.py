"""Threads of LangGraph's own checkpointers, driven by its own graphs, and erased: rows, bytes, and late writers."""

from __future__ import annotations

import asyncio
import operator
import secrets
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

import expunge
from expunge import Conflict, DeletionRefused, InputError, StoreError
from expunge.integrations.langgraph import ErasableCheckpointer
from expunge.mirrors.langgraph_threads import open_threads
from expunge.store import Store
from store.postgres_server import Server, running_server

Places = Callable[[], AbstractContextManager[tuple[BaseCheckpointSaver[Any], str]]]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Store]:
    with expunge.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        yield store


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # Files of the log are removed, and not kept to be written over one day.
    with running_server(wal_recycle="off") as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def saver_at(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    """Opens a saver of LangGraph's, the same database each time."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'checkpoints.db'}"

        @contextmanager
        def sqlite() -> Iterator[tuple[BaseCheckpointSaver[Any], str]]:
            with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver:
                yield saver, url

        return sqlite
    uri = request.getfixturevalue("server").new_database()

    @contextmanager
    def postgres() -> Iterator[tuple[BaseCheckpointSaver[Any], str]]:
        with PostgresSaver.from_conn_string(uri) as saver:
            saver.setup()
            yield saver, uri

    return postgres


class Talk(TypedDict):
    said: Annotated[list[str], operator.add]


def answer(talk: Talk) -> dict[str, list[str]]:
    return {"said": [f"you said: {talk['said'][-1]}"]}


def graph_over(checkpointer: BaseCheckpointSaver[Any], node: Any = answer) -> Any:
    """A graph with one node, which answers with what was said."""
    builder = StateGraph(Talk)
    builder.add_node("answer", node)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=checkpointer)


def config_of(thread: str, user: str | None = None) -> RunnableConfig:
    return {"configurable": {"thread_id": thread} | ({} if user is None else {"user_id": user})}


def say(graph: Any, thread: str, user: str, text: str) -> None:
    graph.invoke({"said": [text]}, config_of(thread, user))


def said(graph: Any, thread: str) -> list[str]:
    found: list[str] = graph.get_state(config_of(thread)).values.get("said", [])
    return found


def bytes_left(url: str, text: str) -> int:
    with open_threads(url) as place:
        return sum(file.read_bytes().count(text.encode()) for file in place.files() or [])


def new_secret() -> str:
    return f"{secrets.token_hex(16)} is what nobody may know"


def test_a_subject_is_erased_with_all_threads(ledger: Store, saver_at: Places) -> None:
    """Rows, bytes and the list; the threads of others go on."""
    texts = {user: new_secret() for user in ("ann", "bob")}
    with saver_at() as (saver, url):
        checkpointer = ErasableCheckpointer(saver, ledger, url)
        graph = graph_over(checkpointer)
        for user, text in texts.items():
            for number in range(2):
                say(graph, f"{user}-{number}", user, text)
        assert bytes_left(url, texts["ann"]) > 0
        done = checkpointer.erase_subject("ann")
        assert done.complete, done
        assert done.findings == {"absent": 2}
        assert done.erasure is not None
        assert done.erasure.count == 2
        assert done.removal is not None
        assert done.removal.before["raw"] > 0
        assert (bytes_left(url, texts["ann"]), bytes_left(url, "ann-0")) == (0, 0)
        assert said(graph, "ann-0") == []
        assert list(checkpointer.list(config_of("ann-1"))) == []
        assert {one.config["configurable"]["thread_id"] for one in checkpointer.list(None)} == {"bob-0", "bob-1"}
        say(graph, "bob-0", "bob", "still here")
        assert len(said(graph, "bob-0")) == 4
        assert checkpointer.erase_subject("ann").erasure is not None
        assert ledger.export_subject("ann").memories == ()
    ledger.verify()


def test_threads_erased_from_elsewhere(ledger: Store, saver_at: Places) -> None:
    """They cannot be read from then on; `follow`, a late write or the next start deletes them."""
    texts = {thread: new_secret() for thread in ("one", "two", "three")}
    with saver_at() as (saver, url):
        checkpointer = ErasableCheckpointer(saver, ledger, url)
        graph = graph_over(checkpointer)
        for thread, text in texts.items():
            say(graph, thread, thread, text)
        ledger.erase_subject("one")
        assert said(graph, "one") == []
        assert bytes_left(url, texts["one"]) > 0
        assert checkpointer.follow().findings == {"absent": 1}
        assert bytes_left(url, texts["one"]) == 0
        assert checkpointer.follow().findings == {}
        ledger.erase_subject("two")
        with pytest.raises(Conflict):
            say(graph, "two", "two", "late")
        assert bytes_left(url, texts["two"]) == 0
        ledger.erase_subject("three")
    with saver_at() as (saver, url):
        graph = graph_over(ErasableCheckpointer(saver, ledger, url))
        assert bytes_left(url, texts["three"]) == 0
        assert said(graph, "three") == []


def test_a_run_that_began_before_the_erasure(ledger: Store, saver_at: Places) -> None:
    """Whatever it writes afterwards is refused."""
    text = new_secret()
    with saver_at() as (saver, url), saver_at() as (other, _):
        checkpointer = ErasableCheckpointer(saver, ledger, url)

        def erase_meanwhile(talk: Talk) -> dict[str, list[str]]:
            if talk["said"][-1] == text:
                ErasableCheckpointer(other, ledger, url).erase_subject("ann")
            return {"said": ["an answer"]}

        graph = graph_over(checkpointer, erase_meanwhile)
        say(graph, "thread", "ann", "hello")
        with pytest.raises(Conflict) as caught:
            say(graph, "thread", "ann", text)
        assert caught.value.code == "thread-erased"
        assert said(graph, "thread") == []
        with pytest.raises(Conflict):
            say(graph, "thread", "ann", "once more")
        # While the run was writing, the database may have kept something for it.
        assert checkpointer.follow().complete
        assert bytes_left(url, text) == 0
    ledger.verify()


def test_without_tombstones_a_thread_may_begin_anew(ledger: Store, saver_at: Places) -> None:
    with saver_at() as (saver, url):
        graph = graph_over(ErasableCheckpointer(saver, ledger, url, refuse_for=timedelta(0)))
        say(graph, "thread", "ann", "before")
        graph.checkpointer.delete_thread("thread")
        say(graph, "thread", "ann", "after")
        assert said(graph, "thread") == ["after", "you said: after"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_erasure_beside_a_single_write(
    ledger: Store, saver_at: Places, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look before a write and the look after it: nothing is left, whichever of the two commits first."""
    text = new_secret()
    with saver_at() as (saver, url), saver_at() as (other, _):
        checkpointer = ErasableCheckpointer(saver, ledger, url)
        say(graph_over(checkpointer), "thread", "ann", "hello")
        eraser, put = ErasableCheckpointer(other, ledger, url), saver.put

        def beside(*arguments: Any) -> RunnableConfig:
            if moment == "before":
                eraser.erase_threads(["thread"])
            written = put(*arguments)
            if moment == "after":
                eraser.erase_threads(["thread"])
            return written

        monkeypatch.setattr(saver, "put", beside)
        config: RunnableConfig = {"configurable": {"thread_id": "thread", "checkpoint_ns": ""}}
        with pytest.raises(Conflict):
            checkpointer.put(config, empty_checkpoint() | {"channel_values": {"said": [text]}}, {}, {"said": 1})
        assert bytes_left(url, text) == 0
        with open_threads(url) as place:
            assert place.threads() == set()


def test_a_held_thread_stays(ledger: Store, saver_at: Places) -> None:
    with saver_at() as (saver, url):
        checkpointer = ErasableCheckpointer(saver, ledger, url)
        graph = graph_over(checkpointer)
        say(graph, "thread", "ann", "kept for the court")
        hold = ledger.hold("threads", subject="ann", reason="court")
        with pytest.raises(DeletionRefused, match="court"):
            checkpointer.delete_thread("thread")
        done = checkpointer.erase_subject("ann")
        assert (done.complete, done.removal) == (False, None)
        assert len(said(graph, "thread")) == 2
        ledger.release(hold)
        assert checkpointer.erase_subject("ann").complete


def test_threads_that_were_there_before(ledger: Store, saver_at: Places, tmp_path: Path) -> None:
    """They are entered when that is asked for, with the user whom LangGraph keeps in their metadata."""
    with saver_at() as (saver, url):
        plain = graph_over(saver)
        for user in ("ann", "bob"):
            say(plain, f"thread of {user}", user, new_secret())
        with pytest.raises(InputError, match="2 threads"):
            ErasableCheckpointer(saver, ledger, url)
        checkpointer = ErasableCheckpointer(saver, ledger, url, adopt=True)
        assert len(said(graph_over(checkpointer), "thread of ann")) == 2
        assert checkpointer.erase_subject("ann").findings == {"absent": 1}
        assert len(said(graph_over(checkpointer), "thread of bob")) == 2
        # Another list would delete what it does not know.
        with expunge.open(f"sqlite:///{tmp_path / 'other.db'}") as other, pytest.raises(InputError, match="1 threads"):
            ErasableCheckpointer(saver, other, url)
        with open_threads(url) as place:
            assert place.threads() == {"thread of bob"}


def test_a_store_that_was_restored(ledger: Store, saver_at: Places, tmp_path: Path) -> None:
    """Threads that were begun after the backup are not taken for erased ones; what was erased stays so."""
    with saver_at() as (saver, url):
        graph = graph_over(ErasableCheckpointer(saver, ledger, url))
        for user in ("ann", "bob"):
            say(graph, f"thread of {user}", user, "before the backup")
        ledger.backup(tmp_path / "backup.db")
        say(graph, "new thread", "cay", "after the backup")
        graph.checkpointer.erase_subject("ann")
        key = tmp_path / "agent.db.key"
        with expunge.open(f"sqlite:///{tmp_path / 'again.db'}", key) as again:
            again.restore(tmp_path / "backup.db", ledger=ledger)
            with pytest.raises(InputError, match="restored"):
                ErasableCheckpointer(saver, again, url)
            for _ in range(2):
                graph = graph_over(ErasableCheckpointer(saver, again, url, adopt=True))
                assert [len(said(graph, thread)) for thread in ("thread of ann", "thread of bob", "new thread")] == [
                    0,
                    2,
                    2,
                ]
            assert graph.checkpointer.erase_subject("cay").findings == {"absent": 1}
            # A thread that was erased from elsewhere is not entered again by a program that always adopts.
            again.erase_subject("bob")
            graph = graph_over(ErasableCheckpointer(saver, again, url, adopt=True))
            assert said(graph, "thread of bob") == []
            with open_threads(url) as place:
                assert place.threads() == set()


def test_a_thread_is_of_one_subject(ledger: Store, saver_at: Places) -> None:
    with saver_at() as (saver, url):
        graph = graph_over(ErasableCheckpointer(saver, ledger, url))
        say(graph, "thread", "ann", "mine")
        with pytest.raises(InputError, match="another subject"):
            say(graph, "thread", "bob", "mine, too")
        assert len(said(graph, "thread")) == 2
        # Reading and going on without a user is no statement.
        graph.invoke({"said": ["more"]}, config_of("thread"))
        assert len(said(graph, "thread")) == 4


def test_a_database_that_does_not_answer(ledger: Store, tmp_path: Path) -> None:
    """What the store has is erased at once; the threads are waited for."""
    file = tmp_path / "checkpoints.db"
    with SqliteSaver.from_conn_string(str(file)) as saver:
        checkpointer = ErasableCheckpointer(saver, ledger, f"sqlite:///{file}")
        graph = graph_over(checkpointer)
        say(graph, "thread", "ann", new_secret())
        content = file.with_suffix(".away")
        saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        file.rename(content)
        file.mkdir()
        done = checkpointer.erase_subject("ann")
        assert (done.complete, done.erasure is not None and done.erasure.complete) == (False, True)
        assert done.waiting is not None
        with pytest.raises(StoreError):
            checkpointer.follow()
        file.rmdir()
        content.rename(file)
        assert checkpointer.follow().complete


def test_the_wrong_database_is_noticed(ledger: Store, tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "one.db")) as saver:
        graph = graph_over(ErasableCheckpointer(saver, ledger, f"sqlite:///{tmp_path / 'two.db'}"))
        with pytest.raises(InputError, match="give the URL"):
            say(graph, "thread", "ann", "hello")
    for url in ("sqlite:///:memory:", "mysql://here/there"):
        with pytest.raises(InputError):
            open_threads(url)


@pytest.mark.parametrize("thread", [7, "ü/…", "a b'; DROP TABLE checkpoints", "nul\0", "x" * 3000])
def test_names_of_threads(ledger: Store, tmp_path: Path, thread: Any) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver:
        checkpointer = ErasableCheckpointer(saver, ledger, f"sqlite:///{tmp_path / 'checkpoints.db'}")
        config: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        checkpointer.put(config, empty_checkpoint(), {}, {})
        assert checkpointer.get_tuple(config) is not None
        checkpointer.delete_thread(thread)
        assert checkpointer.get_tuple(config) is None
        for bad in ("", "\ud800"):
            with pytest.raises(InputError):
                checkpointer.put({"configurable": {"thread_id": bad, "checkpoint_ns": ""}}, empty_checkpoint(), {}, {})


def test_async(ledger: Store, tmp_path: Path) -> None:
    text = new_secret()

    async def work() -> None:
        file = tmp_path / "checkpoints.db"
        async with AsyncSqliteSaver.from_conn_string(str(file)) as saver:
            checkpointer = ErasableCheckpointer(saver, ledger, f"sqlite:///{file}")
            graph = graph_over(checkpointer)
            await graph.ainvoke({"said": [text]}, config_of("thread", "ann"))
            await graph.ainvoke({"said": ["hello"]}, config_of("other", "bob"))
            assert [one async for one in checkpointer.alist(config_of("thread"), limit=1)] != []
            await checkpointer.adelete_thread("thread")
            assert await checkpointer.aget_tuple(config_of("thread")) is None
            assert {one.config["configurable"]["thread_id"] async for one in checkpointer.alist(None)} == {"other"}
            with pytest.raises(Conflict):
                await graph.ainvoke({"said": ["late"]}, config_of("thread", "ann"))

    asyncio.run(work())
    assert bytes_left(f"sqlite:///{tmp_path / 'checkpoints.db'}", text) == 0


@pytest.mark.slow
def test_langgraphs_conformance_suite(tmp_path: Path) -> None:
    """What every checkpointer must do, in LangGraph's own words."""

    @checkpointer_test(name="ErasableCheckpointer")
    async def erasable() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        folder = tmp_path / uuid.uuid4().hex
        folder.mkdir()
        async with opened(folder) as checkpointer:
            yield checkpointer

    @asynccontextmanager
    async def opened(folder: Path) -> AsyncIterator[ErasableCheckpointer]:
        with expunge.open(f"sqlite:///{folder / 'agent.db'}") as ledger:
            async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
                yield ErasableCheckpointer(saver, ledger, f"sqlite:///{folder / 'checkpoints.db'}")

    required = {"put", "put_writes", "get_tuple", "list", "delete_thread"}
    report = asyncio.run(validate(erasable, capabilities=required))
    results = {name: (result.tests_passed, result.failures) for name, result in report.results.items()}
    assert required <= results.keys()
    assert [name for name in required if not results[name][0] or results[name][1]] == [], results


def test_prune_with_delete_is_an_erasure(ledger: Store, saver_at: Places) -> None:
    with saver_at() as (saver, url):
        checkpointer = ErasableCheckpointer(saver, ledger, url)
        graph = graph_over(checkpointer)
        for thread in ("one", "two"):
            say(graph, thread, "ann", thread)
        checkpointer.prune(["one"], strategy="delete")
        assert (said(graph, "one"), len(said(graph, "two"))) == ([], 2)
        assert [leaf.kind for leaf in ledger.receipts()][-1] in ("decrement", "certified_zero", "refitted", "rebuilt")


@pytest.mark.slow
def test_a_vacuum_beside_an_open_reader(ledger: Store, tmp_path: Path) -> None:
    """SQLite keeps old pages for a reader: that is found and said, and the next call ends it."""
    file = tmp_path / "checkpoints.db"
    text = new_secret()
    with SqliteSaver.from_conn_string(str(file)) as saver:
        checkpointer = ErasableCheckpointer(saver, ledger, f"sqlite:///{file}")
        graph = graph_over(checkpointer)
        say(graph, "thread", "ann", text)
        say(graph, "other", "bob", "hello")
        with closing(saver.conn.cursor()) as reader:
            reader.execute("SELECT * FROM checkpoints")
            reader.fetchone()
            done = checkpointer.erase_subject("ann")
        assert (done.complete, done.findings) == (False, {"in_files": 1})
        assert done.waiting is not None
        assert bytes_left(f"sqlite:///{file}", text) > 0
        assert checkpointer.follow().complete
        assert bytes_left(f"sqlite:///{file}", text) == 0
