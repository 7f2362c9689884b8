"""Workers of a Ray cluster, for audits of very large memories and for their first fit.

What is spread are blocks of kernel rows: each task makes some columns from keys that every machine gets once. A task
depends on its arguments alone, a column is made by one task in one order, and what is published is the exact optimum
rounded once; so a cluster changes no bit of any result. It has to run the same versions of expunge and of what computes
for it, and that is asked of every result. A part that a cluster does not deliver, because a machine was lost, is made
here.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Any

from expunge import __version__
from expunge.errors import InputError, MissingExtra
from expunge.problem.column_parts import available_cores
from expunge.types import Made

__all__ = ["LOCAL", "RayWorkers", "ray_cluster", "ray_workers"]

log = logging.getLogger("expunge.cluster")

# The address of a cluster that is started here, with this machine's cores, and stopped again.
LOCAL = "local"
# What bits depend on, beside this package.
COMPUTING = ("numpy", "numba", "python-flint")
# Tasks under way for each core of the cluster: one that is computed, and one that waits.
IN_FLIGHT = 2


@contextmanager
def ray_cluster(address: str | None = None, *, cores: int | None = None) -> Iterator[Any]:
    """The module ``ray``, connected to the cluster at an address, or to one that is started here with this many cores.

    A connection that is there already is used, and kept. Raises InputError where no cluster answers.
    """
    try:
        ray = import_module("ray")
    except ImportError as problem:
        raise MissingExtra("this needs ray: pip install 'expunge[cluster]'") from problem
    if ray.is_initialized():
        yield ray
        return
    started = address is None or address == LOCAL
    if not started:
        _require_answer(str(address))
    # Keys are content, and a disk that they are spilled to would keep them.
    here = {
        "num_cpus": cores,
        "include_dashboard": False,
        "_system_config": {"automatic_object_spilling_enabled": False},
    }
    where = here if started else {"address": address}
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", **where)
    except Exception as problem:
        # Ray has no class of its own for a cluster that does not start.
        what = "no Ray cluster starts here" if started else f"no Ray cluster answers at {address}"
        raise InputError(f"{what}: {(str(problem).splitlines() or [type(problem).__name__])[0]}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def ray_workers(address: str | None = None, *, cores: int | None = None) -> Iterator[RayWorkers]:
    """Workers of the cluster at an address (``auto`` finds one here), or of one that is started here.

    For a fit or a check: ``with ray_workers(address) as workers, spread_over(workers): Memory.fit(...)``.
    """
    with ray_cluster(address, cores=cores or available_cores()) as ray:
        yield RayWorkers(ray)


class RayWorkers:
    """Makes parts of a computation on a cluster; `types.Workers`. ``made`` counts the parts that came from there."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._versions = _versions()
        self._task = ray.remote(num_cpus=1, max_retries=2)(_perform)
        self.made = 0

    def __call__(
        self, make: Callable[[int, int], Made], parts: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[int, int, Made]]:
        """What `make` returns for each part (start, stop), in the order in which they are done."""
        ray = self._ray
        # Its arrays are sent to every machine once, however many parts that machine makes.
        shared = ray.put(make)
        waiting, at_once = list(reversed(parts)), IN_FLIGHT * max(1, int(ray.cluster_resources().get("CPU", 1)))
        under_way: dict[Any, tuple[int, int]] = {}
        try:
            while waiting or under_way:
                while waiting and len(under_way) < at_once:
                    part = waiting.pop()
                    under_way[self._task.remote(shared, *part)] = part
                (ready,), _ = ray.wait([*under_way], num_returns=1)
                start, stop = under_way.pop(ready)
                yield start, stop, self._result(ready, make, start, stop)
        finally:
            for task in under_way:
                ray.cancel(task)

    def _result(self, task: Any, make: Callable[[int, int], Made], start: int, stop: int) -> Made:
        try:
            versions, made = self._ray.get(task)
        except self._ray.exceptions.RayError as problem:
            # What `make` itself raises is raised again here.
            log.warning("the cluster did not make part %d to %d, so it is made here: %s", start, stop, problem)
            return make(start, stop)
        if versions != self._versions:
            raise InputError(
                f"a worker of the cluster has {_named(versions)}, and here is {_named(self._versions)}: install the "
                "same versions there, or results may differ in their last bits"
            )
        self.made += 1
        found: Made = made
        return found


def _perform(make: Callable[[int, int], Any], start: int, stop: int) -> tuple[tuple[str, ...], Any]:
    """One task of the cluster: the versions that made it, and what it made."""
    return _versions(), make(start, stop)


def _versions() -> tuple[str, ...]:
    return (__version__, *(version(name) for name in COMPUTING))


def _named(versions: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {number}" for name, number in zip(("expunge", *COMPUTING), versions, strict=True))


def _require_answer(address: str) -> None:
    """Refuse an address that nobody answers: Ray itself would wait for minutes, and then end the process."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10.0).close()
        except (OSError, OverflowError) as problem:
            raise InputError(f"no Ray cluster answers at {address}: {problem}") from None
