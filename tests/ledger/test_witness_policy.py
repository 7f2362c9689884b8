"""Policy files: what they ask for, and each rule that a file can break."""

from __future__ import annotations

import itertools

import pytest

from expunge.errors import InputError, VerificationError
from expunge.ledger.checkpoint import Checkpoint, Witness, sign_checkpoint, verify_cosignatures
from expunge.ledger.mldsa import MldsaSigningKey
from expunge.ledger.note import NoteKey
from expunge.ledger.signing import SigningKey
from expunge.ledger.witness_policy import WitnessPolicy, parse_policy

LOG = SigningKey.from_seed(b"\x01" * 32)
LOG_KEY = NoteKey("log.example", LOG.public)
WITNESSES = {
    name: Witness(
        f"witness.example/{name}", MldsaSigningKey.from_seed(seed) if name == "Y1" else SigningKey.from_seed(seed)
    )
    for name, seed in ((name, bytes([number]) * 32) for number, name in enumerate(("X1", "X2", "X3", "Y1", "Y2"), 2))
}
KEYS = {name: witness.verifier.to_text() for name, witness in WITNESSES.items()}
NESTED = f"""# Two organisations.
log {LOG_KEY.to_text()}

witness X1 {KEYS["X1"]} https://x.example/1
\twitness\tX2  {KEYS["X2"]}
witness X3 {KEYS["X3"]}
group X 2 X1 X2 X3
witness Y1 {KEYS["Y1"]}
witness Y2 {KEYS["Y2"]}
group Y any Y1 Y2
group both all X Y
quorum both
"""


def policy(text: str) -> WitnessPolicy:
    return parse_policy(text.encode())


def test_groups_of_groups() -> None:
    """Every set of witnesses, against the rule in words: two of X and one of Y."""
    found = policy(NESTED)
    note = sign_checkpoint(Checkpoint("log.example", 8, b"\x07" * 32), LOG)
    for cosigned in itertools.chain.from_iterable(itertools.combinations(WITNESSES, count) for count in range(6)):
        expected = sum(name in cosigned for name in ("X1", "X2", "X3")) >= 2 and bool({"Y1", "Y2"} & set(cosigned))
        assert found.is_met([WITNESSES[name].verifier for name in cosigned]) == expected
        signed = note
        for name in cosigned:
            signed = signed.with_signature(WITNESSES[name].cosignature(note.text, 1))
        if expected:
            verify_cosignatures(signed, found.keys, found, log_keys=[LOG_KEY])
        else:
            with pytest.raises(VerificationError) as caught:
                verify_cosignatures(signed, found.keys, found, log_keys=[LOG_KEY])
            assert caught.value.code == "cosignature-quorum-missed"


def test_what_a_policy_says() -> None:
    found = policy(NESTED)
    assert found.logs == (LOG_KEY,)
    assert [witness.url for witness in found.witnesses.values()] == ["https://x.example/1", None, None, None, None]
    assert policy("quorum none\n").is_met([])
    assert policy(f"witness none-of-it {KEYS['X1']}\nquorum none-of-it\n").quorum == "none-of-it"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 0),
        ("quorum none", 0),
        ("quorum none\r\n", 0),
        ("quorum none\nquorum none\n", 2),
        ("quorum w\n", 1),
        ("quorum\n", 1),
        ("quorum none none\n", 1),
        ("witnesses w\n", 1),
        (f"witness w\nwitness w {KEYS['X1']}\n", 1),
        (f"witness w {KEYS['X1']}\nwitness w {KEYS['X2']}\n", 2),
        (f"witness w {KEYS['X1']}\nwitness v {KEYS['X1']}\n", 2),
        (f"witness none {KEYS['X1']}\n", 1),
        (f"witness w {LOG_KEY.to_text()}\n", 1),
        (f"witness w {KEYS['X1'][:-4]}\n", 1),
        (f"log {KEYS['X1']}\n", 1),
        (f"log {LOG_KEY.to_text()}\nlog {LOG_KEY.to_text()}\n", 2),
        (f"witness w {KEYS['X1']}\ngroup g any w v\n", 2),
        (f"witness w {KEYS['X1']}\ngroup g any w w\n", 2),
        (f"witness w {KEYS['X1']}\ngroup g 2 w\n", 2),
        (f"witness w {KEYS['X1']}\ngroup g 0 w\n", 2),
        (f"witness w {KEYS['X1']}\ngroup g some w\n", 2),
        (f"witness w {KEYS['X1']}\ngroup g any\n", 2),
        (f"witness w {KEYS['X1']}\ngroup w any w\n", 2),
        (f"witness w {KEYS['X1']}\ngroup g any w\ngroup h any w\n", 3),
        (f"witness w {KEYS['X1']}\ngroup g any none\n", 2),
        ("#" * 300_000 + "\nquorum none\n", 0),
    ],
)
def test_every_rule(text: str, line: int) -> None:
    with pytest.raises(InputError) as caught:
        policy(text)
    assert caught.value.code == "witness-policy-invalid"
    assert (f"line {line} " in str(caught.value)) == bool(line)


def test_names_may_be_bytes_of_any_kind() -> None:
    data = b"witness \xff\xfe " + KEYS["X1"].encode() + b"\nquorum \xff\xfe\n"
    assert parse_policy(data).is_met([WITNESSES["X1"].verifier])
