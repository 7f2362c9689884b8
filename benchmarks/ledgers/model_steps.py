"""Honest steps of the model, and random histories of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from expunge.ledger.receipt_format import Predicate, Pruning, Refusal
from expunge.ledger.statement import Subject

from .model import ModelMemory, World, write_sweep

__all__ = ["STEPS", "change_key", "honest", "run"]


def honest(seed: int, number: int) -> World:
    """A random history without a lie."""
    world = World(random.Random(f"model {seed} {number}"))
    run(world, world.rng.randint(10, 40))
    return world


def run(world: World, steps: int) -> None:
    """Some honest steps."""
    for _ in range(steps):
        for act in world.rng.choices(list(STEPS), list(STEPS.values()), k=10):
            world.longest = world.rng.choice([1 << 60, 1 << 60, 2])
            if act(world):
                world.acts[act.__name__] += 1
                break


def _memory(world: World) -> ModelMemory | None:
    found = world.alive()
    return world.rng.choice(found) if found else None


def create(world: World) -> bool:
    world.create()
    return True


def admit(world: World) -> bool:
    if (memory := _memory(world)) is None:
        return False
    receipt = world.admit(memory, world.rng.choice([1, 1, 1, 2, 3]))
    _notice(world, memory, receipt)
    return True


def delete(world: World) -> bool:
    memory = _memory(world)
    free = set() if memory is None else set(memory.everything) - world.held(memory)
    if memory is None or not free:
        return False
    everything = world.rng.random() < 0.1
    receipt = world.delete(memory, free if everything else world.some(free))
    _notice(world, memory, receipt)
    return True


def _notice(world: World, memory: ModelMemory, receipt: Predicate) -> None:
    """What follows an edit that ends certificates, or lets them expire."""
    if receipt.ended.count + receipt.expired.count and world.rng.random() < 0.8:
        stated = {name: getattr(receipt, name) for name in ("ended", "expired")}
        if all(listed.root is None for listed in stated.values()):
            world.edit(memory, "expiry", "expired", **{name: each.commitments for name, each in stated.items()})


def archive(world: World) -> bool:
    memory = _memory(world)
    names = frozenset[str]() if memory is None else world.prunable(memory)
    if memory is not None and names:
        world.prune(memory, names, "archive")
    return bool(names)


def forget(world: World) -> bool:
    memory = _memory(world)
    names = frozenset[str]() if memory is None else world.prunable(memory)
    if memory is not None and names:
        _notice(world, memory, world.prune(memory, names, "forget"))
    return bool(names)


def rebuild(world: World) -> bool:
    memory = _memory(world)
    if memory is None or not memory.live:
        return False
    _notice(world, memory, world.rebuild(memory))
    return True


def refuse(world: World) -> bool:
    memory = _memory(world)
    if memory is None:
        return False
    numbers = sorted(number for number, (where, _) in world.holds.items() if where is memory)
    certified = len(memory.archived) + len(world.certified(memory))
    if numbers and world.rng.random() < 0.6:
        chosen = sorted(world.some(map(str, numbers)), key=int)
        holds = tuple(map(int, chosen))
        on_entries = all(world.holds[number][1] is not None for number in holds)
        # A drop that is refused counts its holds, whatever is there.
        most = len(holds) if on_entries else max(len(holds), memory.sizes.total)
        measured = world.rng.randint(len(holds), most)
        world.edit(memory, "deletion", "refused", refusal=Refusal("legal_hold", measured, 0, holds))
    elif certified and world.rng.random() < 0.5:
        measured = world.rng.randint(1, certified)
        world.edit(memory, "admission", "refused", refusal=Refusal("would_end_warranties", measured, 0))
    else:
        unpruned = len(memory.live) > memory.least
        fitted = {
            "admission": True,
            "deletion": len(memory.live | memory.archived) > 2,
            "pruning": unpruned and len(memory.live) > 2,
            "rebuild": len(memory.live | memory.archived) > 1,
        }
        action = world.rng.choice([action for action, fits in fitted.items() if fits])
        world.edit(memory, action, "refused", refusal=Refusal("no_acceptable_state"))
    return True


def do_nothing(world: World) -> bool:
    memory = _memory(world)
    if memory is not None:
        action = world.rng.choice(["deletion", "pruning"])
        pruning = Pruning("archive", 0) if action == "pruning" else None
        world.edit(memory, action, "noop", pruning=pruning)
    return memory is not None


def restore(world: World) -> bool:
    memory = _memory(world)
    if memory is None or memory.edit < 1:
        return False
    edit = world.rng.randrange(memory.edit)
    if back := world.restore(memory, edit):
        if world.rng.random() < 0.1:
            world.drop(memory, named=False)
            return True
        world.delete(memory, back)
    content = {*memory.everything}
    for number, (where, entry) in list(world.holds.items()):
        # The backup is from before the hold, or has it.
        older = world.held_since[number] >= edit and world.rng.random() < 0.6
        if where is memory and (older if entry is None else entry not in content):
            world.release(number, "lost_in_restore")
    return True


def hold(world: World) -> bool:
    memory = _memory(world)
    if memory is None:
        return False
    everything = memory.everything
    entry = world.rng.choice(everything) if everything and world.rng.random() < 0.5 else None
    world.hold(memory, entry)
    return True


def release(world: World) -> bool:
    if world.holds:
        world.release(world.rng.choice(list(world.holds)))
        return True
    return False


def drop(world: World) -> bool:
    memory = _memory(world)
    if memory is None or len(world.alive()) < 2:
        return False
    held = any(where is memory for where, _ in world.holds.values())
    world.drop(memory, named=not held and world.rng.random() < 0.8)
    return True


def erase_subject(world: World) -> bool:
    if not any(set(memory.everything) - world.held(memory) for memory in world.alive()):
        return False
    requested = world.ask() if world.rng.random() < 0.4 else None
    failed = world.rng.choice([0, 0, 1])
    world.erase(world.rng.randint(1, 3), requested, failed)
    # What failed is tried again, and the second summary counts the other receipts.
    again = any(set(memory.everything) - world.held(memory) for memory in world.alive())
    if failed and again:
        still = requested if requested in world.requests else None
        world.erase(1, still)
    return True


def sweep(world: World) -> bool:
    """Entries that have ended go; or entries go with what was made from them in other memories."""
    free = [memory for memory in world.alive() if set(memory.everything) - world.held(memory)]
    due, parts = world.now, []
    for memory in world.rng.sample(free, min(world.rng.randint(1, 3), len(free))):
        receipt = world.delete(memory, world.some(set(memory.everything) - world.held(memory), 2))
        leaf = next(at for at, found in enumerate(world.leaves) if found is receipt)
        parts.append(
            {"memory": memory.uuid, "outcome": receipt.outcome, "leaf": leaf, "entries": receipt.applied.count}
        )
        world.uncounted.pop(leaf)
    if parts and world.rng.random() < 0.5:
        there = sum(memory.sizes.total for memory in {id(where): where for where, _ in world.holds.values()}.values())
        write_sweep(world, parts, due, world.rng.randint(0, there))
    elif parts:
        write_sweep(world, parts, None)
    return bool(parts)


def ask(world: World) -> bool:
    world.ask()
    return True


def cancel(world: World) -> bool:
    if not world.requests:
        return False
    leaf = world.rng.choice(list(world.requests))
    world.note("erasure_cancelled", None, Subject("subject", world.requests.pop(leaf)), requested=leaf)
    return True


def mirror(world: World) -> bool:
    """Copy a memory to another system, or all of them."""
    if len(world.mirrors) > 2:
        return False
    world.add_mirror(world.rng.choice([None, _memory(world)]))
    return True


def check_mirror(world: World) -> bool:
    """Say what is left in a mirror of some erasures that it was to follow."""
    found = [name for name, (_, owed) in world.mirrors.items() if owed]
    if not found:
        return False
    name = world.rng.choice(found)
    world.check_mirror(name, map(int, world.some(map(str, world.mirrors[name][1]))))
    return True


def remove_mirror(world: World) -> bool:
    """Give a mirror up."""
    if not world.mirrors:
        return False
    world.remove_mirror(world.rng.choice(list(world.mirrors)))
    return True


def change_key(world: World) -> bool:
    """Add a key for heads, or revoke one that was added."""
    if world.spare and world.rng.random() < 0.5:
        world.revoke_key(world.spare.pop(world.rng.randrange(len(world.spare))))
    else:
        world.spare.append(world.add_key())
    return True


def see(world: World) -> bool:
    """Somebody sees the head, and says when."""
    if len(world.seen) > 1:
        return False
    world.seen.append((world.head(), world.now + world.rng.randint(-200, 1000)))
    return True


STEPS: Final[dict[Callable[[World], bool], int]] = {
    create: 3,
    admit: 8,
    delete: 7,
    archive: 5,
    forget: 5,
    rebuild: 2,
    refuse: 3,
    do_nothing: 2,
    restore: 3,
    hold: 3,
    release: 2,
    drop: 1,
    erase_subject: 3,
    sweep: 2,
    ask: 1,
    cancel: 1,
    mirror: 2,
    check_mirror: 3,
    remove_mirror: 1,
    change_key: 1,
    see: 1,
}
