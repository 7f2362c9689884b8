"""Limits are enforced, and settings reach the workers."""

from __future__ import annotations

from typing import Any

import pytest

from expunge.service.settings import Limits, Settings
from service.service_client import ServiceClient


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("read", {"queries": [[0.0] * 4] * 21}, "at most 20"),
        ("read", {"queries": [[0.0] * 65]}, "at most 64 coordinates"),
        ("search", {"query": [0.0] * 65}, "at most 64 coordinates"),
        ("explain", {"query": [0.0] * 65}, "at most 64 coordinates"),
        ("admit", {"key": [0.0] * 65, "value": 1.0}, "at most 64 coordinates"),
        ("admit/batch", {"entries": [{"key": [0.0] * 4, "value": 1.0}] * 21}, "at most 20"),
        ("delete", {"ids": [f"e{row}" for row in range(21)]}, "at most 20"),
        ("read", {"queries": [[0.0] * 5]}, "4 coordinates"),
        ("read", {"queries": [[1e200] * 4]}, "1e150"),
    ],
)
def test_other_limits_are_named(service: ServiceClient, path: str, body: Any, words: str) -> None:
    problem = service.request("POST", f"/v1/memories/icu/{path}", body, status=422)
    assert words in problem["detail"]


def test_limits_are_told(service: ServiceClient) -> None:
    about = service.request("GET", "/v1", status=200)
    assert about["limits"] == vars(service.context.settings.limits)
    assert service.request("GET", "/v1/memories?limit=51").status_code == 422


def test_settings_travel_through_the_environment(tmp_path: Any) -> None:
    settings = Settings(
        "sqlite:///x.db", "hsm:1", 3.0, tmp_path, True, Limits(batch=7), head_key="hsm:2", pepper=tmp_path / "p"
    )
    assert Settings.from_environment({"EXPUNGE_SERVICE": settings.to_text()}) == settings
