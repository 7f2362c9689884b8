"""Flip every byte of a certificate document's page and data, one bit each, and ask its own script in Chromium.

    python benchmarks/certificate_damage.py [--bits]

Prints how many flips the script finds. Within tags it need not find all: a browser repairs ``</Dd>`` before a script
sees it, and the page is the one that it was. ``--bits`` flips each of the eight bits. A verifier compares the file.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import Any

from attestation.certificate_ledger import LOG_KEY, ORIGIN, SIGNER, document, full_ledger
from attestation.flipped_bytes import covered, undetected
from expunge.attestation.certificate_document import certificate_html
from expunge.errors import VerificationError
from expunge.verify.certificate_document import verify_certificate
from record import describe, write_result
from service.frontend.browser import launched

CHUNK = 2000
SAMPLE = 600


def main() -> None:
    """Flip, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bits", action="store_true", help="flip each bit of each byte")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "certificate_damage.json")
    given = parser.parse_args()
    every, report = given.bits, dict[str, Any](machine=describe(), bits=8 if given.bits else 1)
    ledger, leaves = full_ledger()
    file = certificate_html(document(ledger, "requested", leaves["requested"]))
    shown, tags = covered(file)
    chosen = random.Random(7)
    with launched() as browser:
        page = browser.new_page()
        for what, places in (("texts and data", shown), ("tags", tags)):
            began, missed = time.perf_counter(), 0
            flips = [(at, mask) for at in places for mask in _masks(chosen, every)]
            for first in range(0, len(flips), CHUNK):
                missed += len(undetected(page, file, flips[first : first + CHUNK]))
            took = time.perf_counter() - began
            report[what] = {"flips": len(flips), "found": len(flips) - missed}
            print(f"script: {len(flips) - missed} of {len(flips)} flips in {what} found, {took:.0f} s")
    sampled = chosen.sample(range(len(file)), SAMPLE)
    accepted = [at for at in sampled if _verifies(file, at, 1 << chosen.randrange(8))]
    print(f"verifier: {SAMPLE - len(accepted)} of {SAMPLE} flips anywhere in the file found")
    report["verifier"] = {"flips": SAMPLE, "found": SAMPLE - len(accepted)}
    write_result(given.out, report)
    raise SystemExit(1 if accepted or report["texts and data"]["found"] < report["texts and data"]["flips"] else 0)


def _masks(chosen: random.Random, every: bool) -> list[int]:
    return [1 << bit for bit in range(8)] if every else [1 << chosen.randrange(8)]


def _verifies(file: bytes, at: int, mask: int) -> bool:
    flipped = bytearray(file)
    flipped[at] ^= mask
    try:
        verify_certificate(bytes(flipped), [SIGNER.public], [LOG_KEY], ORIGIN)
    except VerificationError:
        return False
    return True


if __name__ == "__main__":
    main()
