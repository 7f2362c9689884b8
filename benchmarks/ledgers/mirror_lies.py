"""Lies about mirrors, and about what was found there of what was erased."""

from __future__ import annotations

from expunge.ledger.statement import Subject

from .model import ModelMemory, World
from .telling import SKEW, fresh, lie


def _erased(world: World, memory: ModelMemory, count: int = 2) -> tuple[int, int]:
    """An erasure in a memory, by its leaf, with its entries."""
    leaf = len(world.leaves)
    receipt = world.delete(memory, sorted(memory.live)[:count])
    return leaf, receipt.applied.count


def _mirrored(world: World) -> tuple[str, ModelMemory]:
    """A mirror, of one memory or of all, and a memory that it copies."""
    memory = fresh(world)
    return world.add_mirror(world.rng.choice([None, memory])), memory


@lie("ledger-mirror-repeated")
def a_mirror_added_twice(world: World) -> None:
    mirror, _ = _mirrored(world)
    if world.rng.random() < 0.5:
        world.remove_mirror(mirror)
    world.note("mirror_added", None, Subject("mirror", mirror), system="lancedb", of=None)


@lie("ledger-memory-unknown")
def a_mirror_of_a_memory_that_never_was(world: World) -> None:
    memory = ModelMemory(world.request().id, 1.0)
    world.add_mirror(memory)


@lie("ledger-memory-dropped")
def a_mirror_of_a_dropped_memory(world: World) -> None:
    memory = fresh(world)
    world.drop(memory, named=True)
    world.add_mirror(memory)


@lie("ledger-mirror-unknown")
def a_finding_in_a_mirror_that_was_never_attached(world: World) -> None:
    mirror, memory = _mirrored(world)
    erasure, other = _erased(world, memory), world.name()
    if world.rng.random() < 0.5:
        world.find(other, [erasure])
    else:
        world.note("mirror_removed", None, Subject("mirror", other), pending=0)
    world.mirrors.pop(mirror)


@lie("ledger-mirror-removed")
def a_finding_in_a_mirror_that_was_removed(world: World) -> None:
    mirror, memory = _mirrored(world)
    erasure = _erased(world, memory)
    world.remove_mirror(mirror)
    if world.rng.random() < 0.5:
        world.find(mirror, [erasure])
    else:
        world.note("mirror_removed", None, Subject("mirror", mirror), pending=0)


@lie("ledger-mirror-pending")
def a_removal_that_hides_what_is_pending(world: World) -> None:
    mirror, memory = _mirrored(world)
    for _ in range(world.rng.randint(1, 3)):
        _erased(world, memory, 1)
    pending = len(world.mirrors.pop(mirror)[1])
    wrong = world.rng.choice([0, pending - 1, pending + 1])
    world.note("mirror_removed", None, Subject("mirror", mirror), pending=wrong)


@lie("ledger-finding-unfounded")
def a_finding_about_an_erasure_never_made(world: World) -> None:
    mirror, memory = _mirrored(world)
    leaf, entries = _erased(world, memory)
    world.admit(memory, 2)
    # Itself, what is to come, what came in, what was there before.
    wrong = world.rng.choice([leaf + 1, len(world.leaves), len(world.leaves) + 5, 0])
    world.find(mirror, [(wrong, entries)])


@lie("ledger-finding-unfounded")
def a_finding_about_an_erasure_before_the_mirror(world: World) -> None:
    memory = fresh(world)
    erasure = _erased(world, memory)
    world.find(world.add_mirror(world.rng.choice([None, memory])), [erasure])


@lie("ledger-finding-unfounded")
def a_finding_about_another_memory(world: World) -> None:
    mirror = world.add_mirror(fresh(world))
    world.find(mirror, [_erased(world, fresh(world))])


@lie("ledger-finding-unfounded")
def a_finding_about_a_pruning_that_kept_the_entries(world: World) -> None:
    mirror, memory = _mirrored(world)
    leaf = len(world.leaves)
    name = min(memory.live)
    world.prune(memory, frozenset({name}), "archive")
    world.find(mirror, [(leaf, 1)])


@lie("ledger-finding-entries")
def a_finding_about_more_entries_than_were_erased(world: World) -> None:
    mirror, memory = _mirrored(world)
    leaf, entries = _erased(world, memory, world.rng.randint(2, 3))
    world.find(mirror, [(leaf, entries + world.rng.choice([-1, 1, 3]))])


@lie("ledger-finding-repeated")
def two_findings_of_one_erasure(world: World) -> None:
    """The second one says what the first one says, or something else."""
    mirror, memory = _mirrored(world)
    erasure = _erased(world, memory)
    world.check_mirror(mirror, [erasure[0]])
    if world.rng.random() < 0.5:
        world.admit(memory, 1)
    world.find(mirror, [erasure])


@lie("ledger-time-reversed")
def a_finding_dated_before_its_erasure(world: World) -> None:
    mirror, memory = _mirrored(world)
    erasure = _erased(world, memory)
    world.now -= SKEW + world.rng.randint(401, 10_000)
    world.find(mirror, [erasure])
