"""The service is what its OpenAPI description says: Schemathesis makes up requests and holds the answers to it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

import expunge
from expunge.service.tokens import SCOPES, Tokens
from service.service_client import running_service

# Requests of the right form may still be refused, for what they say: a vector of another length, an unknown id. So
# acceptance of every well-formed request is not asked for.
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
    allow_header_conformance,
]
KNOWN = {"name": "example", "entry": "a", "index": 0}
# A hold keeps the memories; numbers of holds, requests and jobs are not guessed; the rest is tested for itself.
NEVER = {"DELETE /v1/memories/{name}", "DELETE /v1/holds/{number}", "GET /v1/jobs/{job}", "GET /v1/report"}
NEVER |= {"POST /v1/verify/receipt", "POST /v1/memories/{name}/delete", "DELETE /v1/erasures/{leaf}"}
# It takes a name with its salt, which nobody guesses.
NEVER |= {"POST /v1/receipts/{index}/certificate"}
# The HTTP server itself refuses longer request lines, before anything of ours is asked.
LONGEST_LINE = 60_000


@dataclass(frozen=True)
class Live:
    """A service in a process of its own, its description, and a token."""

    url: str
    headers: dict[str, str]
    description: dict[str, Any]
    made: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    store = f"sqlite:///{tmp_path_factory.mktemp('openapi') / 'open.db'}"
    with expunge.open(store) as opened:
        text, _ = Tokens(opened).create(SCOPES)
        # What the examples in the description are about.
        keys = np.vstack([[[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]], np.random.default_rng(0).standard_normal((9, 2))])
        names = ["a", "b", "c", *(f"e{row}" for row in range(9))]
        opened.create("example", keys, np.arange(12.0), sigma=1.0, nu=0.3, ids=names)
        opened["example"].prune()
        opened.hold("example", "a", reason="kept for the test")
    headers = {"Authorization": f"Bearer {text}"}
    with running_service(store, "--max-body", "200000", "--max-dimension", "64", "--max-batch", "20") as (_, url, _):
        yield Live(url, headers, httpx.get(f"{url}openapi.json", headers=headers).json())


@pytest.fixture(scope="module")
def described(live: Live) -> Any:
    """Without the tokens, which are tested route by route; a request that may not be made says little."""
    plain = json.loads(json.dumps(live.description))
    for operations in plain["paths"].values():
        for operation in operations.values():
            operation.pop("security", None)
    found = schemathesis.openapi.from_dict(plain)
    examples = {
        name: shape["examples"][0] for name, shape in plain["components"]["schemas"].items() if "examples" in shape
    }

    @found.hook("map_case")
    def likelier(context: Any, case: Any) -> Any:
        """Names that are there and bodies that make sense, more often than chance would have it."""
        for name, value in (case.path_parameters or {}).items():
            if name in KNOWN and len(str(value)) % 4:
                case.path_parameters[name] = KNOWN[name]
        body = case.operation.definition.raw.get("requestBody")
        if body is not None and case.meta.generation.mode is GenerationMode.POSITIVE and len(str(case.body)) % 3:
            wanted = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            case.body = json.loads(json.dumps(examples.get(wanted, case.body)))
            if wanted == "Creation":
                case.body["name"] += str(len(live.made))
                live.made.append(1)
        return case

    return found


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_answers_are_as_described(described: Any, live: Live, mode: GenerationMode) -> None:
    answered: Counter[tuple[str, int]] = Counter()
    for found in described.get_all_operations():
        operation = found.ok()

        @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        @given(operation.as_strategy(generation_mode=mode))
        def holds(case: Any) -> None:
            asked = case.as_transport_kwargs(base_url=live.url)
            try:
                line = httpx.Request("GET", asked["url"], params=asked.get("params")).url.raw_path
            except httpx.InvalidURL as problem:
                # Longer than httpx makes one, and so than the longest line.
                assume("too long" not in str(problem))
                raise
            assume(len(line) < LONGEST_LINE)
            response = case.call_and_validate(base_url=live.url, headers=live.headers, checks=CHECKS)
            answered[f"{case.method} {case.operation.path}", response.status_code] += 1

        with suppress(Unsatisfiable):
            # There is no wrong way to ask what takes no parameters.
            holds()
    operations = {name for name, _ in answered}
    assert sum(answered.values()) > 100
    if mode is GenerationMode.POSITIVE:
        assert len(operations) == sum(len(found) for found in live.description["paths"].values())
        assert operations - {name for name, status in answered if status < 300} <= NEVER


def test_everything_is_described_with_an_example(live: Live) -> None:
    found = live.description
    assert found["components"]["securitySchemes"] == {"bearer": {"type": "http", "scheme": "bearer"}}
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], path
            assert operation["description"], path
            assert "application/problem+json" in operation["responses"]["default"]["content"]
            if path not in ("/health", "/ready"):
                assert operation["security"] == [{"bearer": []}], (method, path)
            body = operation.get("requestBody")
            if body is not None and path != "/v1/verify/receipt":
                name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                assert found["components"]["schemas"][name]["examples"], path
