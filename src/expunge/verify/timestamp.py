"""When a head existed, by an RFC 3161 time stamp: verified offline against given root certificates.

Format: ``docs/formats/timestamp.md``. The stamp is over the text of the head's note, without signatures, so the same
stamp holds for every cosigned copy of the head. Parsing and the CMS signature are `rfc3161-client`'s (extra:
timestamp), which checks certificates as of the stamped time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from expunge.errors import InputError, MissingExtra, VerificationError
from expunge.ledger.note import parse_note

if TYPE_CHECKING:
    from rfc3161_client import TimeStampResponse

__all__ = ["MAX_TIMESTAMP_BYTES", "Timestamp", "load_library", "parse_timestamp", "read_roots", "verify_timestamp"]

MAX_TIMESTAMP_BYTES = 64 * 1024
# How far an authority's clock may run ahead of ours.
_CLOCK_SKEW = 300
# By the object identifiers of RFC 5754.
_HASHES = {"2.16.840.1.101.3.4.2.1": "sha256", "2.16.840.1.101.3.4.2.2": "sha384", "2.16.840.1.101.3.4.2.3": "sha512"}
# What the libraries raise at bytes that are no certificate, among them names of unknown string types.
_UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    OverflowError,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


@dataclass(frozen=True)
class Timestamp:
    """What an authority stated: when the head existed at the latest, and who said so.

    ``time`` is in UTC; ``authority`` the subject of the certificate that signed, by RFC 4514; ``serial`` the stamp's
    number with that authority; ``policy`` the object identifier of the authority's policy.
    """

    time: datetime
    authority: str
    serial: int
    policy: str


def verify_timestamp(
    head: bytes,
    token: bytes,
    roots: Sequence[x509.Certificate],
    *,
    intermediates: Sequence[x509.Certificate] = (),
    now: datetime | None = None,
) -> Timestamp:
    """Check that an authority below `roots` stamped this head, and say when.

    Parameters
    ----------
    head
        The signed note of a checkpoint, with or without cosignatures. Its own signatures are not checked here.
    token
        The authority's answer, a DER TimeStampResp.
    roots
        Certificates of the authorities that are trusted (`read_roots`).
    intermediates
        Certificates between authority and root that the stamp does not carry.
    now
        Aware; a stamp more than five minutes later is refused. Without it no time is too late.

    Raises
    ------
    VerificationError
        ``timestamp-*``: the first thing that is wrong. Codes are those of the format's page.
    MissingExtra
        The extra ``timestamp`` is not installed.

    """
    library = load_library()
    if not roots:
        raise InputError("a time stamp is verified against root certificates; none is given")
    text = parse_note(head).text
    response = parse_timestamp(token)
    stated = response.tst_info
    imprint = stated.message_imprint
    name = _HASHES.get(imprint.hash_algorithm.dotted_string)
    if name is None:
        raise VerificationError(
            f"the stamp is over a hash of type {imprint.hash_algorithm.dotted_string}; SHA-256, SHA-384 and SHA-512 "
            "are accepted",
            code="timestamp-hash-unsupported",
        )
    if imprint.message != hashlib.new(name, text).digest():
        raise VerificationError("the time stamp is over another head", code="timestamp-imprint-mismatch")
    authority = _signing_authority(response)
    builder = library.VerifierBuilder(roots=list(roots), intermediates=list(intermediates))
    try:
        builder.build().verify_message(response, text)
    except library.VerificationError as problem:
        untrusted = "certificate verify error" in str(problem)
        raise VerificationError(
            f"no given root certificate vouches for {authority} at the stamped time"
            if untrusted
            else "the signature is not over this time stamp",
            code="timestamp-signer-untrusted" if untrusted else "timestamp-signature-invalid",
        ) from None
    except _UNREADABLE as problem:
        raise VerificationError(
            f"a certificate in the time stamp cannot be read: {str(problem)[:120]}", code="timestamp-malformed"
        ) from None
    time = stated.gen_time.astimezone(UTC)
    if now is not None and (time - now).total_seconds() > _CLOCK_SKEW:
        raise VerificationError(f"the head was stamped at {time}, which is after {now}", code="timestamp-from-future")
    return Timestamp(time, authority, stated.serial_number, stated.policy.dotted_string)


def parse_timestamp(token: bytes) -> TimeStampResponse:
    """Read an authority's answer, which must be DER and granted. Nothing in it is verified here."""
    library = load_library()
    if len(token) > MAX_TIMESTAMP_BYTES:
        raise VerificationError(
            f"a time stamp of {len(token)} bytes exceeds the limit of {MAX_TIMESTAMP_BYTES}", code="timestamp-malformed"
        )
    try:
        response: TimeStampResponse = library.decode_timestamp_response(token)
        granted = response.status == library.tsp.PKIStatus.GRANTED
        texts = "" if granted else "; ".join(response.status_string)
        # The library reads these when they are first asked for.
        if granted:
            _ = (response.tst_info.gen_time, response.signed_data.certificates, response.signed_data.signer_infos)
        canonical = response.as_bytes() == token
    except _UNREADABLE as problem:
        raise VerificationError(
            f"the bytes are not an RFC 3161 time stamp: {str(problem)[:120]}", code="timestamp-malformed"
        ) from None
    if not granted:
        raise VerificationError(
            f"the authority did not grant the stamp: status {response.status}{': ' + texts if texts else ''}",
            code="timestamp-not-granted",
        )
    if not canonical:
        raise VerificationError("the time stamp is not DER", code="timestamp-malformed")
    return response


def read_roots(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Certificates in PEM, one or more."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except ValueError:
        raise InputError("not a PEM file with certificates; give the authority's root certificate") from None


def load_library() -> ModuleType:
    """The module `rfc3161_client`; MissingExtra without it."""
    try:
        import rfc3161_client
        import rfc3161_client.tsp
    except ImportError as error:
        raise MissingExtra("time stamps need a library for RFC 3161: pip install 'expunge[timestamp]'") from error
    return rfc3161_client


def _signing_authority(response: TimeStampResponse) -> str:
    """The subject of the certificate that the signature names: exactly one, and for time stamps alone."""
    infos = response.signed_data.signer_infos
    if len(infos) != 1:
        raise VerificationError(f"{len(infos)} parties signed the stamp; one must", code="timestamp-signer-ambiguous")
    (info,) = infos
    authority = ""
    try:
        carried = [x509.load_der_x509_certificate(der) for der in response.signed_data.certificates]
        # Two certificates of one name and number would let one sign while the purpose of the other is looked at.
        named = [c for c in carried if c.issuer == info.issuer and c.serial_number == info.serial_number]
        purposes = None
        if len(named) == 1:
            authority = named[0].subject.rfc4514_string()
            purposes = named[0].extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    except x509.ExtensionNotFound:
        purposes = None
    except _UNREADABLE as problem:
        raise VerificationError(
            f"a certificate in the time stamp cannot be read: {str(problem)[:120]}", code="timestamp-malformed"
        ) from None
    if len(named) != 1:
        raise VerificationError(
            f"the stamp carries {len(named)} certificates of its signer; it must carry one (ask for it with certReq)",
            code="timestamp-signer-ambiguous",
        )
    if purposes is None or not purposes.critical or list(purposes.value) != [ExtendedKeyUsageOID.TIME_STAMPING]:
        raise VerificationError(
            f"the certificate of {authority} is not for time stamps alone",
            code="timestamp-signer-purpose",
        )
    return authority
