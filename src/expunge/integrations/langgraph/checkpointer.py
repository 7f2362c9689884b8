"""A checkpointer of LangGraph whose threads can be erased: `ErasableCheckpointer` around one of LangGraph's own.

LangGraph's savers go on to write and read. Beside them a memory of the store lists the threads that may be there
(`thread_list.py`): what is erased from it is deleted from the saver's database.

A run that began before an erasure may write after it. So a write looks before and after whether the thread may be
there. Where it may not, what was written is deleted again, the run gets a Conflict, and so does every other write to
this thread until its tombstone ends (:mod:`expunge.store.tombstones`).
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from expunge.errors import StoreError
from expunge.integrations.langgraph.thread_list import ThreadErasure, ThreadList, ThreadSubject
from expunge.mirrors.langgraph_threads import open_threads
from expunge.store import Store

if TYPE_CHECKING:
    from langgraph.checkpoint.base import DeltaChannelHistory

__all__ = ["ErasableCheckpointer", "user_of"]


def user_of(configurable: Mapping[str, Any]) -> str | None:
    """Whose a thread is, as most graphs have it: ``{"configurable": {"thread_id": ..., "user_id": ...}}``."""
    user = configurable.get("user_id")
    return None if user is None else str(user)


class ErasableCheckpointer(BaseCheckpointSaver[Any]):
    """One of LangGraph's SQLite and PostgreSQL checkpointers, sync or async, with threads that can be erased."""

    def __init__(
        self,
        saver: BaseCheckpointSaver[Any],
        store: Store,
        url: str,
        *,
        memory: str = "threads",
        subject: ThreadSubject = user_of,
        refuse_for: timedelta = timedelta(days=1),
        adopt: bool = False,
        actor: str | None = None,
    ) -> None:
        """Wrap a saver.

        Parameters
        ----------
        saver : BaseCheckpointSaver
            ``SqliteSaver``, ``AsyncSqliteSaver``, ``PostgresSaver`` or ``AsyncPostgresSaver``.
        store : Store
            Where the list of threads is kept, with its receipts.
        url : str
            The saver's database again, for a connection of its own: ``sqlite:///FILE`` or ``postgresql://host/database``.
        memory : str, default "threads"
            Name of the memory that is the list.
        subject : callable, default `user_of`
            From a config's ``configurable`` to whose the thread is. A thread is of one subject.
        refuse_for : timedelta, default one day, at most seven
            How long writes to an erased thread are refused: longer than a run takes.
        adopt : bool, default False
            Enter the threads that the database has already. Their subjects are read from their metadata, into which
            LangGraph copies what is configurable.
        actor : str, optional
            Who asks for the edits, for their receipts to commit to.

        Raises
        ------
        InputError
            For a database with threads that this list does not know, unless they are to be adopted.

        """
        super().__init__(serde=saver.serde)
        self.saver = saver
        self.ledger = store
        self.threads = ThreadList(store, open_threads(url), memory, subject, refuse_for, actor)
        self.threads.take_over(adopt)

    def erase_subject(self, subject: str) -> ThreadErasure:
        """Erase a subject's threads, and whatever else the store has of them.

        What the store has is erased first, and does not wait for the checkpointer's database. Where that fails, the
        answer says so, and `follow` repeats it.
        """
        return self.threads.erase_subject(subject)

    def erase_threads(self, threads: Iterable[str]) -> ThreadErasure:
        """Erase threads by their ids; one that is not there is no error. Raises DeletionRefused for a held one."""
        return self.threads.erase(threads)

    def follow(self) -> ThreadErasure:
        """Delete the threads that are not listed any more from the saver's database; see `ThreadList.follow`."""
        return self.threads.follow()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint; None where its thread is not listed."""
        found = self.saver.get_tuple(config)
        return found if found is not None and self.threads.has(_thread(config)) else None

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        found = await self.saver.aget_tuple(config)
        return found if found is not None and await asyncio.to_thread(self.threads.has, _thread(config)) else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 — LangGraph's word
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints of the threads that are listed, newest first."""
        most = limit if _names_thread(config) else None
        found = self.saver.list(config, filter=filter, before=before, limit=most)
        yield from islice((one for one in found if self.threads.has(_thread(one.config))), limit)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 — LangGraph's word
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As `list`."""
        most, count = limit if _names_thread(config) else None, 0
        async for one in self.saver.alist(config, filter=filter, before=before, limit=most):
            if limit is not None and count >= limit:
                break
            if await asyncio.to_thread(self.threads.has, _thread(one.config)):
                count += 1
                yield one

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Write a checkpoint. Raises Conflict where its thread was erased."""
        thread = self.threads.before_write(config["configurable"])
        written = self.saver.put(config, checkpoint, metadata, new_versions)
        self.threads.after_write(thread, checkpoint=True)
        return written

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `put`."""
        thread = await asyncio.to_thread(self.threads.before_write, config["configurable"])
        written = await self.saver.aput(config, checkpoint, metadata, new_versions)
        await asyncio.to_thread(self.threads.after_write, thread, checkpoint=True)
        return written

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Write what a task has done. Raises Conflict where its thread was erased."""
        thread = self.threads.before_write(config["configurable"])
        self.saver.put_writes(config, writes, task_id, task_path)
        self.threads.after_write(thread, checkpoint=False)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As `put_writes`."""
        thread = await asyncio.to_thread(self.threads.before_write, config["configurable"])
        await self.saver.aput_writes(config, writes, task_id, task_path)
        await asyncio.to_thread(self.threads.after_write, thread, checkpoint=False)

    def delete_thread(self, thread_id: str) -> None:
        """Erase a thread; StoreError where its rows could not be deleted yet. See `erase_threads`."""
        _require_done(self.erase_threads([thread_id]))

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Leave out what is not the newest, as the saver does it; the strategy ``delete`` erases the threads."""
        if strategy == "delete":
            _require_done(self.erase_threads(thread_ids))
        else:
            self.saver.prune(thread_ids, strategy=strategy)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As `prune`."""
        if strategy == "delete":
            await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)
        else:
            await self.saver.aprune(thread_ids, strategy=strategy)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What channels are made of; nothing where the thread is not listed."""
        if not self.threads.has(_thread(config)):
            return {channel: {"writes": []} for channel in channels}
        return self.saver.get_delta_channel_history(config=config, channels=channels)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As `get_delta_channel_history`."""
        if not await asyncio.to_thread(self.threads.has, _thread(config)):
            return {channel: {"writes": []} for channel in channels}
        return await self.saver.aget_delta_channel_history(config=config, channels=channels)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The saver's own version numbers."""
        return self.saver.get_next_version(current, channel)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> BaseCheckpointSaver[Any]:
        """The same over a saver with this list."""
        clone = copy.copy(self)
        clone.saver = self.saver.with_allowlist(extra_allowlist)
        clone.serde = clone.saver.serde
        return clone


def _thread(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _names_thread(config: RunnableConfig | None) -> bool:
    return bool(config) and "thread_id" in (config or {}).get("configurable", {})


def _require_done(done: ThreadErasure) -> None:
    if done.waiting is not None:
        raise StoreError(done.waiting, code="mirror-down")
