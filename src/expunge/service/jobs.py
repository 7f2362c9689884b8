"""Long jobs as resources, kept in the database: any worker can tell how far one is, and finish what another began.

The row of a job is found by a hash of its id. What was asked, and what came of it, are sealed under the id itself,
which only the client has: they may name a subject or entries, and these must not outlive an erasure in the clear
(``docs/formats/store.md``). A worker signs on to its running jobs every few seconds. When it dies, or is told to stop
in the middle, the next question about the job makes the worker that is asked take it up again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from expunge.errors import ExpungeError
from expunge.service.executor import Desk
from expunge.service.job_kinds import KINDS, Kind
from expunge.service.log_format import where_it_broke
from expunge.service.problems import problem_of
from expunge.store import Conflict, Store
from expunge.store.backends.tables import jobs
from expunge.store.encryption import decrypt_request, encrypt_request

__all__ = ["Job", "Jobs"]

log = logging.getLogger("expunge.service")

BEAT = 5.0
ORPHANED = 20.0
KEPT = 7 * 86_400.0

_UNFINISHED = ("queued", "running")


class Stopped(ExpungeError):
    """Raised in a job whose worker is about to stop; what is done stays done."""


@dataclass(frozen=True)
class Job:
    """What is known of a job. ``state`` is queued, running, done, failed or interrupted; times are milliseconds."""

    id: str
    kind: Kind
    state: str
    done: int
    total: int
    created: int
    updated: int
    spec: dict[str, Any]
    result: dict[str, Any] | None
    problem: dict[str, Any] | None

    @property
    def finished(self) -> bool:
        """Whether nothing more will come of it by itself."""
        return self.state in ("done", "failed")


class Jobs:
    """The jobs of one worker, and sight of the others'."""

    def __init__(self, store: Store, desk: Desk, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._desk = desk
        self._clock = clock
        self._worker = secrets.token_hex(8)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = threading.Event()
        self._pulse: asyncio.Task[None] | None = None

    async def start(self, kind: str, spec: dict[str, Any], key: str | None = None) -> Job:
        """Begin a job. Under a key it is begun once; asked again, it goes on, or is begun anew if it has failed."""
        name = secrets.token_urlsafe(32) if key is None else self._derived(kind, key)
        job, made = await self._desk.read(self._enter, name, KINDS[kind], spec)
        return self._launched(job) if made else await self._attended(job, again=True)

    async def find(self, name: str) -> Job | None:
        """A job by its id; one that nobody is working on any more is taken up."""
        job = await self._desk.read(self._row, name)
        return None if job is None else await self._attended(job)

    async def wait(self, job: Job, seconds: float) -> Job:
        """The job when it has finished, or as it is after some seconds."""
        deadline = time.monotonic() + seconds
        while not job.finished and time.monotonic() < deadline:
            task = self._tasks.get(job.id)
            left = max(0.0, deadline - time.monotonic())
            if task is not None:
                await asyncio.wait([task], timeout=left)
            else:
                await asyncio.sleep(min(0.2, left))
            found: Job | None = await self._desk.read(self._row, job.id)
            job = found or job
        return job

    async def stop(self, patience: float) -> None:
        """Let jobs come to the end of a step, and leave the rest to others."""
        self._stopping.set()
        if self._pulse is not None:
            self._pulse.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=patience)
        for name, task in list(self._tasks.items()):
            task.cancel()
            with suppress(ExpungeError):
                self._update(name, state="interrupted")

    def counts(self) -> dict[str, int]:
        """How many jobs there are, by state."""
        with self._store.reading() as connection:
            rows = connection.rows(select(jobs.c.state, func.count()).group_by(jobs.c.state))
        return {str(state): int(count) for state, count in rows}

    async def _attended(self, job: Job, *, again: bool = False) -> Job:
        """Make sure that somebody is working on a job, unless it is over."""
        silent = self._clock() * 1000 - job.updated > ORPHANED * 1000
        left = job.state == "interrupted" or (job.state in _UNFINISHED and silent)
        if job.id in self._tasks or not (left or (again and job.state == "failed")):
            return job
        if not await self._desk.read(self._take, job):
            return await self._desk.read(self._row, job.id) or job
        return self._launched(replace(job, state="queued", problem=None))

    def _launched(self, job: Job) -> Job:
        if job.id not in self._tasks:
            self._tasks[job.id] = task = asyncio.create_task(self._run(job))
            task.add_done_callback(lambda _: self._tasks.pop(job.id, None))
            if self._pulse is None or self._pulse.done():
                self._pulse = asyncio.create_task(self._beat())
        return job

    async def _run(self, job: Job) -> None:
        state, result, problem = "failed", None, None
        try:
            await self._desk.read(self._update, job.id, state="running")
            result = await self._desk.work(job.kind.act, self._store, job.spec, self._progress(job.id))
            state = "done"
        except Stopped:
            state = "interrupted"
        except Exception as found:
            problem = problem_of(found)
            if not isinstance(found, ExpungeError):
                log.error("defect", extra={"about": {"job": job.kind.name, "at": where_it_broke(found)}})
        try:
            content = self._sealed(job.id, job.spec, result, problem)
            await self._desk.read(self._finish, job.id, state, content)
            log.info("job", extra={"about": {"kind": job.kind.name, "state": state}})
        except ExpungeError as found:
            # It goes silent, and whoever asks for it next makes it run again.
            log.warning("job", extra={"about": {"kind": job.kind.name, "error": type(found).__name__}})

    def _progress(self, name: str) -> Callable[[int, int], None]:
        def told(done: int, total: int) -> None:
            if self._stopping.is_set() and done < total:
                raise Stopped("the worker is about to stop")
            self._update(name, done=done, total=total)

        return told

    async def _beat(self) -> None:
        while self._tasks:
            await asyncio.sleep(BEAT)
            for name in list(self._tasks):
                with suppress(ExpungeError):
                    await self._desk.read(self._update, name)

    def _enter(self, name: str, kind: Kind, spec: dict[str, Any]) -> tuple[Job, bool]:
        """The row of a job, and whether it was made just now."""
        now = int(self._clock() * 1000)
        row = {
            "id_hash": _id_hash(name),
            "kind": kind.name,
            "state": "queued",
            "done": 0,
            "total": 1,
            "worker": self._worker,
            "created": now,
            "heartbeat": now,
            "content": self._sealed(name, spec, None, None),
        }
        with self._store.writing("jobs") as connection:
            connection.execute(delete(jobs).where(jobs.c.created < now - int(KEPT * 1000)))
            known = connection.first(select(jobs).where(jobs.c.id_hash == row["id_hash"]))
            if known is None:
                connection.execute(insert(jobs), row)
                connection.commit()
                return Job(name, kind, "queued", 0, 1, now, now, spec, None, None), True
            connection.commit()
        job = self._job(name, known)
        if job.spec != spec or job.kind is not kind:
            raise Conflict("this idempotency key was used for another request; nothing was done")
        return job, False

    def _row(self, name: str) -> Job | None:
        row = self._store.read_row(select(jobs).where(jobs.c.id_hash == _id_hash(name)))
        return None if row is None else self._job(name, row)

    def _take(self, job: Job) -> bool:
        """Become the one who works on it; False if another was faster."""
        now = max(int(self._clock() * 1000), job.updated + 1)
        with self._store.writing("jobs") as connection:
            taken = connection.execute(
                update(jobs)
                .where(jobs.c.id_hash == _id_hash(job.id), jobs.c.heartbeat == job.updated, jobs.c.state == job.state)
                .values(worker=self._worker, state="queued", heartbeat=now)
            )
            connection.commit()
        return taken.rowcount == 1

    def _update(self, name: str, **values: Any) -> None:
        with self._store.writing("jobs") as connection:
            connection.execute(
                update(jobs)
                .where(jobs.c.id_hash == _id_hash(name), jobs.c.worker == self._worker)
                .values(heartbeat=int(self._clock() * 1000), **values)
            )
            connection.commit()

    def _finish(self, name: str, state: str, content: bytes) -> None:
        reached = {"done": jobs.c.total} if state == "done" else {}
        self._update(name, state=state, content=content, **reached)

    def _job(self, name: str, row: Any) -> Job:
        content = decrypt_request(f"{self._store.uuid} job", name, row.content)
        return Job(
            id=name,
            kind=KINDS[row.kind],
            state=row.state,
            done=row.done,
            total=row.total,
            created=row.created,
            updated=row.heartbeat,
            spec=content["spec"],
            result=content["result"],
            problem=content["problem"],
        )

    def _sealed(self, name: str, spec: dict[str, Any], result: Any, problem: Any) -> bytes:
        return encrypt_request(f"{self._store.uuid} job", name, {"spec": spec, "result": result, "problem": problem})

    def _derived(self, kind: str, key: str) -> str:
        """Id of the job under an idempotency key: whoever has the one can have the other."""
        strong = self._store.peppered_key(key)
        told = f"expunge/job-id/v1\n{self._store.uuid}\n{kind}\n{strong}".encode()
        return base64.urlsafe_b64encode(hashlib.sha256(told).digest()).decode().rstrip("=")


def _id_hash(name: str) -> bytes:
    return hashlib.sha256(b"expunge/job/v1\n" + name.encode("utf-8", "surrogatepass")).digest()
