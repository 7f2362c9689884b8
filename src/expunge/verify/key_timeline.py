"""Which keys may sign the next leaf of a ledger, and its head.

Format: ``docs/formats/signing-key.md``, "Keys in the ledger". A verifier starts with the keys that it trusts, and
follows the events ``key_added`` and ``key_revoked``, each of which a key that is valid at that leaf has signed. A key
that was revoked signs no later leaf, and never becomes valid again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import decode_base64
from expunge.ledger.event import Event, KeyUse
from expunge.ledger.verifying_key import KeyAlgorithm, VerifyingKey

__all__ = ["KeyTimeline", "added_key"]


@dataclass
class KeyTimeline:
    """The keys of a ledger after the leaves that were followed."""

    valid: dict[tuple[KeyUse, str], VerifyingKey] = field(default_factory=dict)
    revoked: dict[tuple[KeyUse, str], VerifyingKey] = field(default_factory=dict)

    @classmethod
    def of(cls, receipts: Iterable[VerifyingKey], heads: Iterable[VerifyingKey]) -> KeyTimeline:
        """Return the timeline of an empty ledger.

        Parameters
        ----------
        receipts, heads
            The keys that the verifier trusts to sign leaves, and heads.

        Returns
        -------
        KeyTimeline
            Call :meth:`follow` with each event of the ledger, in order.

        """
        found = cls()
        for use, keys in (("receipts", receipts), ("heads", heads)):
            found.valid.update({(cast(KeyUse, use), key.digest): key for key in keys})
        return found

    def keys(self, use: KeyUse, *, ever: bool = False) -> list[VerifyingKey]:
        """Return the keys that may sign the next leaf, or the head of these leaves; with `ever`, all so far."""
        known = {**self.revoked, **self.valid} if ever else self.valid
        return [key for (of, _), key in known.items() if of == use]

    def follow(self, index: int, event: Event) -> None:
        """Take up the event in leaf ``index``; its envelope was verified with ``keys("receipts")`` before.

        Raises
        ------
        VerificationError
            The event adds a key that it misstates, or that is or was known, or revokes one that is not valid, or the
            last of its use.

        """
        if event.kind == "key_added":
            use, key = cast(KeyUse, event.facts["use"]), added_key(index, event)
            if (use, key.digest) in self.valid or (use, key.digest) in self.revoked:
                raise VerificationError(
                    f"leaf {index}: key {key.key_id} is or was a key for {use} already", code="ledger-key-repeated"
                )
            self.valid[use, key.digest] = key
        elif event.kind == "key_revoked":
            use, digest = cast(KeyUse, event.facts["use"]), str(event.facts["keyid"])
            if event.subject.sha256 != digest:
                raise VerificationError(f"leaf {index}: the event is about another key", code="ledger-key-malformed")
            if (use, digest) not in self.valid:
                raise VerificationError(f"leaf {index}: {digest} is no valid key for {use}", code="ledger-key-unknown")
            if len(self.keys(use)) == 1:
                raise VerificationError(
                    f"leaf {index}: without {digest} there is no key for {use} left", code="ledger-key-last"
                )
            self.revoked[use, digest] = self.valid.pop((use, digest))


def added_key(index: int, event: Event) -> VerifyingKey:
    """Return the key that a ``key_added`` event states."""
    facts = event.facts
    try:
        key = VerifyingKey(decode_base64(str(facts["key"])) or b"", KeyAlgorithm(facts["algorithm"]))
    except InputError as problem:
        raise VerificationError(f"leaf {index}: {problem}", code="ledger-key-malformed") from None
    of_heads = facts["use"] == "heads" and key.algorithm is not KeyAlgorithm.ED25519
    if of_heads or not facts["keyid"] == event.subject.sha256 == key.digest:
        raise VerificationError(
            f"leaf {index}: the added key is not {facts['keyid']}, or cannot sign {facts['use']}",
            code="ledger-key-malformed",
        )
    return key
