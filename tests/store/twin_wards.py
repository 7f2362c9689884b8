"""Stores for twins: the same edits of the same entries and salts, by the library, by commands and over HTTP."""

from __future__ import annotations

import hashlib
import json
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from cli.command_runner import answer
from expunge.service.settings import Settings
from service.service_client import ServiceClient

from .conftest import Place

__all__ = ["WARDS", "SaltsById", "Ward"]

SALT_BYTES = 32


class SaltsById:
    """In place of `secrets.token_bytes`."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, count: int = SALT_BYTES) -> bytes:
        if self.names and count == SALT_BYTES * len(self.names):
            names, self.names = self.names, []
            return b"".join(hashlib.sha256(name.encode()).digest() for name in names)
        return b"\x07" * count


class Ward:
    """A store with entries by name, each with its key, value, subject, payload and salt, edited by the library."""

    def __init__(self, place: Place, salts: SaltsById, keys: dict[str, list[float]], sigma: float, cap: float) -> None:
        self.place, self.salts, self.keys, self.sigma, self.cap = place, salts, keys, sigma, cap
        self.store = place.open()

    def arguments(self, names: list[str]) -> dict[str, Any]:
        """What `create` takes of entries."""
        return {
            "keys": [self.keys[one] for one in names],
            "values": [[float(len(one)), 1.0] for one in names],
            "ids": list(names),
            "subjects": [f"subject of {one}" for one in names],
            "payloads": [f"payload of {one}" for one in names],
        }

    def create(self, names: list[str], name: str = "icu", cap: float | None = None) -> None:
        self.salts.names = list(names)
        given = self.arguments(names)
        if not names:
            given |= {"keys": np.empty((0, self.dimension)), "values": np.empty((0, 2))}
        self.store.create(name, **given, sigma=self.sigma, cap=cap or self.cap)

    @property
    def dimension(self) -> int:
        """Coordinates of a key."""
        return len(next(iter(self.keys.values())))

    def admit(self, name: str) -> None:
        self.salts.names = [name]
        entry = {field.removesuffix("s"): values[0] for field, values in self.arguments([name]).items()}
        self.store["icu"].admit(entry.pop("key"), entry.pop("value"), **entry)

    def delete(self, name: str) -> None:
        self.store["icu"].delete(name)

    def prune(self) -> None:
        self.store["icu"].prune("archive")

    def rebuild(self) -> None:
        self.store["icu"].rebuild(cap=self.cap)

    def erase_subject(self, subject: str) -> None:
        self.store.erase_subject(subject, idempotency_key="k")

    def drop(self, name: str) -> None:
        self.store.drop(name)

    def hold_and_release(self, name: str) -> None:
        self.store.release(self.store.hold("icu", name, reason="court"))

    def checkpoint(self) -> None:
        self.store.checkpoint()

    def vacuum(self) -> None:
        self.store.vacuum()

    def working(self) -> AbstractContextManager[object]:
        """Within this the steps are taken."""
        return nullcontext()


class CommandWard(Ward):
    """The same through commands, each of which opens the store anew."""

    def _call(self, *words: object) -> Any:
        return answer(*words, "--store", self.place.url, "--signing-key", self.place.key)

    def create(self, names: list[str], name: str = "icu", cap: float | None = None) -> None:
        self.salts.names = list(names)
        rows = [
            dict(zip(("key", "value", "id", "subject", "payload"), row, strict=True))
            for row in zip(*self.arguments(names).values(), strict=True)
        ]
        table = self.place.key.with_name("table.jsonl")
        table.write_text("".join(json.dumps(row) + "\n" for row in rows))
        columns = [f"--{one}-columns={one}" for one in ("key", "value")]
        columns += [f"--{one}-column={one}" for one in ("id", "subject", "payload")]
        self._call("create", name, table, "--sigma", self.sigma, "--cap", cap or self.cap, *columns)

    def admit(self, name: str) -> None:
        self.salts.names = [name]
        vectors = {"at": self.keys[name], "value": [float(len(name)), 1.0]}
        texts = [f"--{word}={','.join(map(repr, vector))}" for word, vector in vectors.items()]
        about = (f"--id={name}", f"--subject=subject of {name}", f"--payload=payload of {name}")
        self._call("admit", "icu", *texts, *about)

    def delete(self, name: str) -> None:
        self._call("delete", "icu", name, "--yes")

    def prune(self) -> None:
        self._call("prune", "icu")

    def rebuild(self) -> None:
        self._call("rebuild", "icu", "--cap", self.cap)

    def erase_subject(self, subject: str) -> None:
        self._call("erase-subject", subject, "--yes", "--idempotency-key", "k")

    def drop(self, name: str) -> None:
        self._call("drop", name, "--yes")

    def hold_and_release(self, name: str) -> None:
        self._call("release", self._call("hold", "icu", name, "--reason", "court")["number"])

    def checkpoint(self) -> None:
        self._call("checkpoint", "export", "--out", self.place.key.with_name("head.txt"))

    def vacuum(self) -> None:
        self._call("vacuum")


class ServiceWard(Ward):
    """The same through HTTP."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.service = ServiceClient(Settings(url=self.place.url, signing_key=self.place.key))

    def working(self) -> AbstractContextManager[object]:
        return self.service.client

    def _call(self, method: str, path: str, body: Any = None, **headers: Any) -> Any:
        response = self.service.request(method, f"/v1{path}", body, **headers)
        assert response.status_code in (200, 201), response.text
        return response.json() if response.content.startswith(b"{") else None

    def create(self, names: list[str], name: str = "icu", cap: float | None = None) -> None:
        self.service.headers()
        self.salts.names = list(names)
        given = {"name": name, "sigma": self.sigma, "cap": cap or self.cap, **self.arguments(names)}
        self._call("POST", "/memories", given)

    def admit(self, name: str) -> None:
        self.salts.names = [name]
        entry = {field.removesuffix("s"): values[0] for field, values in self.arguments([name]).items()}
        self._call("POST", "/memories/icu/admit", entry)

    def delete(self, name: str) -> None:
        self._call("POST", "/memories/icu/delete", {"id": name})

    def prune(self) -> None:
        self._call("POST", "/memories/icu/prune", {"mode": "archive"})

    def rebuild(self) -> None:
        self._call("POST", "/memories/icu/rebuild", {"cap": self.cap})

    def erase_subject(self, subject: str) -> None:
        told = self._call("POST", "/erasures", {"subject": subject}, Idempotency_Key="k", Prefer="wait=30")
        assert told["result"]["complete"]

    def drop(self, name: str) -> None:
        self._call("DELETE", f"/memories/{name}")

    def hold_and_release(self, name: str) -> None:
        number = self._call("POST", "/memories/icu/holds", {"id": name, "reason": "court"})["number"]
        self._call("DELETE", f"/holds/{number}")

    def checkpoint(self) -> None:
        self._call("GET", "/log/checkpoint")

    def vacuum(self) -> None:
        assert self._call("POST", "/vacuum", Prefer="wait=30")["state"] == "done"


WARDS = {"library": Ward, "commands": CommandWard, "service": ServiceWard}
