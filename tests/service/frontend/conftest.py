"""Fixtures of the page's tests: one service, one browser, and a fresh visit per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from service.frontend.browser import RunningService, Visitor, launched, serving, visiting

REPORT = "<!doctype html><html lang=en><title>Report</title><h1>Audit of the paper's experiments</h1>"


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """The service, with memories and a report."""
    folder = tmp_path_factory.mktemp("page")
    report = folder / "report.html"
    report.write_text(REPORT, encoding="utf-8")
    with serving(folder, report=report) as running:
        yield running


@pytest.fixture(scope="package")
def window() -> Iterator[Browser]:
    """The browser."""
    with launched() as browser:
        yield browser


@pytest.fixture
def visitor(window: Browser, site: RunningService) -> Iterator[Visitor]:
    """A visit that is signed in; afterwards its traffic is checked."""
    with visiting(window, site) as visit:
        yield visit
        visit.check_traffic()


@pytest.fixture(scope="module")
def page(window: Browser, site: RunningService) -> Iterator[Page]:
    """The page, open where receipts are verified."""
    with visiting(window, site, token=None) as visitor:
        visitor.go("#/verify")
        yield visitor.page
