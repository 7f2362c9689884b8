"""Which witnesses must have cosigned a head: policy files (c2sp.org/tlog-policy).

Format: ``docs/formats/witness-policy.md``. Lines name logs, witnesses with their verifier keys and addresses, groups of
them with a threshold, and the one witness or group whose cosignatures are the quorum. No name is in two groups, so no
witness counts twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from expunge.errors import InputError
from expunge.ledger.encoding import decode_decimal
from expunge.ledger.note import NoteKey

__all__ = ["MAX_POLICY_BYTES", "PolicyWitness", "WitnessPolicy", "parse_policy"]

MAX_POLICY_BYTES = 256 * 1024
_NONE = "none"


@dataclass(frozen=True, slots=True)
class PolicyWitness:
    """A witness's verifier key, and the address that heads are submitted to, where the policy has one."""

    key: NoteKey
    url: str | None = None


@dataclass(frozen=True, slots=True)
class WitnessPolicy:
    """A quorum of witnesses.

    ``logs`` are the verifier keys of the logs that the policy names, ``witnesses`` and ``groups`` are by their names in
    the policy; a group is a threshold and its members. ``quorum`` is one of these names, or ``none``.
    """

    logs: tuple[NoteKey, ...]
    witnesses: Mapping[str, PolicyWitness]
    groups: Mapping[str, tuple[int, tuple[str, ...]]]
    quorum: str

    @property
    def keys(self) -> tuple[NoteKey, ...]:
        """The verifier keys of all witnesses."""
        return tuple(witness.key for witness in self.witnesses.values())

    def is_met(self, cosigned: Collection[NoteKey]) -> bool:
        """Say whether cosignatures by these keys are the quorum."""
        publics = {key.public for key in cosigned}

        def met(name: str) -> bool:
            if name in self.witnesses:
                return self.witnesses[name].key.public in publics
            threshold, members = self.groups[name]
            return sum(met(member) for member in members) >= threshold

        return self.quorum == _NONE or met(self.quorum)


def parse_policy(data: bytes) -> WitnessPolicy:
    """Read a policy file; a line that is not of the format is an InputError with the line's number."""
    if len(data) > MAX_POLICY_BYTES:
        raise _invalid(0, f"the file exceeds {MAX_POLICY_BYTES} bytes")
    logs: list[NoteKey] = []
    witnesses: dict[str, PolicyWitness] = {}
    groups: dict[str, tuple[int, tuple[str, ...]]] = {}
    grouped: set[str] = set()
    quorum = None
    for number, line in enumerate(_lines(data), 1):
        word, *rest = line.replace("\t", " ").strip(" ").split(" ")
        rest = [item for item in rest if item]
        if not word or word.startswith("#"):
            continue
        if word == "log" and len(rest) in (1, 2):
            logs.append(_key(number, rest[0], (*logs, *(found.key for found in witnesses.values())), cosigns=False))
        elif word == "witness" and len(rest) in (2, 3):
            _check_new(number, rest[0], witnesses, groups)
            known = (*logs, *(found.key for found in witnesses.values()))
            witnesses[rest[0]] = PolicyWitness(_key(number, rest[1], known, cosigns=True), *rest[2:])
        elif word == "group" and len(rest) >= 3:
            name, threshold, *members = rest
            _check_new(number, name, witnesses, groups)
            for member in members:
                if member not in witnesses and member not in groups:
                    raise _invalid(number, f"{member!r} is defined on no line before this one")
                if member in grouped:
                    raise _invalid(number, f"{member!r} is in a group already, and counts once")
                grouped.add(member)
            count = {"any": 1, "all": len(members)}.get(threshold, decode_decimal(threshold))
            if count is None or not 1 <= count <= len(members):
                raise _invalid(number, f"{threshold!r} is not any, all, or 1 to {len(members)}")
            groups[name] = (count, tuple(members))
        elif word == "quorum" and len(rest) == 1:
            if quorum is not None:
                raise _invalid(number, "a policy has one quorum line")
            (quorum,) = rest
            if quorum != _NONE and quorum not in witnesses and quorum not in groups:
                raise _invalid(number, f"{quorum!r} is defined on no line before this one")
        else:
            raise _invalid(number, f"{line[:80]!r} is not a log, witness, group or quorum line")
    if quorum is None:
        raise _invalid(0, "there is no quorum line")
    return WitnessPolicy(tuple(logs), MappingProxyType(witnesses), MappingProxyType(groups), quorum)


def _lines(data: bytes) -> list[str]:
    if any((byte < 0x20 and byte not in b"\t\n") or byte == 0x7F for byte in data):
        raise _invalid(0, "the file has a control character")
    if not data.endswith(b"\n"):
        raise _invalid(0, "the last line does not end in a newline")
    # Names are octets to the format. Bytes that are not UTF-8 stay what they are.
    return data.decode("utf-8", "surrogateescape").split("\n")[:-1]


def _check_new(number: int, name: str, *defined: Mapping[str, object]) -> None:
    if name == _NONE or any(name in names for names in defined):
        raise _invalid(number, f"the name {name!r} is taken")


def _key(number: int, text: str, known: Collection[NoteKey], *, cosigns: bool) -> NoteKey:
    try:
        key = NoteKey.from_text(text)
    except InputError as problem:
        raise _invalid(number, str(problem)) from None
    if key.algorithm.cosigns != cosigns:
        raise _invalid(number, f"the key of {key.name} is one of a {'log' if cosigns else 'witness'}")
    if any(key.public == other.public for other in known):
        raise _invalid(number, f"the public key of {key.name} is on a line before this one")
    return key


def _invalid(number: int, what: str) -> InputError:
    place = f"line {number} of the policy: " if number else "the policy: "
    return InputError(place + what, code="witness-policy-invalid")
