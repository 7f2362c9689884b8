"""Run a study: ``python -m studies.run compare`` or ``tune``, from the repository's root.

``compare`` trains the hybrid on every seed, measures its active keys at the last boundary, and trains the window arm
with that many visible tokens plus one chunk, seed by seed (paper, App. B); ``tune`` trains every candidate recipe of an
arm on one seed that ``compare`` does not use. Each run leaves ``<name>.json``, and ``curves.jsonl`` gets one line per
evaluation.

    python -m studies.run compare --shape 3m --data enwik8.xz --seeds 0:7 --device cuda --out studies/results
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from expunge.errors import InputError
from studies.arms import attention, floor_shares
from studies.config import SHAPES, Recipe, Run, Slot
from studies.data import Corpus, load
from studies.recipes import CANDIDATES, PAPER, named
from studies.record import machine, read, write
from studies.train import Trainer, TrainingResult

__all__ = ["Runner", "compare", "learned_weights", "main", "observe", "tune"]

# Not one of the seeds of a comparison, so that what is tuned is not what is compared.
TUNING_SEED = 100


@dataclass(frozen=True)
class Runner:
    """Trains runs on one corpus and one device, and keeps their results in a folder."""

    corpus: Corpus
    out: Path
    device: str = "cpu"
    compiled: bool = False
    checkpoints: Path | None = None
    keep: Path | None = None
    valid_limit: int | None = None
    deadline: float = float("inf")

    @property
    def kind(self) -> torch.dtype:
        """Products in bf16 on a GPU, in fp32 elsewhere."""
        return torch.bfloat16 if self.device.startswith("cuda") else torch.float32

    def trainer(self, run: Run) -> Trainer:
        """A trainer at its start, or where its checkpoint left it."""
        trainer = Trainer(
            run,
            attention(run, device=self.device, kind=self.kind),
            self.corpus,
            device=self.device,
            kind=self.kind,
            compiled=self.compiled,
            valid_limit=self.valid_limit,
        )
        kept = self._checkpoint(run)
        if kept is not None and kept.exists():
            trainer.resume(kept)
        return trainer

    def _checkpoint(self, run: Run) -> Path | None:
        return None if self.checkpoints is None else self.checkpoints / f"{run.name}.pt"

    def finish(self, run: Run) -> tuple[Trainer, dict[str, Any]]:
        """Train a run to its end, or as far as the time goes, and keep its result."""
        self.out.mkdir(parents=True, exist_ok=True)
        begun = time.monotonic()
        trainer = self.trainer(run)
        trainer.prepare()
        ready = time.monotonic()
        result = trainer.train(
            curve=self.out / "curves.jsonl", checkpoint=self._checkpoint(run), deadline=self.deadline
        )
        content = report(run, result, self) | {"prepare_seconds": ready - begun}
        if result.steps and run.arm == "hybrid":
            content["active_keys"], content["key_spread"] = observe(trainer, self)
            content |= learned_weights(trainer)
        # A run that had no time for a step has nothing to say, and an older result stays.
        if result.steps:
            write(self.out, run.name, content)
        if self.keep is not None:
            self.keep.mkdir(parents=True, exist_ok=True)
            weights = {name: leaf.detach()[0].cpu() for name, leaf in trainer.stack.weights.items()}
            torch.save({"run": run.describe(), "weights": weights}, self.keep / f"{run.name}.pt")
        rate = result.steps / max(1e-9, result.step_seconds)
        print(f"{run.name}: {result.steps} steps, {rate:.1f} steps/s, {time.monotonic() - begun:.0f} s, best", end=" ")
        print(" ".join(f"{bits:.4f}" for bits in result.best_bits), flush=True)
        if not content["complete"]:
            print(f"  stopped before step {run.steps}; arms that come after wait for it", flush=True)
        return trainer, content


def report(run: Run, result: TrainingResult, runner: Runner) -> dict[str, Any]:
    """A result as plain data."""
    tokens = result.steps * len(run.slots) * run.batch * run.shape.block
    return {
        "run": run.describe(),
        "corpus": {
            "name": runner.corpus.name,
            "train_bytes": len(runner.corpus.train),
            "valid_bytes": len(runner.corpus.valid),
            "digest": runner.corpus.digest(),
            "valid_blocks": runner.valid_limit,
        },
        "tokens_per_second": tokens / max(1e-9, result.step_seconds),
        "complete": result.steps == run.steps,
        "machine": machine(runner.device),
        **asdict(result),
        **on_test(result.curve),
    }


def on_test(curve: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Test bits at the end, and where validation was lowest: what stopping there would have given."""
    if not curve or "test_bits" not in curve[0]:
        return {}
    stopped = []
    for slot in range(len(curve[0]["valid_bits"])):
        pairs = [(point["valid_bits"][slot], point["test_bits"][slot]) for point in curve]
        stopped.append(min((pair for pair in pairs if math.isfinite(pair[0])), default=(math.nan, math.nan))[1])
    return {"test_bits": curve[-1]["test_bits"], "stopped_test_bits": stopped}


def observe(trainer: Trainer, runner: Runner) -> tuple[list[list[float]], list[list[float]]]:
    """Mean active keys at the last boundary, and the spread of the gate's keys in units of σ, over the first validation
    batch: one list of layers per slot each.
    """
    active: list[torch.Tensor] = []
    spreads: list[torch.Tensor] = []

    def note(layer: int, counts: torch.Tensor, spread: torch.Tensor) -> None:
        active.append(counts)
        spreads.append(spread)

    stack, run = trainer.stack, trainer.run
    usual = stack.attend
    stack.attend = attention(run, device=runner.device, kind=runner.kind, observe=note)
    block = run.shape.block
    stride = runner.corpus.row or block
    places = (len(runner.corpus.valid) - block - 1) // stride + 1
    rows = [(i % places) * stride for i in range(run.batch)]
    tokens = torch.stack([runner.corpus.valid[row : row + block + 1] for row in rows]).long().to(runner.device)
    stack.losses(tokens.expand(len(run.slots), -1, -1))
    stack.attend = usual
    return torch.stack(active, 1).tolist(), torch.stack(spreads, 1).detach().tolist()


def learned_weights(trainer: Trainer) -> dict[str, list[Any]]:
    """The powers, the floor's shares, the widths and the tempers that the heads have learned: slot, layer, head; none
    where they are fixed.
    """
    powers, shares, widths, tempers = [], [], [], []
    for place, slot in enumerate(trainer.run.slots):
        gate = slot.recipe.gate
        held = [trainer.stack.weights.get(f"{layer}.attention.weight") for layer in range(trainer.run.shape.layers)]
        learned = [leaf.detach()[place] for leaf in held if leaf is not None]
        powers.append([(1 + layer[0]).tolist() for layer in learned if gate.weight == "learned"])
        shares.append([floor_shares(layer[1], gate).tolist() for layer in learned if gate.floor])
        widths.append([(gate.sigma / layer[2].exp()).tolist() for layer in learned if gate.width == "learned"])
        tempers.append([layer[3].tolist() for layer in learned if gate.tempered])
    return {"head_powers": powers, "head_shares": shares, "head_widths": widths, "head_tempers": tempers}


def visible(counts: list[float], chunk: int, block: int, near: int = 0, floor: float = 0.0) -> int:
    """Visible tokens of the matched window: the mean active keys, rounded, one chunk, and what is never gated; all
    tokens where a floor leaves no key unseen.
    """
    return block if floor else min(block, round(sum(counts) / len(counts)) + chunk + near)


def compare(runner: Runner, plan: Run, *, hybrid: Recipe, window: Recipe, arms: tuple[str, ...]) -> None:
    """The arms of ``plan`` over its seeds. ``window`` needs the hybrid's result, from this call or an earlier one."""
    for arm in arms:
        recipe = hybrid if arm == "hybrid" else window
        slots = tuple(replace(slot, recipe=recipe) for slot in plan.slots)
        if arm == "window":
            theirs = finished(f"{plan.name}-hybrid", runner.out)
            seeds = [slot["seed"] for slot in theirs["run"]["slots"]]
            if seeds != [slot.seed for slot in slots]:
                raise InputError(f"{plan.name}-hybrid has the seeds {seeds}: a window is matched seed by seed")
            gate, block = hybrid.gate, plan.shape.block
            slots = tuple(
                replace(slot, window=visible(each, gate.chunk, block, gate.near, gate.floor))
                for slot, each in zip(slots, theirs["active_keys"], strict=True)
            )
        if not runner.finish(replace(plan, name=f"{plan.name}-{arm}", arm=arm, slots=slots))[1]["complete"]:
            return


def finished(name: str, folder: Path) -> dict[str, Any]:
    """A result that others are matched to or chosen by: a run that came to its end."""
    try:
        content: dict[str, Any] = read(name, folder)
    except FileNotFoundError as error:
        raise InputError(f"there is no {name}.json in {folder}: run that study first") from error
    if all(bits is None for bits in content["final_bits"]):
        raise InputError(f"every model of {name} diverged")
    if not content["complete"]:
        raise InputError(
            f"{name} stopped at step {content['steps']} of {content['run']['steps']}: run it to its end first"
        )
    return content


def tune(runner: Runner, plan: Run, *, arm: str, rounds: str = "first") -> str | None:
    """Every candidate of an arm on the tuning seed; the label with the fewest validation bits at the end, or None where
    the time did not suffice.

    ``window`` needs the hybrid's tuning, from this call or an earlier one: a candidate whose label the hybrid has too
    is matched to that one, any other to the hybrid's best.
    """
    if arm not in CANDIDATES[rounds]:
        raise InputError(f"{rounds} has no candidates of the {arm} arm: --arms {','.join(CANDIDATES[rounds])}")
    candidates = CANDIDATES[rounds][arm]
    widths: dict[str, int] = {}
    if arm == "window":
        theirs = matched(finished(f"{plan.name}-hybrid", runner.out))
        best = chosen(plan.name, runner.out, "hybrid")
        widths = {label: theirs.get(label, theirs[best]) for label in candidates}
    # Slots with one gate lie together, so that they are solved together.
    order = sorted(candidates, key=lambda label: repr(candidates[label].gate))
    slots = tuple(Slot(TUNING_SEED, candidates[label], window=widths.get(label), label=label) for label in order)
    if not runner.finish(replace(plan, name=f"{plan.name}-{arm}", arm=arm, slots=slots))[1]["complete"]:
        return None
    best = chosen(plan.name, runner.out, arm)
    print(f"  chosen for {arm}: {best}", flush=True)
    return best


def matched(content: dict[str, Any]) -> dict[str, int]:
    """The visible tokens that match each candidate of a hybrid's tuning, by label."""
    block = content["run"]["shape"]["block"]
    found = {}
    for slot, counts in zip(content["run"]["slots"], content["active_keys"], strict=True):
        gate = slot["recipe"]["gate"]
        found[slot["label"]] = visible(counts, gate["chunk"], block, gate["near"], gate.get("floor", 0.0))
    return found


def chosen(name: str, folder: Path, arm: str) -> str:
    """The winner of earlier tunings, by commas."""
    ended = [
        (math.inf if bits is None else bits, str(slot["label"]))
        for content in (finished(f"{each}-{arm}", folder) for each in name.split(","))
        for bits, slot in zip(content["final_bits"], content["run"]["slots"], strict=True)
    ]
    return min(ended)[1]


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.run", description=__doc__.partition("\n")[0])
    parser.add_argument("act", choices=("compare", "tune"))
    parser.add_argument("--shape", choices=tuple(SHAPES), required=True)
    parser.add_argument("--data", type=Path, required=True, help="bytes to train on, plain or .xz")
    parser.add_argument("--test", type=Path, help="bytes to test on at the end")
    parser.add_argument("--limit", type=int, default=5_000_000, help="bytes of --data to use; 0: all")
    parser.add_argument("--name", help="name of the results; the shape by default")
    parser.add_argument("--seeds", default="0:7", help="first:last+1")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--evaluate-every", type=int, default=500)
    parser.add_argument("--valid-blocks", type=int, help="validate on the first so many blocks; on all by default")
    parser.add_argument("--arms", default="hybrid,window")
    parser.add_argument("--tuned", help="tunings of one length whose winners to compare, by commas: NAME[,NAME…]")
    parser.add_argument("--recipe", help="compare the candidates of this label instead")
    parser.add_argument("--round", choices=tuple(CANDIDATES), default="first", help="candidates of a tuning")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compiled", action="store_true", help="fuse the elementwise work (torch.compile)")
    parser.add_argument("--checkpoints", type=Path, help="folder to resume from and to save to")
    parser.add_argument("--keep", type=Path, help="folder for the trained weights of the first seed")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop at the first evaluation after this")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    first, _, last = given.seeds.partition(":")
    if not first.isdecimal() or not (last or first).isdecimal():
        raise InputError(f"--seeds is first:last+1, not {given.seeds!r}")
    seeds = range(int(first), int(last or int(first) + 1))
    if given.device.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f"there is no device {given.device!r} here; --device cpu runs everywhere")
    if given.valid_blocks is not None and given.valid_blocks < 1:
        raise InputError(f"--valid-blocks is at least 1, not {given.valid_blocks}")
    if given.checkpoints is not None:
        given.checkpoints.mkdir(parents=True, exist_ok=True)
    runner = Runner(
        load(given.data, test=given.test, limit=given.limit or None),
        given.out,
        device=given.device,
        compiled=given.compiled,
        checkpoints=given.checkpoints,
        keep=given.keep,
        valid_limit=given.valid_blocks,
        deadline=time.monotonic() + given.seconds,
    )
    arms = tuple(given.arms.split(","))
    plan = Run(
        given.name or given.shape,
        "softmax",
        SHAPES[given.shape],
        tuple(Slot(seed) for seed in seeds),
        steps=given.steps,
        batch=given.batch,
        evaluate_every=given.evaluate_every,
    )
    if given.act == "tune":
        for arm in arms:
            if tune(runner, plan, arm=arm, rounds=given.round) is None:
                return
        return
    hybrid = window_recipe = PAPER
    if given.recipe:
        # A control has no candidate of the other arm; a window is matched by the hybrid's gate.
        if {"hybrid", "window"} & set(arms):
            hybrid = named("hybrid", given.recipe)
        if {"window", "softmax"} & set(arms):
            window_recipe = named("window", given.recipe)
    elif given.tuned:
        hybrid, window_recipe = (named(arm, chosen(given.tuned, runner.out, arm)) for arm in ("hybrid", "window"))
    compare(runner, plan, hybrid=hybrid, window=window_recipe, arms=arms)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"studies: {error}") from error
