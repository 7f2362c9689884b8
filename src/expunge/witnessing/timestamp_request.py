"""Asks a time-stamping authority (RFC 3161, over HTTP) to stamp a head.

The answer is checked before it is returned: it is granted, over this head, and to this request's nonce. With root
certificates it is verified as a whole; a stamp that is kept unverified may turn out to be worthless later.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from cryptography import x509

from expunge.errors import VerificationError
from expunge.ledger.note import parse_note
from expunge.verify.timestamp import MAX_TIMESTAMP_BYTES, load_library, parse_timestamp, verify_timestamp
from expunge.witnessing.post import post

__all__ = ["request_timestamp"]


def request_timestamp(head: bytes, url: str, roots: Sequence[x509.Certificate] = (), *, timeout: float = 10.0) -> bytes:
    """The answer of the authority at `url`, a DER TimeStampResp over the SHA-256 of the head's text.

    Parameters
    ----------
    head
        The signed note of a checkpoint.
    url
        The authority's address, http or https.
    roots
        Certificates to verify the answer against, as `expunge.verify.timestamp.verify_timestamp` does.
    timeout
        Seconds for the whole exchange.

    Raises
    ------
    StoreError
        ``server-unreachable``.
    VerificationError
        ``timestamp-*``: what is wrong with the answer.

    """
    library = load_library()
    text = parse_note(head).text
    query = library.TimestampRequestBuilder(data=text, hash_algorithm=library.HashAlgorithm.SHA256).build()
    answer = post(url, query.as_bytes(), "application/timestamp-query", timeout=timeout, limit=MAX_TIMESTAMP_BYTES)
    if answer.status != 200 or answer.media_type != "application/timestamp-reply":
        raise VerificationError(
            f"{url} answered {answer.status} {answer.media_type}, not application/timestamp-reply",
            code="timestamp-answer-unexpected",
        )
    response = parse_timestamp(answer.body)
    stated = response.tst_info
    if stated.nonce != query.nonce:
        raise VerificationError("the answer is to another request", code="timestamp-nonce-mismatch")
    if stated.message_imprint.message != query.message_imprint.message:
        raise VerificationError("the time stamp is over another head", code="timestamp-imprint-mismatch")
    if roots:
        verify_timestamp(head, answer.body, roots, now=datetime.now(UTC))
    return answer.body
