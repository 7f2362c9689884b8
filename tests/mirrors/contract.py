"""What every adapter must do, against its real system.

A class with a `mirror` fixture inherits from `MirrorContract` and has these tests; `written` is false for an adapter
that is deleted from only, whose `fill` then writes by other means.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np

from expunge.mirrors import Copy, Doomed, Mirror, remove_entries

__all__ = ["MirrorContract", "random_copies"]

DIMENSION = 24


def random_copies(count: int) -> list[Copy]:
    """Entries with unique ids, texts, metadata and vectors."""
    vectors = np.random.default_rng().standard_normal((count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return [
        Copy(
            id=f"note-{secrets.token_hex(8)}",
            vector=vector,
            text=f"{secrets.token_hex(12)} said that the meeting with {secrets.token_hex(12)} went well",
            metadata={"topic": secrets.token_hex(10), "year": 2024},
            tag=secrets.token_hex(32),
        )
        for vector in vectors
    ]


def doomed(copies: Sequence[Copy]) -> list[Doomed]:
    return [Doomed(copy.id, copy.tag) for copy in copies]


class MirrorContract:
    """The tests; `fill` puts entries into the system."""

    def fill(self, mirror: Mirror, copies: Sequence[Copy]) -> None:
        mirror.write(copies)

    def test_what_is_written_is_read(self, mirror: Mirror) -> None:
        copies = random_copies(7)
        self.fill(mirror, copies)
        mirror.close()
        assert mirror.count() == 7
        assert {copy.id for copy in mirror.entries()} == {copy.id for copy in copies}
        (found,) = mirror.read([copies[3].id, "nobody"])
        assert (found.id, found.text, found.tag) == (copies[3].id, copies[3].text, copies[3].tag)
        assert dict(found.metadata) == dict(copies[3].metadata)
        assert np.allclose(np.asarray(found.coordinates), np.asarray(copies[3].coordinates), atol=1e-6)

    def test_writing_again_replaces(self, mirror: Mirror) -> None:
        old, new = random_copies(1), random_copies(1)
        self.fill(mirror, old)
        self.fill(mirror, [Copy(old[0].id, new[0].vector, "other words", {"topic": "other"}, new[0].tag)])
        (found,) = mirror.entries()
        assert (found.id, found.text, found.tag, found.metadata) == (
            old[0].id,
            "other words",
            new[0].tag,
            {"topic": "other"} | {name: value for name, value in found.metadata.items() if name == "year"},
        )

    def test_deletion_leaves_the_others(self, mirror: Mirror) -> None:
        copies = random_copies(9)
        self.fill(mirror, copies)
        mirror.delete([copies[2].id, copies[5].id, "nobody"])
        kept = {copy.id for at, copy in enumerate(copies) if at not in (2, 5)}
        assert {copy.id for copy in mirror.entries()} == kept
        assert mirror.count() == 7
        mirror.reclaim()
        assert {copy.id: copy.text for copy in mirror.entries()} == {
            copy.id: copy.text for copy in copies if copy.id in kept
        }

    def test_writing_after_a_reclamation(self, mirror: Mirror) -> None:
        copies = random_copies(6)
        self.fill(mirror, copies[:4])
        mirror.delete([copies[0].id])
        mirror.reclaim()
        self.fill(mirror, [*copies[4:], Copy(copies[1].id, copies[1].vector, "a new text", copies[1].metadata, "new")])
        found = {copy.id: copy for copy in mirror.entries()}
        assert found.keys() == {copy.id for copy in copies[1:]}
        assert (found[copies[1].id].text, found[copies[1].id].tag) == ("a new text", "new")

    def test_a_mirror_without_entries(self, mirror: Mirror) -> None:
        copies = random_copies(2)
        self.fill(mirror, copies)
        mirror.delete([copy.id for copy in copies])
        mirror.reclaim()
        assert (mirror.count(), list(mirror.entries()), mirror.read([copies[0].id])) == (0, [], [])

    def test_deletion_alone_leaves_bytes(self, mirror: Mirror) -> None:
        """Without this the next test would prove nothing."""
        copies = random_copies(40)
        self.fill(mirror, copies)
        removal = remove_entries(mirror, doomed(copies[10:15]), reclaim=False)
        assert sum(removal.after.values()) > 0
        assert removal.where
        assert removal.entries("in_files")
        assert {checks.api for checks in removal.checks.values()} == {"absent"}

    def test_no_byte_is_left_after_a_reclamation(self, mirror: Mirror) -> None:
        copies = random_copies(40)
        self.fill(mirror, copies)
        removal = remove_entries(mirror, doomed(copies[10:15]))
        # Qdrant's files have one of the ids in pieces now and then: in 2 of 60 trials.
        assert min(removal.before["text"], removal.before["vector"], removal.before["id"] + 1) >= 5, removal
        assert (dict(removal.after), removal.where) == ({}, ()), removal
        assert removal.entries("absent") == doomed(copies[10:15])
        assert mirror.count() == 35

    def test_no_byte_of_one_in_many_is_left(self, mirror: Mirror) -> None:
        """Systems rewrite what has many deleted entries, and not what has few."""
        copies = random_copies(120)
        self.fill(mirror, copies)
        for gone in (copies[50:51], copies[7:8]):
            removal = remove_entries(mirror, doomed(gone))
            assert (dict(removal.after), removal.where) == ({}, ()), removal
            assert removal.entries("absent") == doomed(gone)
        assert mirror.count() == 118

    def test_no_byte_of_the_last_entries_is_left(self, mirror: Mirror) -> None:
        """Systems keep what they sampled of the last rows, or the statement that deleted them."""
        copies = random_copies(30)
        self.fill(mirror, copies)
        mirror.reclaim()
        removal = remove_entries(mirror, doomed(copies))
        assert (dict(removal.after), removal.where, mirror.count()) == ({}, (), 0)
        assert removal.entries("absent") == doomed(copies)
        self.fill(mirror, copies[:3])
        assert mirror.count() == 3

    def test_an_entry_that_another_took_the_place_of_stays(self, mirror: Mirror) -> None:
        copies = random_copies(3)
        self.fill(mirror, copies)
        removal = remove_entries(mirror, [Doomed(copies[0].id, "f" * 64), Doomed(copies[1].id, copies[1].tag)])
        assert {copy.id for copy in mirror.entries()} == {copies[0].id, copies[2].id}
        assert removal.entries("absent") == [Doomed(copies[1].id, copies[1].tag)], removal

    def test_what_is_gone_already_cannot_be_checked(self, mirror: Mirror) -> None:
        copies = random_copies(4)
        self.fill(mirror, copies)
        mirror.delete([copies[0].id])
        removal = remove_entries(mirror, doomed(copies[:1]))
        assert removal.entries("not_checkable") == doomed(copies[:1])
