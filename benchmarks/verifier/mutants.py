"""Files of every kind with something changed, each with the package's own verdict.

A case is a dictionary that `judge.js` takes, binary parts in base64, and the code that the package gives to it: that of
the first check which fails, or None. What is changed is signed again where that is possible, so that the check behind
the signature has to find it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from expunge.errors import InputError, MissingExtra, VerificationError
from expunge.ledger.certificate.contents import Contents, Proved, Revealed, open_contents, parse_contents
from expunge.ledger.certificate.html import html_file
from expunge.ledger.certificate.page import page_of
from expunge.ledger.checkpoint import (
    Checkpoint,
    parse_checkpoint,
    sign_checkpoint,
    verify_checkpoint,
    verify_cosignatures,
)
from expunge.ledger.encoding import dump_canonical
from expunge.ledger.envelope import (
    Envelope,
    EnvelopeSignature,
    open_statement,
    parse_envelope,
    read_envelope,
    verify_envelope,
)
from expunge.ledger.event import EVENT_TYPE, case_commitment, parse_event, subject_commitment
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.proof_file import InclusionProof, parse_inclusion_proof
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.note import NoteAlgorithm, NoteKey, NoteSignature, parse_note
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.signing import SigningKey, VerifyingKey
from expunge.ledger.statement import parse_statement
from expunge.ledger.verifying_key import KeyAlgorithm
from expunge.verify import certificate_document, verify_consistency, verify_evidence, verify_inclusion, verify_ledger
from expunge.verify.certificate_document import verify_certificate
from ledgers.lies import LIES, tell
from ledgers.model import ORIGIN as MODEL_ORIGIN
from ledgers.model_steps import honest
from verify.alter import DROP, leaves, members, objects, put, rebundle
from verify.cases import LOG_KEYS, LOGGER, ORIGIN, SIGNER, STRANGER, ledger

__all__ = ["KINDS", "Case", "cases"]

Case: TypeAlias = dict[str, Any]
NOW = 4_000_000_000
_PAE = b"DSSEv1 28 application/vnd.in-toto+json %d %b"
_CURVE_KEY = ec.derive_private_key(7, ec.SECP256R1())
_CURVE_PEM = _CURVE_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
_CURVE = VerifyingKey.from_pem(_CURVE_PEM)
# What the model signs leaves and heads with.
MODEL_KEYS = SigningKey.from_seed(bytes(range(32))), SigningKey.from_seed(bytes(range(1, 33)))
_WITNESSES = [SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2)]
_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        7,
        2**53 - 1,
        "",
        "x",
        "refused",
        "deletion",
        "decrement",
        "emptied",
        [],
        {},
        [1],
    ),
    *("0x1.0000000000000p-3", "0x1.0000000000000p+0", "ab" * 32, "2025-02-30T12:00:00Z", "2026-03-01T12:30:05Z"),
    *("423a5645-4bf3-4f36-a4f6-9d2f4100dff5", [{}], ["ab" * 32], {"live": 3, "pruned": 0}, 10**6, "legal_hold"),
)


def cases(kind: str, seed: int, count: int) -> Iterator[Case]:
    """That many cases of a kind."""
    rng = random.Random(f"{kind} {seed}")
    for _ in range(count):
        yield KINDS[kind](rng)


def encoded(data: bytes) -> str:
    """Base64."""
    return base64.b64encode(data).decode()


def code(check: Callable[[], object]) -> str | None:
    """The code of the error, if there is one."""
    try:
        check()
    except (VerificationError, InputError) as error:
        return error.code
    return None


def vkey(key: SigningKey, name: str = ORIGIN, kind: NoteAlgorithm = NoteAlgorithm.ED25519) -> str:
    """A verifier key as text."""
    return NoteKey(name, key.public, kind).to_text()


def scratched(rng: random.Random, data: bytes) -> bytes:
    """The bytes with one to three small changes: bits, bytes, pieces left out, doubled or moved."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(found)) if found else 0
        match rng.randrange(6):
            case 0:
                found[at : at + 1] = bytes([found[at] ^ (1 << rng.randrange(8))]) if found else b"x"
            case 1:
                del found[at : at + rng.choice((1, 1, 2, 9))]
            case 2:
                found[at:at] = bytes([rng.choice(b'{}[]",:\\ue0\n 9A=+/-x\x00\xff')])
            case 3:
                found[at:at] = found[at : at + rng.choice((1, 4, 20))]
            case 4:
                found = found[: rng.randrange(len(found) + 1)] if rng.random() < 0.3 else found
            case _:
                found[at : at + 1] = bytes([rng.choice(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJ")])
    return bytes(found)


def altered(rng: random.Random, document: Any, values: tuple[Any, ...] = _VALUES) -> Any:
    """JSON with one thing wrong, or two: a value replaced, a field dropped or added, two values exchanged."""
    found = document
    for _ in range(rng.choice((1, 1, 1, 2))):
        paths = [path for path, _ in leaves(found) if path]
        if not paths:
            break
        path = rng.choice(paths)
        act = rng.randrange(6)
        # The first change may have taken the last object.
        if act == 0 and (places := list(objects(found))):
            found = put(found, (*rng.choice(places), rng.choice(("extra", "time", "count"))), rng.choice(values))
        elif act == 1:
            found = put(found, path[: rng.randint(1, len(path))], DROP)
        elif act == 2:
            found = put(found, path, dict(leaves(found))[rng.choice(paths)])
        elif act == 3 and isinstance(number := dict(leaves(found))[path], int) and not isinstance(number, bool):
            found = put(found, path, number + rng.choice((-1, 1, 2, -number)))
        else:
            found = put(
                found, path[: rng.choice((len(path), len(path), rng.randint(1, len(path))))], rng.choice(values)
            )
    return found


def signature_of(key: SigningKey | ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    """By either algorithm."""
    return key.sign(message) if isinstance(key, SigningKey) else key.sign(message, ec.ECDSA(hashes.SHA256()))


def sealed(payload: bytes, *signers: tuple[str, SigningKey | ec.EllipticCurvePrivateKey]) -> bytes:
    """An envelope around any payload, signed under these key ids."""
    message = _PAE % (len(payload), payload)
    lines = tuple(EnvelopeSignature(name, signature_of(key, message)) for name, key in signers)
    return Envelope(payload, lines).to_bytes()


@cache
def pool() -> tuple[bytes, ...]:
    """Payloads of receipts and events of every kind."""
    found = [parse_envelope(each).payload for each in ledger().envelopes]
    for number in range(12):
        found += [leaf.to_statement().to_bytes() for leaf in honest(3, number).leaves]
    return tuple(found)


def open_leaf(data: bytes, trusted: list[VerifyingKey]) -> None:
    """What the page does with one leaf."""
    statement = open_statement(data, trusted)
    if statement.predicate_type == EVENT_TYPE:
        parse_event(statement)
    else:
        parse_predicate(statement)


def leaf_case(rng: random.Random) -> Case:
    """A receipt or an event with fields, bytes or signatures changed."""
    payload = rng.choice(pool())
    own, other = (SIGNER.public.key_id, SIGNER), (STRANGER.public.key_id, STRANGER)
    curve = (_CURVE.key_id, _CURVE_KEY)
    signers: list[Any] = rng.choice(
        ([own], [own], [own], [curve], [own, curve], [other], [other, own], [(own[0], STRANGER)])
    )
    act = rng.randrange(10)
    if act < 6:
        statement = json.loads(payload)
        at = rng.choice(("predicate", "predicate", "predicate", "subject", None))
        changed = altered(rng, statement) if at is None else {**statement, at: altered(rng, statement[at])}
        payload = dump_canonical(changed)
    elif act == 6:
        payload = scratched(rng, payload)
    data = sealed(payload, *signers)
    if act == 7:
        data = scratched(rng, data)
    elif act == 8:
        data = spoiled(rng, data)
    given = vkey(SIGNER) + "\n" + _CURVE_PEM.decode()
    return {
        "kind": "leaf",
        "trust": given,
        "file": encoded(data),
        "expected": code(lambda: open_leaf(data, [SIGNER.public, _CURVE])),
    }


def spoiled(rng: random.Random, data: bytes) -> bytes:
    """An envelope whose signatures are altered, exchanged or repeated, in canonical JSON."""
    document = json.loads(data)
    for line in document["signatures"]:
        raw = scratched(rng, base64.b64decode(line["sig"])) if rng.random() < 0.7 else b""
        line["sig"] = encoded(raw)
        if rng.random() < 0.2:
            line["keyid"] = rng.choice((line["keyid"][:-1], "", STRANGER.public.key_id, "ab" * 32))
    if rng.random() < 0.2:
        document["signatures"] *= rng.choice((0, 2, 17))
    return dump_canonical(document)


def receipt_case(rng: random.Random) -> Case:
    """A receipt that another program wrote down anew: fields, order, white space, base64 and key ids as DSSE allows."""
    made = rng.choice(list(ledger().cases.values()))
    document = json.loads(made.envelope)
    lines = document["signatures"]
    if rng.random() < 0.2:
        lines.append({"keyid": STRANGER.public.key_id, "sig": encoded(rng.randbytes(64))})
    for _ in range(rng.choice((0, 1, 1, 2))):
        line = rng.choice(lines)
        place = rng.choice((document, line))
        match rng.randrange(7):
            case 0:
                place[rng.choice(("extra", "Payload", "cert"))] = rng.choice((*_VALUES, 1.5, 10**20, [[{}]]))
            case 1:
                line.pop("keyid", None)
            case 2:
                line["keyid"] = rng.choice(("", None, "key 1", "\ud800", 7, STRANGER.public.key_id, "ab" * 32))
            case 3:
                lines.append(dict(line))
            case 4:
                place.pop(rng.choice(tuple(place)))
            case 5:
                place[rng.choice(tuple(place) or ("payload",))] = rng.choice((*_VALUES, 1.5))
            case _:
                line["sig"] = encoded(scratched(rng, base64.b64decode(line["sig"]))) if line.get("sig") else ""
        if not lines:
            break
    for place, name in ((document, "payload"), *((line, "sig") for line in lines)):
        if isinstance(text := place.get(name), str) and rng.random() < 0.5:
            place[name] = rng.choice((text.replace("+", "-").replace("/", "_"), text, text.rstrip("="), loosened(text)))
    names = rng.sample(list(document), len(document))
    text = json.dumps({name: document[name] for name in names}, indent=rng.choice((None, 1)), ensure_ascii=True)
    if rng.random() < 0.2:
        text = (
            text[:1]
            + rng.choice(('"payload":"",', '"x":NaN,', '"x":-Infinity,', '"x":1e999,', "\n\t", "[" * 40))
            + text[1:]
        )
    data = text.encode()
    if rng.random() < 0.3:
        data = scratched(rng, data)

    def check() -> None:
        envelope = read_envelope(data)
        verify_envelope(envelope, [SIGNER.public, LOGGER.public])
        statement = parse_statement(envelope.payload)
        parse_event(statement) if statement.predicate_type == EVENT_TYPE else parse_predicate(statement)
        verify_inclusion(envelope.to_bytes(), made.inclusion, LOG_KEYS, ORIGIN)

    return {
        "kind": "receipt",
        "trust": vkey(LOGGER) + "\n" + SIGNER.public.to_pem().decode(),
        "file": encoded(data),
        "proof": encoded(made.inclusion),
        "expected": code(check),
    }


def loosened(text: str) -> str:
    """The same bytes in base64 with other bits before the padding, if there is padding."""
    body = text.rstrip("=")
    if body == text:
        return text
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return body[:-1] + letters[letters.index(body[-1]) ^ 1] + text[len(body) :]


def inclusion_case(rng: random.Random) -> Case:
    """A proof of inclusion: bytes, index, path, head, or the receipt itself."""
    made = rng.choice(list(ledger().cases.values()))
    envelope, data = made.envelope, made.inclusion
    proof = parse_inclusion_proof(data)
    match rng.randrange(6):
        case 0 | 1:
            data = scratched(rng, data)
        case 2:
            data = replace(proof, index=rng.choice((0, proof.index + 1, proof.index ^ 1, 2**63 - 1))).to_bytes()
        case 3:
            path = list(proof.path)
            if path:
                path[rng.randrange(len(path))] = rng.randbytes(32)
            data = replace(
                proof, path=tuple(path[: rng.randrange(len(path) + 1)] if rng.random() < 0.3 else path)
            ).to_bytes()
        case 4:
            envelope = rng.choice(ledger().envelopes)
        case _:
            tree = ledger().tree()
            root = tree.root() if rng.random() < 0.5 else rng.randbytes(32)
            head = sign_checkpoint(
                Checkpoint(ORIGIN, len(ledger().envelopes) + rng.randint(-1, 1), root), rng.choice((LOGGER, STRANGER))
            )
            data = InclusionProof(made.index, tree.inclusion_path(made.index), head).to_bytes()
    expected = code(lambda: verify_inclusion(envelope, data, LOG_KEYS, ORIGIN))
    return {
        "kind": "inclusion",
        "trust": vkey(LOGGER),
        "file": encoded(envelope),
        "proof": encoded(data),
        "expected": expected,
    }


def head_case(rng: random.Random) -> Case:
    """A signed head with cosignatures, true, false, missing, early or late."""
    note = rng.choice(ledger().heads)
    names = ["one.example", "two.example"]
    for name, key in zip(names, _WITNESSES, strict=True):
        if rng.random() < 0.85:
            time = rng.choice((1_700_000_000, NOW - 600, NOW - 601, NOW + 299, NOW + 301, 2**63 - 1, 2**63 + 5))
            message = b"cosignature/v1\ntime %d\n" % time + note.text
            blob = time.to_bytes(8, "big") + key.sign(message)
            if rng.random() < 0.25:
                blob = scratched(rng, blob)
            line = NoteKey(name, key.public, NoteAlgorithm.COSIGNATURE_V1)
            note = note.with_signature(NoteSignature(name, line.key_id, blob))
    data = note.to_bytes()
    if rng.random() < 0.5:
        data = scratched(rng, data)
    known = [
        NoteKey(name, key.public, NoteAlgorithm.COSIGNATURE_V1) for name, key in zip(names, _WITNESSES, strict=True)
    ]
    known = known[: rng.randrange(3)]
    max_age = rng.choice((None, 600))

    def check() -> None:
        parsed = parse_note(data)
        verify_checkpoint(parsed, LOG_KEYS, ORIGIN)
        if known:
            verify_cosignatures(parsed, known, len(known), log_keys=LOG_KEYS, now=NOW, max_age=max_age)

    trust = "\n".join([vkey(LOGGER), *(key.to_text() for key in known)])
    given = {"trust": trust, "file": encoded(data), "now": NOW, "maxAge": max_age}
    return {"kind": "head", **given, "expected": code(check)}


def extension_case(rng: random.Random) -> Case:
    """An older head and a proof that the ledger grew since."""
    size = rng.randint(1, len(ledger().heads))
    kept, proof = (
        ledger().heads[size - 1].to_bytes(),
        ledger().extension(rng.choice((size, size, size, max(1, size - 1)))),
    )
    if rng.random() < 0.7:
        kept, proof = (kept, scratched(rng, proof)) if rng.random() < 0.7 else (scratched(rng, kept), proof)
    expected = code(lambda: verify_consistency(kept, proof, LOG_KEYS, ORIGIN))
    return {
        "kind": "extension",
        "trust": vkey(LOGGER),
        "file": encoded(kept),
        "proof": encoded(proof),
        "expected": expected,
    }


def bundle_case(rng: random.Random) -> Case:
    """An evidence bundle; what is numerical is not checked on either side."""
    made = rng.choice(list(ledger().cases.values()))
    data = made.evidence
    act = rng.randrange(6)
    if act == 0:
        data = scratched(rng, data)
    elif act < 3:
        values = (*_VALUES, "0x1.0000000000000p-1", "cd" * 32)
        data = rebundle(data, manifest=lambda manifest: altered(rng, manifest, values))
    elif act < 5:
        contents = members(data)
        name = rng.choice([each for each in contents if each != "manifest.json"])
        other = members(rng.choice(list(ledger().cases.values())).evidence).get(name)
        data = rebundle(
            data, {name: rng.choice((None, other, scratched(rng, contents[name]), scratched(rng, contents[name])))}
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("expunge.verify.evidence.verify_state", lambda *_, **__: None)
        patch.setattr("expunge.verify.evidence._check_proof", lambda _: None)
        expected = code(lambda: verify_evidence(data, [SIGNER.public]))
    return {"kind": "bundle", "trust": vkey(SIGNER), "file": encoded(data), "expected": expected}


def key_case(rng: random.Random) -> Case:
    """A public key: any 32 bytes, points of small order, other spellings of one, points of P-256, verifier keys."""
    small = (0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18, *_ORDER_EIGHT)
    match rng.randrange(5):
        case 0:
            text = pem("302a300506032b6570032100", rng.randbytes(32))
        case 1:
            number = rng.choice((*small, 2, 3, 4, 2**255 - 1)) | rng.choice((0, 1 << 255))
            text = pem("302a300506032b6570032100", number.to_bytes(32, "little"))
        case 2:
            point = bytearray(_CURVE.raw)
            point[rng.randrange(65)] ^= rng.choice((0, 1, 0x80))
            # The library that reads PEM calls a point off its curve malformed; the one that reads points is exact.
            text = pem("3059301306072a8648ce3d020106082a8648ce3d030107034200", bytes(point))
            expected = code(lambda: VerifyingKey(bytes(point), KeyAlgorithm.ECDSA_P256))
            return {"kind": "key", "trust": text, "expected": expected}
        case 3:
            text = scratched(rng, vkey(LOGGER).encode()).decode("utf-8", "replace").strip(" \t\r\n")
        case _:
            raw = rng.choice((rng.randbytes(32), rng.choice(small).to_bytes(32, "little"), rng.randbytes(1312)))
            name = rng.choice(("a.example", "a b", "é", ""))
            material = bytes([rng.choice((1, 1, 4, 2, 6))]) + raw
            shown = rng.randbytes(4).hex() if rng.random() < 0.3 else key_hash(name, material)
            text = f"{name}+{shown}+{encoded(material)}"
    return {"kind": "key", "trust": text, "expected": code(lambda: read_key(text))}


# Encodings of y of the points of order 8.
_ORDER_EIGHT = (
    2707385501144840649318225287225658788936804267575313519463743609750303021530,
    55188659117513257062467267217118295137698188065244968500265048394206261417927,
)


def pem(prefix: str, raw: bytes) -> str:
    """A public key in PEM."""
    return f"-----BEGIN PUBLIC KEY-----\n{encoded(bytes.fromhex(prefix) + raw)}\n-----END PUBLIC KEY-----"


def key_hash(name: str, material: bytes) -> str:
    """The id that a verifier key has."""
    return hashlib.sha256(name.encode() + b"\n" + material).digest()[:4].hex()


def read_key(text: str) -> None:
    """A key as the command line takes it; one of a witness may stand beside others and not alone."""
    if text.startswith("-----BEGIN"):
        VerifyingKey.from_pem(text.encode())
    elif text.split() != [text]:
        raise InputError("one key", code="verifier-key-malformed")
    elif NoteKey.from_text(text).algorithm.cosigns:
        raise InputError("a witness alone", code="signing-key-missing")


def ledger_case(rng: random.Random) -> Case:
    """A whole ledger: with one lie of a known class, or honest, or with leaves changed anyhow, and signed anew."""
    if rng.random() < 0.4:
        world = tell(rng.choice(list(LIES)), rng.randrange(10**6), rng.randrange(10**6))
        envelopes, head = world.signed()
    else:
        world = honest(rng.randrange(10**6), rng.randrange(10**6))
        envelopes, head = changed_ledger(rng, [leaf.to_statement().to_bytes() for leaf in world.leaves])
    seen = world.seen if rng.random() < 0.8 else []
    signer, log = MODEL_KEYS

    def check() -> None:
        # On the page every key that is given may sign leaves and heads.
        keys = [log.public, signer.public]
        log_keys = [NoteKey(MODEL_ORIGIN, key) for key in keys]
        verify_ledger(envelopes, head, keys, log_keys, MODEL_ORIGIN, now=NOW, seen=seen)

    return {
        "kind": "ledger",
        "trust": "\n".join([vkey(log, MODEL_ORIGIN), signer.public.to_pem().decode()]),
        "leaves": [encoded(envelope) for envelope in envelopes],
        "file": encoded(head),
        "seen": [{"size": str(kept.size), "root": encoded(kept.root), "time": time} for kept, time in seen],
        "now": NOW,
        "expected": code(check),
    }


def changed_ledger(rng: random.Random, payloads: list[bytes]) -> tuple[list[bytes], bytes]:
    """Leaves left out, repeated, exchanged, altered or mixed; and the head, which is seldom another one's."""
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2))):
        at, other = rng.randrange(len(payloads)), rng.randrange(len(payloads))
        match rng.randrange(9):
            case 0:
                del payloads[at : at + rng.choice((1, 1, 3))]
            case 1:
                payloads.insert(other, payloads[at])
            case 2:
                payloads[at], payloads[other] = payloads[other], payloads[at]
            case 3:
                payloads = payloads[:at] or payloads
            case 4 | 5:
                payloads[at] = grafted(rng, payloads[at], payloads[other])
            case 6:
                payloads.insert(other, fresh(rng, payloads[at]))
            case _:
                document = json.loads(payloads[at])
                payloads[at] = dump_canonical({**document, "predicate": altered(rng, document["predicate"])})
        if not payloads:
            payloads = [pool()[0]]
    signer, log = MODEL_KEYS
    envelopes = [sealed(payload, (signer.public.key_id, signer)) for payload in payloads]
    size, root = len(envelopes), HashTree([leaf_hash(envelope) for envelope in envelopes]).root()
    if rng.random() < 0.05:
        size, root = rng.choice(((size + 1, root), (size - 1, root), (size, rng.randbytes(32))))
    return envelopes, sign_checkpoint(Checkpoint(MODEL_ORIGIN, size, root), log).to_bytes()


def grafted(rng: random.Random, payload: bytes, other: bytes) -> bytes:
    """A statement with one part of another one's."""
    mine, theirs = json.loads(payload), json.loads(other)
    shared = [name for name in mine["predicate"] if name in theirs["predicate"] and name != "request"]
    for name in rng.sample(shared, min(len(shared), rng.choice((1, 1, 2)))):
        mine["predicate"][name] = theirs["predicate"][name]
    state = mine["predicate"].get("state")
    if state is not None and rng.random() < 0.8:
        named = [("state_after", state["after"]), ("state_before", state["before"])]
        mine["subject"] = [{"name": name, "digest": {"sha256": found}} for name, found in named if found is not None]
    return dump_canonical(mine)


def fresh(rng: random.Random, payload: bytes) -> bytes:
    """The same statement under another request, and sometimes at another edit."""
    document = json.loads(payload)
    predicate = document["predicate"]
    predicate["request"]["id"] = f"{rng.randrange(16**8):08x}-0000-4000-8000-{rng.randrange(16**12):012x}"
    if "edit" in predicate and rng.random() < 0.7:
        predicate["edit"] += rng.choice((1, 1, 2, -1)) if predicate["edit"] else 0
    return dump_canonical(document)


@cache
def authority() -> tuple[bytes, bytes, str]:
    """The text of a head, a time stamp over it, and the authority's root."""
    from rfc3161_client import TimestampRequestBuilder

    from witnessing.stamping_authority import make_authority, stamp

    text = ledger().heads[-1].text
    query = bytes(TimestampRequestBuilder(data=text, cert_req=True).build().as_bytes())
    with tempfile.TemporaryDirectory() as place:
        folder = make_authority(Path(place) / "tsa")
        return text, stamp(folder, query), (folder / "root.pem").read_text()


def stamp_case(rng: random.Random) -> Case:
    """A time stamp with bytes changed, or over another head."""
    from expunge.verify.timestamp import read_roots, verify_timestamp

    text, token, root = authority()
    data = scratched(rng, token) if rng.random() < 0.8 else token
    note = ledger().heads[-1 if rng.random() < 0.9 else 0]
    assert parse_checkpoint(text).origin == ORIGIN
    expected = code(lambda: verify_timestamp(note.to_bytes(), data, read_roots(root.encode())))
    trust = vkey(LOGGER) + "\n" + root
    return {
        "kind": "stamp",
        "trust": trust,
        "file": encoded(data),
        "text": encoded(note.text),
        "now": NOW,
        "expected": expected,
    }


def certificate_case(rng: random.Random) -> Case:
    """A certificate document, PDF or HTML: its data altered, or made of other leaves, texts and proofs, or its page."""
    world = honest(rng.randrange(40), rng.randrange(40))
    payloads = [leaf.to_statement().to_bytes() for leaf in world.leaves]
    texts = {what: Revealed(f"{what} 7", bytes([at]) * 32) for at, what in enumerate(("subject", "case", "actor"))}
    chosen = rng.randrange(len(payloads))
    summaries = [at for at, payload in enumerate(payloads) if b'"subject_erased"' in payload]
    if summaries and rng.random() < 0.6:
        chosen = rng.choice(summaries)
    document = json.loads(payloads[chosen])
    shown: dict[Any, Any] = {}
    predicate = document["predicate"]
    if rng.random() < 0.5:
        shown["case"] = texts["case"]
        predicate["request"]["case"] = case_commitment(texts["case"].salt, texts["case"].text)
    if predicate.get("event") == "subject_erased" and rng.random() < 0.7:
        shown["subject"] = texts["subject"]
        digest = subject_commitment(texts["subject"].salt, texts["subject"].text)
        document["subject"][0]["digest"]["sha256"] = digest
    payloads[chosen] = dump_canonical(document)
    signer, log = MODEL_KEYS
    envelopes = [sealed(payload, (signer.public.key_id, signer)) for payload in payloads]
    tree = HashTree([leaf_hash(envelope) for envelope in envelopes])
    note = sign_checkpoint(Checkpoint(MODEL_ORIGIN, len(envelopes), tree.root()), log)

    def proved(at: int) -> Proved:
        return Proved(envelopes[at], InclusionProof(at, tree.inclusion_path(at), note).to_bytes())

    parts = predicate["facts"]["memories"] if predicate.get("event") == "subject_erased" else []
    counted = sorted(part["leaf"] for part in parts if part["leaf"] is not None)
    memories = [predicate["memory"]] if predicate["memory"] else [part["memory"] for part in parts]
    names = {uuid: f"ward {at}" for at, uuid in enumerate(memories) if rng.random() < 0.5}
    if rng.random() < 0.1 and counted:
        counted = counted[1:]
    if rng.random() < 0.1:
        names["423a5645-4bf3-4f36-a4f6-9d2f4100dff5"] = rng.choice(("x", "a\u200db", "a\u202eb", "y" * 121))
    stamps = (b"\x30\x03\x02\x01\x00",) if rng.random() < 0.1 else ()
    data = Contents(proved(chosen), tuple(proved(at) for at in counted), names, shown, stamps).to_bytes()
    act = rng.randrange(4)
    if act == 1:
        data = scratched(rng, data)
    elif act == 2:
        data = dump_canonical(altered(rng, json.loads(data), (*_VALUES, "case 7", "case 8", "00" * 32)))
    file = paper_document(data) if rng.random() < 0.4 else shown_document(rng, data)
    if rng.random() < 0.1:
        file = scratched(rng, file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificate_document, "qr_code", no_qr_code)
        expected = code(lambda: verify_certificate(file, [signer.public, log.public], world.log_keys, MODEL_ORIGIN))
    trust = "\n".join([vkey(log, MODEL_ORIGIN), signer.public.to_pem().decode()])
    return {"kind": "certificate", "trust": trust, "file": encoded(file), "expected": expected}


def paper_document(data: bytes) -> bytes:
    """The data as a PDF carries them."""
    packed = zlib.compress(data)
    head = b"%%PDF-1.7\n1 0 obj\n<< /Type /EmbeddedFile /Length %d /Filter /FlateDecode >>\nstream\n" % len(packed)
    return head + packed + b"\nendstream\n"


def no_qr_code(_: str) -> tuple[int, str]:
    """The page's verifier computes no QR code, so neither does the package here."""
    raise MissingExtra("no QR code here")


# What is replaced in a page, and by what.
_ALTERATIONS: tuple[tuple[bytes, bytes], ...] = (
    (b"entries were removed", b"entries were kept"),
    (b"<dd>", b"<dd> "),
    (b"</h1>", b" (final)</h1>"),
    (b"<title>", b"<title>A "),
    (b'data-tone="', b'data-tone="erased'),
    (b'<section class="excludes">', b'<section class="excludes" hidden>'),
    (b"</main>", b"<p>All of it.</p></main>"),
    (b"</main>", b"</main><p>All of it.</p>"),
    (b"<body>", b"<body><h1>Certificate of erasure</h1>"),
    (b"</style>", b".excludes{display:none}</style>"),
    (b"</style>", b"</style><style>p{color:red}</style>"),
    (b"showResult();\n</script>", b"showResult()\n</script>"),
    (b"</body>", b"<script>document.title=1</script></body>"),
    (b"form-action 'none'", b"form-action *"),
    (b'data-state="unchecked"', b'data-state="undamaged"'),
    (b'viewBox="0 0 29 29"', b'viewBox="0 0 31 31"'),
    (b'viewBox="0 0 29 29"', b'viewBox="0 0 29 30"'),
    (b'd="M4 4h7v1h-7z"', b'd="M4 4h8v1h-8z"'),
    (b'd="M4 4h7v1h-7z"', b'd="M4 4h7v1h-7zl"'),
    (b"</html>", b"</html>\n"),
    (b"<!DOCTYPE html>\n", b"<!DOCTYPE html>"),
    (b"<!DOCTYPE html>", b"\xef\xbb\xbf<!DOCTYPE html>"),
)


def shown_document(rng: random.Random, data: bytes) -> bytes:
    """The data as HTML carries them, often with something else on the page."""
    try:
        page = page_of(open_contents(parse_contents(data)))
    except VerificationError:
        page = page_of(open_contents(parse_contents(sound_data())))
    file = html_file(page, data, (29, "M4 4h7v1h-7z"))
    act = rng.randrange(8)
    if act < 4:
        file = file.replace(*rng.choice(_ALTERATIONS), 1)
    elif act == 4:
        main = re.search(rb'<main id="page".*</main>', file, re.DOTALL)
        assert main is not None
        altered_main = scratched(rng, main[0])
        file = file.replace(main[0], altered_main).replace(digest(main[0]), digest(altered_main))
    elif act == 5:
        other = html_file(page_of(open_contents(parse_contents(sound_data()))), data, (29, "M4 4h7v1h-7z"))
        file = rng.choice((other, scratched(rng, file)))
    return file


def digest(data: bytes) -> bytes:
    """SHA-256, as it stands in a document."""
    return hashlib.sha256(data).hexdigest().encode()


@cache
def sound_data() -> bytes:
    """The data of some document."""
    made = ledger().cases["ward-decrement"]
    return Contents(Proved(made.envelope, made.inclusion)).to_bytes()


KINDS: dict[str, Callable[[random.Random], Case]] = {
    "leaf": leaf_case,
    "receipt": receipt_case,
    "inclusion": inclusion_case,
    "head": head_case,
    "extension": extension_case,
    "bundle": bundle_case,
    "key": key_case,
    "certificate": certificate_case,
    "ledger": ledger_case,
    "stamp": stamp_case,
}
