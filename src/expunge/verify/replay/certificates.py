"""What receipts say of the certificates of forgotten entries, against what these rest on.

The certificates of one forgetting rest on every entry that it left live. The first of these to be erased or forgotten
ends them all, and so do a refit and a rebuild.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from expunge.ledger.receipt_format import Predicate
from expunge.verify.replay.contradiction import Place
from expunge.verify.replay.entry_table import EntryTable

__all__ = ["check_certificates"]


def check_certificates(place: Place, table: EntryTable, receipt: Predicate, over: Collection[int]) -> None:
    """Check the certificates that a receipt names; ``over`` are the forgettings that its edit ends."""
    _check_named(place, table, receipt.ended.commitments)
    due, stated = table.end(over), set(receipt.ended.commitments)
    if kept := sorted(due - stated):
        raise place.contradiction(
            "ledger-certificate-kept",
            f"{len(kept)} certificates rest on what it took away, and do not end: {kept[0]}",
        )
    if unfounded := sorted(stated - due):
        raise place.contradiction(
            "ledger-certificate-unfounded", f"{unfounded[0]} ends, and nothing that it rests on went"
        )
    turned = ((receipt.expired.commitments, False), (receipt.renewed.commitments, True))
    for names, valid in turned:
        _check_named(place, table, names)
        for name in names:
            if table.now[name].valid is valid:
                said = "is valid already" if valid else "has expired already"
                raise place.contradiction("ledger-certificate-status", f"the certificate of {name} {said}")
    if both := set(receipt.expired.commitments).intersection(receipt.renewed.commitments):
        raise place.contradiction("ledger-certificate-status", f"the certificate of {min(both)} expires and is renewed")
    for names, valid in turned:
        for name in names:
            table.state_validity(name, valid)


def _check_named(place: Place, table: EntryTable, names: Iterable[str]) -> None:
    for name in names:
        found = table.now.get(name)
        if found is None or found.status != "forgotten":
            status = "not there" if found is None else found.status
            raise place.contradiction("ledger-certificate-unknown", f"a certificate of {name}, which is {status}")
        if found.anchor is None:
            raise place.contradiction("ledger-certificate-ended", f"the certificate of {name} ended before")
