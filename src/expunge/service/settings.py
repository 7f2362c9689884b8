"""Settings of one service: where the store is, its limits, the report it shows.

Workers are processes of their own, so settings are passed to them in one environment variable.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from expunge.errors import InputError
from expunge.service.openid import OpenId
from expunge.store import Store
from expunge.store import open as open_store

__all__ = ["VARIABLE", "Limits", "Settings", "report_page"]

VARIABLE = "EXPUNGE_SERVICE"
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+)+")
PASSPHRASE = "EXPUNGE_PASSPHRASE"  # noqa: S105 — the variable's name


@dataclass(frozen=True)
class Limits:
    """The most of everything that one request may bring or ask for."""

    body_bytes: int = 8 << 20
    dimension: int = 4096
    batch: int = 1000
    queries: int = 1000
    page: int = 1000

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"the limit {name} is a positive number, not {value!r}")


@dataclass(frozen=True)
class Settings:
    """One service. ``timeout`` is how long an edit waits for another, in seconds.

    Cases without a leaf in the last ``keep_cases`` days are erased; with None they are kept. Every ``retain_seconds``
    what has ended is erased; with 0 it is left to ``expunge retain``. ``memory_budget`` is in bytes, for each worker.
    """

    url: str
    signing_key: str | Path | None = None
    timeout: float = 30.0
    report: Path | None = None
    tls: bool = False
    limits: Limits = field(default_factory=Limits)
    keep_cases: int | None = None
    retain_seconds: float = 60.0
    head_key: str | None = None
    pepper: Path | None = None
    origin: str | None = None
    memory_budget: int | None = None
    prefix: str = ""
    openid: OpenId | None = None
    rate: float = 0.0
    bad_tokens: int = 30
    trusted_proxies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.prefix and not _PREFIX.fullmatch(self.prefix):
            raise InputError(f"the prefix is a path without an end slash, as in /memories, not {self.prefix!r:.80}")
        if not 0 <= self.rate < 1e9 or self.bad_tokens < 0:
            raise InputError("the rate and the number of bad tokens are 0, for no limit, or more")

    def open(self) -> Store:
        """The store; an encrypted signing key is opened with $EXPUNGE_PASSPHRASE."""
        passphrase = os.environ.get(PASSPHRASE) or None
        return open_store(
            self.url,
            self.signing_key,
            head_key=self.head_key,
            pepper=self.pepper,
            passphrase=passphrase,
            origin=self.origin,
            timeout=self.timeout,
            memory_budget=self.memory_budget,
        )

    def to_text(self) -> str:
        """For the environment of a worker."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """What `to_text` wrote."""
        try:
            found = json.loads(environment[VARIABLE])
        except (KeyError, ValueError):
            raise InputError(f"${VARIABLE} does not hold the settings of a service; use expunge serve") from None
        openid = None if found["openid"] is None else OpenId(**found["openid"])
        paths = {name: None if found[name] is None else Path(found[name]) for name in ("pepper", "report")}
        made = {
            "limits": Limits(**found["limits"]),
            "openid": openid,
            "trusted_proxies": tuple(found["trusted_proxies"]),
        }
        return cls(**found | paths | made)


def report_page(path: Path) -> Path:
    """What to show of a report: its file, the page that ``expunge audit report`` wrote, or a folder with an index."""
    if path.is_file() or (path / "index.html").is_file():
        return path
    pages = [folder / "report.html" for folder in (path, path / "report")]
    found = next((page for page in pages if page.is_file()), None)
    if found is None:
        raise InputError(f"there is no report at {path}: name a page, or what expunge audit report wrote")
    return found
