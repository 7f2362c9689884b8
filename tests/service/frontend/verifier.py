"""The browser's verifier, and how its verdicts are compared with the package's."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page

from expunge.errors import VerificationError
from expunge.ledger.note import NoteKey
from expunge.ledger.signing import SigningKey
from verify.cases import ORIGIN

HARNESS = """async ({ cases, trust }) => {
  const { verifyLeaf } = await import("/page/verify/steps.js");
  const verdicts = [];
  for (const [envelope, proof] of cases) {
    const { failed } = await verifyLeaf({ envelope, proof, trust });
    verdicts.push(failed === null ? null : failed.name);
  }
  return verdicts;
}"""


def name_of(check: Callable[..., object], *arguments: Any) -> str | None:
    try:
        check(*arguments)
    except VerificationError as error:
        return error.code
    return None


def vkey(key: SigningKey) -> str:
    return NoteKey(ORIGIN, key.public).to_text()


def browser_says(page: Page, cases: list[tuple[str, str]], trust: str) -> list[str | None]:
    verdicts: list[str | None] = page.evaluate(HARNESS, {"cases": cases, "trust": trust})
    return verdicts


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
