"""One service, one browser, and a fresh visit for each test: fixtures of the page's tests, shared by their modules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from service.browser import Service, Visitor, launched, serving, visiting

REPORT = "<!doctype html><html lang=en><title>Report</title><h1>Audit of the paper's experiments</h1>"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service, with memories and a report."""
    folder = tmp_path_factory.mktemp("page")
    report = folder / "report.html"
    report.write_text(REPORT, encoding="utf-8")
    with serving(folder, report=report) as running:
        yield running


@pytest.fixture(scope="session")
def window() -> Iterator[Browser]:
    """The browser."""
    with launched() as browser:
        yield browser


@pytest.fixture
def visitor(window: Browser, site: Service) -> Iterator[Visitor]:
    """A visit that is signed in; whatever a test does on it, it stays at home."""
    with visiting(window, site) as visit:
        yield visit
        visit.stayed_at_home()
