"""What the parts of one worker share: settings, the open store, tokens, threads, jobs, metrics."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from expunge.service.executor import Desk
from expunge.service.jobs import Jobs
from expunge.service.metrics import Metrics
from expunge.service.settings import Settings
from expunge.service.tokens import Tokens
from expunge.store import Store

__all__ = ["House", "house_of"]


@dataclass(frozen=True)
class House:
    """One worker."""

    settings: Settings
    store: Store
    tokens: Tokens
    desk: Desk
    jobs: Jobs
    metrics: Metrics


def house_of(request: Request) -> House:
    """The worker that a request came to."""
    house: House = request.app.state.house
    return house
