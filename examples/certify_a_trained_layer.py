"""Train an attention layer, freeze its gate over a context, certify it, and delete a record from it.

A context holds eight records, three noisy tokens each: a name and one of eight colours. Questions follow: a name,
without the colour. The layer learns to answer; what it learns is in its weights, and the records are in the context.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from expunge import Memory
from expunge.torch import SupportVectorAttention
from expunge.torch.frozen_layer import freeze

RECORDS, COPIES, NAME, COLOURS = 8, 3, 16, 8
COUNT, WIDTH = RECORDS * COPIES, NAME + COLOURS
torch.manual_seed(0)


def contexts(number: int) -> tuple[Tensor, Tensor]:
    """Contexts with their questions (number, COUNT + RECORDS, WIDTH), and the right answers (number, RECORDS)."""
    names = nn.functional.normalize(torch.randn(number, RECORDS, NAME), dim=-1)
    answers = torch.randint(COLOURS, (number, RECORDS))
    told = torch.cat([names, nn.functional.one_hot(answers, COLOURS)], dim=-1).repeat_interleave(COPIES, dim=1)
    asked = torch.cat([names, torch.zeros(number, RECORDS, COLOURS)], dim=-1)
    return torch.cat([told + 0.1 * torch.randn_like(told), asked], dim=1), answers


# The gate weighs the context by a one-class fit at cap 1/16: at least 16 of its 24 tokens keep weight. Its weights are
# constants for the gradient, which is enough here and quicker.
layer = SupportVectorAttention(WIDTH, 2, cap=1 / 16, sigma=2.0, chunk=COUNT, gain="count", gate_gradient=False)
head = nn.Linear(WIDTH, COLOURS)
optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=2e-2)
for step in range(101):
    x, answers = contexts(8)
    loss = nn.functional.cross_entropy(head(layer(x)[:, COUNT:]).flatten(0, 1), answers.flatten())
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step:3}: loss {loss.item():.2f}")
layer.requires_grad_(False)
head.requires_grad_(False)


def certainty(x: Tensor, answers: Tensor) -> Tensor:
    """For each question, the probability that the layer gives to the right answer."""
    said: Tensor = head(layer(x)[:, COUNT:]).softmax(-1)
    return said[0, torch.arange(RECORDS), answers[0]]


# One context. Its keys leave the layer as they are and are solved again in double precision, a memory for each head.
x, answers = contexts(1)
subjects = [f"record-{place // COPIES}" for place in range(COUNT)]
gates = freeze(layer, x, subjects=subjects)
exact = gates.check().worst < 1e-12
print(f"frozen: {len(gates.memories)} heads of {gates.count} tokens, every condition to 1e-12: {exact}")
print(f"proofs: {[proof.outcome for proof in gates.prove()]}; training's weights are within 0.01: {gates.drift < 0.01}")
with gates.applied():
    before = certainty(x, answers)
print(f"asked: right about {int((before > 0.5).sum())} of {RECORDS} records")

receipts = gates.delete(subject="record-3")
print(f"deleted record-3: {[f'{receipt.outcome}, {len(receipt.applied)} tokens' for receipt in receipts]}")
for memory in gates.memories:
    never = Memory.fit(memory.keys, memory.values, sigma=memory.sigma, cap=memory.cap)
    print("a gate that never saw it weighs alike:", np.abs(memory.coefficients - never.coefficients).max() < 1e-9)
with gates.applied():
    after = certainty(x, answers)
    # Whatever is written in the place of its tokens, no answer hears of it: about record-3 the layer can only guess.
    other = x.clone()
    other[:, 3 * COPIES : 4 * COPIES] = torch.randn(1, COPIES, WIDTH)
    unheard = torch.allclose(layer(x)[:, COUNT:], layer(other)[:, COUNT:], atol=1e-6)
others = after[torch.arange(RECORDS) != 3]
print(f"asked again: right about {int((others > 0.5).sum())} of the {RECORDS - 1} others")
print(f"the colour of record-3: {before[3]:.2f} before, {after[3]:.2f} now; what stands there is heard: {not unheard}")
