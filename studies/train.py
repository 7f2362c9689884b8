"""Training a stack of models: a captured step on a GPU, a plain one elsewhere, the same arithmetic.

On a GPU the whole step (gather, forward, backward, clip, AdamW) is one CUDA graph and the host only replays it; batch
starts, learning rates and losses are tables on the device, read and written at a step counter that lives there too. A
run writes a JSONL curve as it goes and can stop at any evaluation: the checkpoint holds parameters, moments and step,
and on a CPU the resumed run is bit for bit the run that was never stopped.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from expunge.errors import InputError
from studies.config import Run
from studies.data import Corpus, draw_starts
from studies.model import Attend, Stack, decays
from studies.optimizer import learning_rates
from studies.optimizer import step as update

__all__ = ["Trainer", "TrainingResult"]

WARM_STEPS = 3


@dataclass(frozen=True)
class TrainingResult:
    """What a finished (or stopped) run came to, one entry per slot."""

    best_bits: list[float]
    final_bits: list[float]
    curve: list[dict[str, Any]]
    steps: int
    seconds: float
    step_seconds: float


def capture(act: Callable[[], None], device: str) -> Callable[[], None]:
    """``act`` as a CUDA graph, replayed by calling the result; ``act`` itself where there is no GPU.

    ``act`` has been run before, so that nothing compiles or allocates lazily during the capture.
    """
    if device == "cpu":
        return act
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        act()
    return graph.replay


class Trainer:
    """One run: its stack, its optimiser and its place in the corpus."""

    def __init__(
        self,
        run: Run,
        attend: Attend,
        corpus: Corpus,
        *,
        device: str = "cpu",
        kind: torch.dtype = torch.float32,
        compiled: bool = False,
        valid_limit: int | None = None,
    ) -> None:
        block = run.shape.block
        corpus.require(block)
        self.run, self.device = run, device
        self.stack = Stack(run, attend, device=device, kind=kind, compiled=compiled)
        self._first = torch.zeros_like(self.stack.parameters)
        self._second = torch.zeros_like(self.stack.parameters)
        self._history: list[dict[str, Any]] = []
        # What a checkpoint must agree with, and the seconds that were spent before it: all, and in steps.
        self._settings = json.dumps(
            run.describe() | {"corpus": corpus.digest(), "valid_blocks": valid_limit}, sort_keys=True
        )
        self._spent = (0.0, 0.0)
        self.count = torch.zeros((), dtype=torch.int64, device=device)
        slots = len(run.slots)
        starts = [
            draw_starts(slot.seed, run.steps, run.batch, length=len(corpus.train), block=block, row=corpus.row)
            for slot in run.slots
        ]
        self._starts = torch.stack(starts, 1).to(device)
        self._rates = learning_rates([slot.recipe for slot in run.slots], run.steps).to(device)
        self._decays = decays(run).to(self.stack.parameters)
        self._losses = torch.zeros(run.steps, slots, device=device)
        self._norms = torch.zeros(run.steps, slots, device=device)
        self._train, self._held = corpus.train.to(device), torch.cat([corpus.valid, corpus.test]).to(device)
        # Validation and test bytes in whole blocks, in order: where each part begins, and its number of blocks.
        self._stride = corpus.row or block
        count = {"valid": len(corpus.valid), "test": len(corpus.test)}
        blocks = {part: max(0, size - block - 1) // self._stride + (size > block) for part, size in count.items()}
        self._parts = {
            "valid": (0, min(blocks["valid"], valid_limit or blocks["valid"])),
            "test": (count["valid"], blocks["test"]),
        }
        self._begin = torch.zeros((), dtype=torch.int64, device=device)
        self._blocks = torch.ones((), dtype=torch.int64, device=device)
        self._place = torch.zeros((), dtype=torch.int64, device=device)
        self._sum = torch.zeros(slots, dtype=torch.float64, device=device)
        self._span = torch.arange(block + 1, device=device)
        self._update = torch.compile(update, dynamic=False) if compiled else update
        self._act_train: Callable[[], None] | None = None
        self._act_valid: Callable[[], None] | None = None

    def _gather(self, corpus: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        return corpus[starts[..., None] + self._span].long()

    def _step(self) -> None:
        run, stack, count = self.run, self.stack, self.count
        here = count[None]
        losses = stack.losses(self._gather(self._train, self._starts.index_select(0, here)[0]), count)
        gradient = stack.gradient(losses)
        with torch.no_grad():
            norms = self._update(
                stack.parameters,
                gradient,
                self._first,
                self._second,
                rate=self._rates.index_select(0, here)[0],
                count=count,
                betas=run.betas,
                decay=self._decays,
                clip=run.clip,
            )
            self._losses.index_copy_(0, here, losses.detach()[None].to(self._losses.dtype))
            self._norms.index_copy_(0, here, norms[None].to(self._norms.dtype))
            count.add_(1)

    def _evaluate_batch(self) -> None:
        run = self.run
        rows = self._place * run.batch + torch.arange(run.batch, device=self.device)
        # The last batch is filled up with a block that is not counted.
        counted = (rows < self._blocks).to(self._sum.dtype)
        starts = self._begin + torch.minimum(rows, self._blocks - 1) * self._stride
        tokens = self._gather(self._held, starts)
        # Gradients stay on: a compiled stack then reuses the graph of the training step.
        losses = self.stack.losses_each(tokens.expand(len(run.slots), -1, -1)).detach()
        self._sum.add_((losses.to(self._sum.dtype) * counted).sum(1))
        self._place.add_(1)

    def prepare(self) -> None:
        """Warm up, capture, and put everything back as it was, so that preparing changes no result."""
        if self.device == "cpu":
            self._act_train, self._act_valid = self._step, self._evaluate_batch
            return
        kept = list(self._state().values())
        before = [tensor.clone() for tensor in kept]
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_STEPS):
                self._step()
                self._evaluate_batch()
        torch.cuda.current_stream().wait_stream(side)
        self._act_train = capture(self._step, self.device)
        self._act_valid = capture(self._evaluate_batch, self.device)
        for tensor, old in zip(kept, before, strict=True):
            tensor.data.copy_(old)

    def bits(self, part: str = "valid") -> list[float]:
        """Bits a byte over every whole block of ``valid`` or ``test``, one a slot."""
        if self._act_valid is None:
            self.prepare()
        begin, blocks = self._parts[part]
        if not blocks:
            raise InputError(f"the corpus has no {part} bytes")
        self._begin.fill_(begin)
        self._blocks.fill_(blocks)
        self._place.zero_()
        self._sum.zero_()
        for _ in range(math.ceil(blocks / self.run.batch)):
            self._act_valid()  # type: ignore[misc]  # prepare() has set it
        return [value / blocks / math.log(2) for value in self._sum.tolist()]

    def train(
        self,
        *,
        curve: Path | None = None,
        checkpoint: Path | None = None,
        until: int | None = None,
        deadline: float = math.inf,
    ) -> TrainingResult:
        """Run to ``until`` (the end by default) or to the first evaluation after ``deadline``, a ``time.monotonic``.

        Writes a line of ``curve`` and the ``checkpoint`` at every evaluation; gives up when every slot has diverged.
        """
        run = self.run
        if self._act_train is None:
            self.prepare()
        done, last = int(self.count), run.steps if until is None else min(until, run.steps)
        history = self._history
        started, stepping = time.monotonic() - self._spent[0], self._spent[1]
        while done < last and time.monotonic() < deadline:
            upto = min((done // run.evaluate_every + 1) * run.evaluate_every, last)
            begun = time.monotonic()
            for _ in range(upto - done):
                self._act_train()  # type: ignore[misc]  # prepare() has set it
            window = self._losses[done:upto].mean(0).tolist()
            stepping += time.monotonic() - begun
            norms = self._norms[done:upto]
            point: dict[str, Any] = {
                "run": run.name,
                "step": upto,
                "train_bits": [value / math.log(2) for value in window],
                "valid_bits": self.bits(),
                **({"test_bits": self.bits("test")} if self._parts["test"][1] else {}),
                "norm_median": norms.median(0).values.tolist(),
                "norm_max": norms.max(0).values.tolist(),
                "seconds": time.monotonic() - started,
            }
            steps_made, done = upto - done, upto
            history.append(point | {"steps_per_second": steps_made / max(1e-9, time.monotonic() - begun)})
            self._spent = time.monotonic() - started, stepping
            if curve is not None:
                with curve.open("a") as file:
                    file.write(json.dumps(history[-1]) + "\n")
            if checkpoint is not None:
                self.save(checkpoint)
            if not any(math.isfinite(bits) for bits in point["valid_bits"]):
                break
        columns = list(zip(*(point["valid_bits"] for point in history), strict=True))
        return TrainingResult(
            best_bits=[min((bits for bits in column if math.isfinite(bits)), default=math.nan) for column in columns],
            final_bits=[column[-1] for column in columns],
            curve=history,
            steps=done,
            seconds=self._spent[0],
            step_seconds=stepping,
        )

    def _state(self) -> dict[str, torch.Tensor]:
        return {
            "parameters": self.stack.parameters,
            "first": self._first,
            "second": self._second,
            "count": self.count,
            "losses": self._losses,
            "norms": self._norms,
        }

    def save(self, path: Path) -> None:
        """Everything a resumed run needs beside its settings; written whole or not at all."""
        partial = path.with_suffix(".partial")
        kept = {"settings": self._settings, "history": json.dumps(self._history), "spent": self._spent}
        torch.save(kept | {"state": self._state()}, partial)
        partial.replace(path)

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint of the same run: the same settings, on the same bytes."""
        kept = torch.load(path, map_location=self.device, weights_only=True)
        theirs, ours = json.loads(kept["settings"]), json.loads(self._settings)
        differ = sorted(name for name in ours if theirs.get(name) != ours[name])
        if differ:
            raise InputError(
                f"{path.name} is a checkpoint of {theirs['name']!r} and differs from {self.run.name!r} in "
                f"{', '.join(differ)}: give another folder or the old settings"
            )
        for name, tensor in self._state().items():
            tensor.copy_(kept["state"][name])
        self._history, self._spent = json.loads(kept["history"]), kept["spent"]
