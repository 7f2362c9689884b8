"""Long jobs as resources in the database: any worker can report the progress of one, and finish what another started.

The row of a job is found by a hash of its id. Its specification and its result are encrypted under the id itself,
which only the client has: they may name a subject or entries, and these must not outlive an erasure in the clear
(``docs/formats/store.md``). A worker updates its running jobs every few seconds. When it dies, or has to stop in the
middle, the worker that gets the next request about the job runs it again.
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

from sqlalchemy import func, insert, select, update

from expunge.errors import ExpungeError
from expunge.service.executor import Executor
from expunge.service.job_kinds import JOB_KINDS, JobKind, Progress
from expunge.service.log_format import traceback_places
from expunge.service.problems import problem_details
from expunge.store import Conflict, Store
from expunge.store.backends.tables import jobs
from expunge.store.encryption import decrypt_request, encrypt_request

__all__ = ["Job", "Jobs"]

log = logging.getLogger("expunge.service")

HEARTBEAT_SECONDS = 5.0
ORPHAN_SECONDS = 20.0

_UNFINISHED = ("queued", "running")


class Stopped(ExpungeError):
    """Raised in a job whose worker is about to stop; its finished steps are kept."""


@dataclass(frozen=True)
class Job:
    """A job as it is stored. ``state`` is queued, running, done, failed or interrupted; times are milliseconds."""

    id: str
    kind: JobKind
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
        """Whether it is done or has failed."""
        return self.state in ("done", "failed")


class Jobs:
    """The jobs of one store: those that this worker runs, and the rows of all others."""

    def __init__(self, store: Store, executor: Executor, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._executor = executor
        self._clock = clock
        self._worker = secrets.token_hex(8)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = threading.Event()
        self._heartbeat_task: asyncio.Task[None] | None = None

    async def start(self, kind: str, spec: dict[str, Any], key: str | None = None) -> Job:
        """Start a job. A key starts it once; the same key again continues it, or restarts it if it has failed."""
        job_id = secrets.token_urlsafe(32) if key is None else self._id_from_key(kind, key)
        job, inserted = await self._executor.read(self._insert, job_id, JOB_KINDS[kind], spec)
        return self._launch(job) if inserted else await self._ensure_running(job, retry_failed=True)

    async def find(self, job_id: str) -> Job | None:
        """A job by its id. If no worker runs it any more, this one does."""
        job = await self._executor.read(self._find, job_id)
        return None if job is None else await self._ensure_running(job)

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
            found: Job | None = await self._executor.read(self._find, job.id)
            job = found or job
        return job

    async def stop(self, seconds: float) -> None:
        """Let jobs reach the end of a step for some seconds, and mark the others as interrupted."""
        self._stopping.set()
        if self._heartbeat_task is not None:
            self._heartbeat_task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=seconds)
        for job_id, task in list(self._tasks.items()):
            task.cancel()
            with suppress(ExpungeError):
                self._update(job_id, state="interrupted")

    def counts(self) -> dict[str, int]:
        """How many jobs there are, by state."""
        with self._store.reading() as connection:
            rows = connection.rows(select(jobs.c.state, func.count()).group_by(jobs.c.state))
        return {str(state): int(count) for state, count in rows}

    async def _ensure_running(self, job: Job, *, retry_failed: bool = False) -> Job:
        """Run an unfinished job here if no worker runs it."""
        silent = self._clock() * 1000 - job.updated > ORPHAN_SECONDS * 1000
        abandoned = job.state == "interrupted" or (job.state in _UNFINISHED and silent)
        if job.id in self._tasks or not (abandoned or (retry_failed and job.state == "failed")):
            return job
        if not await self._executor.read(self._claim, job):
            return await self._executor.read(self._find, job.id) or job
        return self._launch(replace(job, state="queued", problem=None))

    def _launch(self, job: Job) -> Job:
        if job.id not in self._tasks:
            self._tasks[job.id] = task = asyncio.create_task(self._run(job))
            task.add_done_callback(lambda _: self._tasks.pop(job.id, None))
            if self._heartbeat_task is None or self._heartbeat_task.done():
                self._heartbeat_task = asyncio.create_task(self._heartbeat())
        return job

    async def _run(self, job: Job) -> None:
        state, result, problem = "failed", None, None
        try:
            await self._executor.read(lambda: self._update(job.id, state="running"))
            result = await self._executor.work(job.kind.run, self._store, job.spec, self._progress(job.id))
            state = "done"
        except Stopped:
            state = "interrupted"
        except Exception as error:
            problem = problem_details(error)
            if not isinstance(error, ExpungeError):
                log.error("defect", extra={"about": {"job": job.kind.name, "at": traceback_places(error)}})
        try:
            content = self._encrypted(job.id, job.spec, result, problem)
            await self._executor.read(self._finish, job.id, state, content)
            log.info("job", extra={"about": {"kind": job.kind.name, "state": state}})
        except ExpungeError as error:
            # The row gets no more heartbeats, so that the next request for the job runs it again.
            log.warning("job", extra={"about": {"kind": job.kind.name, "error": error.code}})

    def _progress(self, job_id: str) -> Progress:
        def record(done: int, total: int) -> None:
            if self._stopping.is_set() and done < total:
                raise Stopped("the worker is about to stop")
            self._update(job_id, done=done, total=total)

        return record

    async def _heartbeat(self) -> None:
        while self._tasks:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            for job_id in list(self._tasks):
                with suppress(ExpungeError):
                    await self._executor.read(self._update, job_id)

    def _insert(self, job_id: str, kind: JobKind, spec: dict[str, Any]) -> tuple[Job, bool]:
        """The job with an id, and whether it was inserted just now."""
        now = int(self._clock() * 1000)
        row = {
            "id_hash": _id_hash(job_id),
            "kind": kind.name,
            "state": "queued",
            "done": 0,
            "total": 1,
            "worker": self._worker,
            "created": now,
            "heartbeat": now,
            "content": self._encrypted(job_id, spec, None, None),
        }
        with self._store.writing("jobs") as connection:
            known = connection.first(select(jobs).where(jobs.c.id_hash == row["id_hash"]))
            if known is None:
                connection.execute(insert(jobs), row)
                connection.commit()
                return Job(job_id, kind, "queued", 0, 1, now, now, spec, None, None), True
            connection.commit()
        job = self._job(job_id, known)
        # Another client may repeat the request: who asks is no part of what is asked.
        if job.spec | {"actor": None} != spec | {"actor": None} or job.kind is not kind:
            raise Conflict("this idempotency key was used for another request; nothing was done")
        return job, False

    def _find(self, job_id: str) -> Job | None:
        row = self._store.read_row(select(jobs).where(jobs.c.id_hash == _id_hash(job_id)))
        return None if row is None else self._job(job_id, row)

    def _claim(self, job: Job) -> bool:
        """Make this worker the one that runs a job; False if another was faster."""
        now = max(int(self._clock() * 1000), job.updated + 1)
        with self._store.writing("jobs") as connection:
            claimed = connection.execute(
                update(jobs)
                .where(jobs.c.id_hash == _id_hash(job.id), jobs.c.heartbeat == job.updated, jobs.c.state == job.state)
                .values(worker=self._worker, state="queued", heartbeat=now)
            )
            connection.commit()
        return claimed.rowcount == 1

    def _update(self, job_id: str, **values: Any) -> None:
        with self._store.writing("jobs") as connection:
            connection.execute(
                update(jobs)
                .where(jobs.c.id_hash == _id_hash(job_id), jobs.c.worker == self._worker)
                .values(heartbeat=int(self._clock() * 1000), **values)
            )
            connection.commit()

    def _finish(self, job_id: str, state: str, content: bytes) -> None:
        progress = {"done": jobs.c.total} if state == "done" else {}
        self._update(job_id, state=state, content=content, **progress)

    def _job(self, job_id: str, row: Any) -> Job:
        content = decrypt_request(f"{self._store.uuid} job", job_id, row.content)
        return Job(
            id=job_id,
            kind=JOB_KINDS[row.kind],
            state=row.state,
            done=row.done,
            total=row.total,
            created=row.created,
            updated=row.heartbeat,
            spec=content["spec"],
            result=content["result"],
            problem=content["problem"],
        )

    def _encrypted(self, job_id: str, spec: dict[str, Any], result: Any, problem: Any) -> bytes:
        return encrypt_request(f"{self._store.uuid} job", job_id, {"spec": spec, "result": result, "problem": problem})

    def _id_from_key(self, kind: str, key: str) -> str:
        """Id of the job under an idempotency key: it follows from the key."""
        strong = self._store.peppered_key(key)
        text = f"expunge/job-id/v1\n{self._store.uuid}\n{kind}\n{strong}".encode()
        return base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")


def _id_hash(job_id: str) -> bytes:
    return hashlib.sha256(b"expunge/job/v1\n" + job_id.encode("utf-8", "surrogatepass")).digest()
