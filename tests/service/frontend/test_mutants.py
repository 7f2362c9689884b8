"""A sample of the files on which page and package must agree; `benchmarks/verifier_mutants.py` has all of them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from playwright.sync_api import Page

from verifier import mutants

JUDGE = Path(mutants.__file__).with_name("judge.js").read_text(encoding="utf-8")
SCRIPT = f"""async (cases) => {{
  const make = async (load) => {{ {JUDGE} }};
  const judge = await make((name) => import(`/page/${{name}}`));
  const verdicts = [];
  for (const found of cases) verdicts.push(await judge(found));
  return verdicts;
}}"""
COUNTS = {
    "leaf": 80,
    "receipt": 40,
    "inclusion": 30,
    "head": 30,
    "extension": 20,
    "bundle": 30,
    "key": 30,
    "certificate": 60,
    "ledger": 12,
    "stamp": 24,
}


@pytest.mark.parametrize("kind", mutants.KINDS)
def test_the_page_and_the_package_give_the_same_verdict(
    page: Page, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "expunge")
    cases = list(mutants.cases(kind, 1, COUNTS[kind]))
    expected = [case.pop("expected") for case in cases]
    found = page.evaluate(SCRIPT, cases)
    if kind == "stamp":  # judged by two libraries that read DER differently: the verdict counts
        expected, found = ([verdict is None for verdict in each] for each in (expected, found))
    assert found == expected
    assert len(set(expected)) > (1 if kind == "stamp" else 2)
