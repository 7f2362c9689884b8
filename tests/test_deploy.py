"""What `deploy/` has is true: names of metrics, options of the configuration, files that the image is made of."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import make_monitoring
from expunge.service.settings import Settings
from service.service_client import ServiceClient, fill_store

DEPLOY = Path(__file__).parents[1] / "deploy"
# Words of the query language that look like names of metrics.
LABELS = {"action", "kind", "le", "route", "state", "status", "result", "job", "instance"}
FUNCTIONS = {"sum", "max", "by", "rate", "increase", "histogram_quantile"}


def names_in(query: str) -> set[str]:
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]|by \([^)]*\)|\{[^}]*\}', "", query)
    return set(re.findall(r"[a-z_]{2,}", bare)) - FUNCTIONS


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Every series that a service shows after some work, with the names of its labels."""
    url = f"sqlite:///{tmp_path_factory.mktemp('deploy') / 'ward.db'}"
    fill_store(url)
    service, found = ServiceClient(Settings(url=url, retain_seconds=0.001)), dict[str, set[str]]()
    with service.client:
        service.request("POST", "/v1/memories/icu/delete", {"id": "e1"}, status=200)
        service.store.hold("icu", "e2", reason="case")
        service.request("POST", "/v1/memories/icu/delete", {"id": "e2"}, status=409)
        service.request("POST", "/v1/memories/icu/prove", status=200, Prefer="wait=30")
        service.app.state.background.step()
        text = service.request("GET", "/metrics", scopes=("audit",)).text
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_dashboard_and_alerts_are_what_the_tool_makes() -> None:
    folder = DEPLOY / "monitoring"
    assert json.loads((folder / "dashboard.json").read_text()) == make_monitoring.dashboard()
    assert (folder / "alerts.yaml").read_text() == make_monitoring.alerts()


def test_they_name_metrics_and_labels_that_there_are(samples: dict[str, set[str]]) -> None:
    queries = [query for _, _, each in make_monitoring.PANELS for query, _ in each]
    queries += [alert[1] for alert in make_monitoring.ALERTS]
    named = set().union(*map(names_in, queries)) - {"up"}
    assert named - samples.keys() == set()
    for query in queries:
        labels = set(re.findall(r"(\w+)=~?\"", query)) | {
            label for part in re.findall(r"by \(([^)]*)\)", query) for label in part.split(", ")
        }
        assert labels <= LABELS
        for name in names_in(query) - {"up"}:
            assert labels <= samples[name] | {"job"}, (query, name)
    # Nothing that is counted is left out of both.
    counted = {name for name in samples if name.startswith("expunge_")}
    bases = {re.sub(r"_(total|bucket|count|sum|created)$", "", name) for name in counted}
    shown = {re.sub(r"_(total|bucket|count|sum|created)$", "", name) for name in named}
    assert bases - shown <= {"expunge_mirrors", "expunge_retention_entries"}


def test_the_configuration_is_of_options_that_there_are() -> None:
    from typer.main import get_command

    from expunge.cli.app import app
    from expunge.cli.configuration import CONFIGURED, _options

    root: Any = get_command(app)
    manifest = (DEPLOY / "kubernetes" / "expunge.yaml").read_text()
    (inside,) = re.findall(r"expunge\.toml: \|\n((?:    .*\n)+)", manifest)
    for text in ((DEPLOY / "expunge.toml").read_text(), re.sub(r"^    ", "", inside, flags=re.M)):
        for uncommented in (text, re.sub(r"^# (oidc-)", r"\1", text, flags=re.M)):
            tables = tomllib.loads(uncommented)
            assert set(tables) <= {"store", *CONFIGURED}
            for table, options in tables.items():
                assert _options(root if table == "store" else root.commands[table], options, table)


def test_the_image_is_made_of_files_that_there_are() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (DEPLOY.parent / source).exists(), line
    users = [line for line in lines if line.startswith("USER")]
    assert users == ["USER 10001:10001"]
    extras = re.search(r"/source\[([a-z,]+)\]", "\n".join(lines))
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    assert extras is not None
    assert set(extras.group(1).split(",")) <= project["optional-dependencies"].keys()
