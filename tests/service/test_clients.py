"""Clients that openapi-python-client makes of the description work: they read every answer, and send every body."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.service_client import ServiceClient


class Generated:
    """A generated client over one service; `call` asks for an operation, and holds the answer to its model."""

    def __init__(self, folder: Path, service: ServiceClient) -> None:
        self.folder = folder
        headers = service.headers()
        client = self._module("client").AuthenticatedClient(
            base_url="http://testserver",
            token=headers["Authorization"].removeprefix("Bearer "),
            raise_on_unexpected_status=True,
        )
        # The generated client as it is, over the application in this process.
        transport = service.client._transport
        client.set_httpx_client(
            httpx.Client(transport=_Adapter(transport), base_url="http://testserver", headers=headers)
        )
        self.client = client

    def _module(self, name: str) -> Any:
        return importlib.import_module(f"{self.folder.name}.{name}")

    def model(self, name: str, content: dict[str, Any]) -> Any:
        """A body; what it sends is what was given."""
        made = getattr(self._module("models"), name).from_dict(content)
        assert made.to_dict() == content
        return made

    def call(self, operation: str, *path: Any, **arguments: Any) -> Any:
        """The parsed answer, which gives the JSON back that came."""
        (file,) = (self.folder / "api").glob(f"*/{operation}.py")
        module = self._module(f"api.{file.parent.name}.{operation}")
        answer = module.sync_detailed(*path, client=self.client, **arguments)
        assert answer.status_code < 400, answer.content
        if hasattr(answer.parsed, "to_dict"):
            sent, read = json.loads(answer.content), answer.parsed.to_dict()
            assert read == sent, operation
        return answer.parsed


class _Adapter(httpx.BaseTransport):
    """The test client's transport for httpx."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._transport.handle_request(request)
        # What is read here is unpacked already.
        headers = [(name, value) for name, value in answer.headers.multi_items() if name != "content-encoding"]
        return httpx.Response(answer.status_code, headers=headers, content=answer.read())


@pytest.fixture
def generated(service: ServiceClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Generated]:
    described, folder = tmp_path / "openapi.json", tmp_path / "generated_client"
    described.write_text(json.dumps(service.request("GET", "/openapi.json", status=200)))
    words = ("--path", str(described), "--output-path", str(folder), "--meta", "none")
    # A description that it cannot read in full is a failure, too.
    command = [sys.executable, "-m", "openapi_python_client", "generate", *words, "--fail-on-warning"]
    config = tmp_path / "config.yaml"
    config.write_text("post_hooks: []\n")
    done = subprocess.run([*command, "--config", str(config)], capture_output=True, text=True, timeout=120)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Generated(folder, service)
    for name in [name for name in sys.modules if name.partition(".")[0] == folder.name]:
        sys.modules.pop(name)


@pytest.mark.slow
def test_a_generated_client_does_the_whole_work(generated: Generated, service: ServiceClient) -> None:
    call, model = generated.call, generated.model
    body: dict[str, Any] = {
        "name": "new",
        "keys": [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]],
        "values": [[1.0], [2.0], [3.0]],
        "cap": 1.0,
    }
    made = call(
        "create_memory",
        body=model("NewMemory", body | {"sigma": 1.0, "ids": ["a", "b", "c"], "subjects": ["p", "p", "q"]}),
        idempotency_key="k",
    )
    assert made.size == 3
    assert "new" in [row.name for row in call("list_memories").items]
    for content in (True, False):
        assert len(call("list_entries", "icu", content=content, limit=50).items) == 40
    assert call("show_entry", "icu", "e1").id == "e1"
    assert call("show_entry_certificate", "icu", "e1").id == "e1"
    call("show_map", "icu")
    call("list_warranties", "other")
    receipt = call(
        "admit", "new", body=model("Admission", {"key": [0.5, 0.5], "value": [1.0], "id": "d", "derived_from": ["a"]})
    )
    assert receipt.outcome.value == "admitted"
    call("admit_many", "new", body=model("Admissions", {"entries": [{"key": [0.1, 0.2], "value": [1.0]}]}))
    call("admit_batch", "new", body=model("AdmissionBatch", {"entries": [{"key": [0.3, 0.2], "value": [1.0]}]}))
    call("read", "icu", body=model("ReadQueries", {"queries": [[0.0, 0.0, 0.0, 0.0]]}))
    call("search", "icu", body=model("SearchQuery", {"query": [0.0, 0.0, 0.0, 0.0], "k": 3}))
    call("nearest", "icu", body=model("NearestQuery", {"query": [0.0, 0.0, 0.0, 0.0], "k": 3}))
    call("explain", "icu", body=model("ExplanationQuery", {"like": "e1", "k": 3}))
    for operation in ("check", "fit", "bounds"):
        call(operation, "icu")
    preview = call("delete", "new", body=model("Deletion", {"id": "a"}), dry_run=True)
    assert preview.dry_run is True
    held = call("place_hold", "new", body=model("NewHold", {"subject": "q", "reason": "a case"}))
    assert call("list_holds").items[0].number == held.number
    with pytest.raises(AssertionError, match="deletion-refused"):
        call("delete", "new", body=model("Deletion", {"id": "c"}))
    call("release_hold", held.number)
    assert call("delete", "new", body=model("Deletion", {"id": "a"})).index is not None
    assert call("erase", body=model("SubjectErasure", {"subject": "p"}), prefer="wait=30").state.value == "done"
    waiting = call("erase", body=model("SubjectErasure", {"subject": "q", "after": 9000}))
    assert [one.leaf for one in call("list_erasures").items] == [waiting.leaf]
    call("cancel_erasure", waiting.leaf)
    call("retain", prefer="wait=30")
    call("verify", prefer="wait=30")
    call("prove", "icu", prefer="wait=30")
    index = call("list_log", limit=5).items[0].index
    call("list_receipts", "icu")
    signed = call("show_receipt", index)
    call(
        "verify_receipt",
        body=model("SubmittedReceipt", {"envelope": signed.envelope, "inclusion": signed.inclusion.text}),
    )
    for operation in ("show_checkpoint", "list_cases", "list_mirrors", "about"):
        call(operation)
    call("show_inclusion", index)
    call("show_consistency", since=1)
    assert call("export_subject", body=model("SubjectExport", {"subject": "patient-1"})).entries
    token = call("create_token", body=model("NewToken", {"scopes": ["read"], "note": "made"}))
    assert service.client.get("/v1", headers={"Authorization": f"Bearer {token.token}"}).status_code == 200
    assert token.id in [one.id for one in call("list_tokens").items]
    assert call("revoke_token", token.id).revoked is not None
    evidence = call("export_evidence", "icu")
    assert evidence.payload.read(2) == b"PK"
    call("drop_memory", "new")
    for operation in ("health", "ready"):
        call(operation)
