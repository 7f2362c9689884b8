"""The gate on a GPU: correctness first, then times in one run.

`python benchmarks/gate.py` checks every fused op against its fp64 reference on fresh random inputs, with every output
buffer poisoned; nothing is timed unless all checks pass. It then times the ops alone beside their arithmetic floor, a
step (forward, loss, backward) of the 3.22M byte model with the gate, with unfused softmax and with PyTorch's fused
attention, and one attention layer in contexts of 256 to 4,096. Each is the median of repeated runs of CUDA events, and
each step is timed as PyTorch runs it and as a replayed CUDA graph. Writes benchmarks/results/gate.json.
"""

from __future__ import annotations

import argparse
import lzma
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from expunge.torch import SupportVectorAttention
from expunge.torch.baselines import SoftmaxAttention
from expunge.torch.differentiable_ops import gated_readout, prefix_coefficients
from expunge.torch.ops.coefficients.plain_adjoint import pull_prefixes
from expunge.torch.ops.coefficients.plain_coefficients import gram_matrix, live_mask, natural_residual, solve_paper
from record import write_result

RESULTS = Path(__file__).parent / "results"
CAP, SIGMA, RIDGE = 0.25, 2.0, 1e-3
# The checks also run in Triton's interpreter, on a processor; the times need a GPU.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# One attention layer at a constant number of tokens.
CONTEXTS, TOKENS = (256, 512, 1024, 2048, 4096), 16_384


def describe() -> dict[str, object]:
    import triton  # type: ignore[import-not-found]

    gpu = torch.cuda.get_device_properties(0) if DEVICE == "cuda" else None
    return {
        "gpu": gpu and gpu.name,
        "multiprocessors": gpu and gpu.multi_processor_count,
        "python": platform.python_version(),
        "versions": {"torch": torch.__version__, "triton": triton.__version__, "cuda": torch.version.cuda},
    }


def sample_keys(kind: str, batch: int, heads: int, length: int, width: int) -> Tensor:
    """Keys as a fresh projection makes them, or crowded, clustered, duplicated, spread out, or far from the origin."""
    shape = (batch, heads, length, width)
    noise = torch.randn(shape, device=DEVICE)
    if kind == "fresh":
        return 0.32 * noise
    if kind == "crowded":
        return 0.1 * noise
    if kind == "wide":
        return noise
    if kind == "far":
        return 1.5 + 0.1 * noise
    centres = 0.32 * torch.randn(batch, heads, 24, width, device=DEVICE)
    chosen = torch.randint(0, 24, (batch, heads, length, 1), device=DEVICE).expand(shape)
    spread = {"clusters": 0.05, "duplicates": 0.0}[kind]
    return centres.gather(2, chosen) + spread * noise


@contextmanager
def poisoned() -> Iterator[None]:
    """Every uninitialized buffer starts as NaN, or as a large integer."""
    plain = {name: getattr(torch, name) for name in ("empty", "empty_like")}

    def poison(name: str) -> Callable[..., Tensor]:
        def make(*args: Any, **kwargs: Any) -> Tensor:
            made: Tensor = plain[name](*args, **kwargs)
            return made.fill_(math.nan if made.is_floating_point() else 77)

        return make

    for name in plain:
        setattr(torch, name, poison(name))
    try:
        yield
    finally:
        for name, function in plain.items():
            setattr(torch, name, function)


def relative(found: Tensor, wanted: Tensor) -> float:
    found, wanted = found.detach().double(), wanted.detach().double()
    return float((found - wanted).norm() / wanted.norm().clamp(min=1e-30))


KINDS = ("fresh", "crowded", "clusters", "duplicates", "wide", "far")
COEFFICIENT_CASES = [
    *((kind, (2, 3, 256, 64), (64, 128, 192), cap, torch.float32) for kind in KINDS for cap in (0.25, 0.06)),
    *((kind, (2, 2, 100, 40), (20, 50, 99), 0.06, torch.float32) for kind in ("fresh", "clusters")),
    *((kind, (1, 2, 512, 64), (64, 320, 448), CAP, torch.float32) for kind in KINDS),
    ("fresh", (1, 1, 1100, 64), (1024, 1099), CAP, torch.float32),
    *((kind, (2, 3, 256, 64), (64, 128, 192), CAP, torch.bfloat16) for kind in ("fresh", "far")),
    *((kind, (1, 2, 512, 64), (64, 320, 448), CAP, torch.bfloat16) for kind in ("fresh", "far")),
]


def check_coefficients() -> list[dict[str, Any]]:
    """Residual, coefficients and gradient of the fused solve beside fp64 and beside the paper's procedure."""
    rows: list[dict[str, Any]] = []
    for kind, shape, counts, cap, dtype in COEFFICIENT_CASES:
        keys = sample_keys(kind, *shape).to(dtype).requires_grad_()
        caps, sigmas = torch.tensor([cap], device=DEVICE), torch.tensor([SIGMA], device=DEVICE, requires_grad=True)
        moving = caps.clone().requires_grad_()
        with poisoned():
            alpha, offset = prefix_coefficients(keys, counts, moving, sigmas, ridge=RIDGE, op="triton")
            # Training reads only the coefficients: the offset's cotangent is then zero, and so are first requests.
            weights, lift = torch.randn_like(alpha), torch.randn_like(offset) * (len(rows) % 2)
            pulled, pulled_cap, pulled_sigma = torch.autograd.grad(
                [alpha, offset], [keys, moving, sigmas], [weights, lift]
            )
        exact_keys, exact_sigmas = keys.detach().double(), sigmas.detach().double()
        exact, exact_offset = prefix_coefficients(exact_keys, counts, caps.double(), exact_sigmas, ridge=RIDGE)
        alpha, offset = alpha.detach(), offset.detach()
        # The gradient jumps where the partition changes: it is compared on the partition that the fused solve found,
        # and keys that the two solves put elsewhere must lie on the border.
        found = (alpha > 0) & (alpha < caps)
        pull = (caps.double(), exact_sigmas, RIDGE, exact, found, weights.double(), lift.double())
        wanted, wanted_cap, wanted_sigma = pull_prefixes(exact_keys, *pull)
        flat = exact_keys.flatten(0, 1)
        repeated = caps.double().repeat(flat.shape[0])
        gram = gram_matrix(flat, exact_sigmas.repeat(flat.shape[0]))
        live = live_mask(counts, shape[2], gram)

        def residual(a: Tensor, o: Tensor, gram: Tensor = gram, live: Tensor = live, caps: Tensor = repeated) -> float:
            a, o = a.detach().double(), o.detach().double()
            off = (a.sum(-1) - 1.0).abs().amax() + (-a).clamp(min=0.0).amax() + (a - caps[0]).clamp(min=0.0).amax()
            return float(natural_residual(gram, live, a, o, caps, RIDGE).amax() + off)

        single = gram_matrix(flat.float(), sigmas.detach().repeat(flat.shape[0]))
        paper = solve_paper(single, counts, repeated.float(), RIDGE) if shape == (2, 3, 256, 64) else None
        moved = ((alpha > 0) != (exact > 0)) | ((alpha < caps) != (exact < caps.double()))
        slack = (
            2.0 * exact.flatten(0, 1) @ gram + RIDGE * exact.flatten(0, 1) - 1.0 + exact_offset.flatten(0, 1)[..., None]
        )
        room = torch.minimum(exact, caps.double() - exact)
        border = float((torch.maximum(room, slack.reshape(exact.shape).abs()) * moved).amax())
        ours = residual(alpha.flatten(0, 1), offset.flatten(0, 1))
        theirs = None if paper is None else residual(*paper)
        row: dict[str, Any] = {
            "keys": kind,
            "shape": shape,
            "prefixes": counts,
            "cap": cap,
            "dtype": str(dtype).removeprefix("torch."),
            "residual": ours,
            "residual_paper": theirs,
            "coefficient_error": float((alpha.double() - exact).abs().amax()),
            "same_partition": float((~moved.any(-1)).double().mean()),
            "border": border,
            "gradient_error": relative(pulled, wanted),
            "cap_gradient_error": relative(pulled_cap, wanted_cap),
            "sigma_gradient_error": relative(pulled_sigma, wanted_sigma),
        }
        # Where kernels are almost zero so is the gradient; there it is held to a part of the cotangent.
        wrong = float((pulled.double() - wanted).norm())
        limit = (5e-3 if dtype == torch.float32 else 1e-2) * float(wanted.norm()) + 1e-6 * float(weights.norm())
        # Width and cap have one number each, in which the terms of all keys cancel: it is held to a part of the terms.
        # Scaling all keys is scaling the width, so ⟨x, x̄⟩ = −σσ̄ bounds the terms of σ̄.
        terms = float((exact_keys - exact_keys[:, :, :32].mean(2, keepdim=True)).norm() * wanted.norm()) / SIGMA
        scales = {"sigma": (pulled_sigma, wanted_sigma, terms), "cap": (pulled_cap, wanted_cap, float(weights.norm()))}
        parts = {
            name: float((one.double() - other).abs().sum()) / (scale + 1e-3 * float(weights.norm()))
            for name, (one, other, scale) in scales.items()
        }
        row |= {f"{name}_gradient_part": part for name, part in parts.items()}
        right = wrong <= limit and max(parts.values()) <= 3e-4
        row["passed"] = bool(ours <= 2e-5 and border <= 1e-4 and right and torch.isfinite(pulled).all())
        rows.append(row)
    return rows


def check_readout() -> list[dict[str, Any]]:
    rows = []
    for shape, chunk, gated, biased, dtype in (
        ((2, 3, 256, 64), 64, 3, False, torch.float32),
        ((2, 3, 256, 64), 64, 3, False, torch.bfloat16),
        ((1, 2, 200, 40), 32, 5, True, torch.float32),
        ((1, 2, 1100, 64), 128, 8, True, torch.float32),
    ):
        batch, heads, length, width = shape
        parts = torch.randn(batch, length, 3, heads, width, device=DEVICE, dtype=dtype).permute(2, 0, 3, 1, 4).unbind(0)
        gates = torch.rand(batch, heads, gated, length, device=DEVICE)
        gates = torch.where(gates < 0.3, 0.0, gates)
        first = -(-length // chunk) - gated
        for c in range(gated):
            gates[:, :, c, (first + c) * chunk :] = 1.0
        bias = torch.randn(batch, heads, length, device=DEVICE) if biased else None
        inputs = [*parts, gates, *([] if bias is None else [bias])]

        def run(op: str, kind: torch.dtype | None, inputs: list[Tensor] = inputs, chunk: int = chunk) -> list[Tensor]:
            leaves = [(one if kind is None else one.to(kind)).detach().requires_grad_() for one in inputs]
            shift = leaves[4] if len(leaves) > 4 else None
            q, k, v, gates = leaves[:4]
            out = gated_readout(q, k, v, gates, shift, scale=0.125, chunk=chunk, op=op)
            torch.manual_seed(1)
            cotangent = torch.randn(out.shape, device=DEVICE).to(out.dtype)
            return [out, *torch.autograd.grad(out, leaves, cotangent)]

        with poisoned():
            found = run("triton", None)
        wanted = run("reference", torch.float64)
        errors = [relative(a, b) for a, b in zip(found, wanted, strict=True)]
        limit = 2e-5 if dtype == torch.float32 else 2e-2
        rows.append(
            {
                "shape": shape,
                "chunk": chunk,
                "gated": gated,
                "bias": biased,
                "dtype": str(dtype).removeprefix("torch."),
                "errors": dict(zip(("out", "queries", "keys", "values", "gates", "bias"), errors, strict=False)),
                "passed": all(error <= limit for error in errors),
            }
        )
    return rows


class Block(nn.Module):
    """Attention and a GELU network of four times the width, each after a norm and beside the residual stream."""

    def __init__(self, width: int, attention: nn.Module) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = attention
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """One layer, (B, T, width) → (B, T, width)."""
        x = x + self.attention(self.first(x))
        out: Tensor = x + self.mlp(self.second(x))
        return out


class ByteModel(nn.Module):
    """4 layers, width 256, 4 heads, block 256, learned positions, tied head: the 3.22M model (paper, App. B)."""

    def __init__(self, attention: Callable[[int, int], nn.Module], *, width: int = 256, length: int = 256) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(256, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, attention(width, 4)) for _ in range(4)))
        self.last = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, text: Tensor) -> Tensor:
        """Mean cross entropy of the next byte: text (B, T + 1)."""
        x = self.embed(text[:, :-1]) + self.place.weight[: text.shape[1] - 1]
        logits = self.last(self.blocks(x)) @ self.embed.weight.T
        return functional.cross_entropy(logits.flatten(0, 1).float(), text[:, 1:].flatten())


ATTENTION: dict[str, Callable[[int, int], nn.Module]] = {
    "gate": lambda width, heads: SupportVectorAttention(width, heads, cap=CAP, sigma=SIGMA, chunk=64),
    "softmax": lambda width, heads: SoftmaxAttention(width, heads),
    "fused softmax": lambda width, heads: SoftmaxAttention(width, heads, fused=True),
}


def check_model() -> list[dict[str, Any]]:
    """Loss and gradients of the whole model: fused ops beside the reference ops."""
    torch.manual_seed(0)
    model = ByteModel(ATTENTION["gate"]).to(DEVICE)
    text = torch.randint(0, 256, (4, 257), device=DEVICE)
    found = {}
    for op in ("triton", "reference"):
        for module in model.modules():
            if isinstance(module, SupportVectorAttention):
                module.op = module.gate.op = op
        model.zero_grad()
        loss = model(text)
        loss.backward()
        gradient = torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])
        found[op] = (float(loss.detach()), gradient)
    error = relative(found["triton"][1], found["reference"][1])
    difference = abs(found["triton"][0] - found["reference"][0])
    return [{"loss_difference": difference, "gradient_error": error, "passed": difference < 1e-5 and error < 1e-3}]


def median_ms(run: Callable[[], Any], seconds: float = 0.4, least: int = 5) -> float:
    """Median over repetitions of one run, by events, after warming up."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    event: Callable[..., Any] = torch.cuda.Event
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < least or (time.perf_counter() < end and len(times) < 200):
        begin, finish = event(enable_timing=True), event(enable_timing=True)
        begin.record()
        run()
        finish.record()
        finish.synchronize()
        times.append(begin.elapsed_time(finish))
    return statistics.median(times)


def captured(run: Callable[[], Any]) -> Callable[[], Any]:
    """The same launches as one CUDA graph."""
    make: Callable[[], Any] = torch.cuda.Stream
    stream = make()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def time_ops() -> list[dict[str, Any]]:
    """The solve, its gradient and the readout alone, in the model's shapes, beside what the arithmetic takes."""
    from expunge.torch.ops import fused_readout
    from expunge.torch.ops.coefficients import fused_coefficients

    counts = (64, 128, 192)
    rows = []
    for batch in (16, 64):
        for kind in KINDS:
            keys = sample_keys(kind, batch, 4, 256, 64)
            cap, sigma = torch.tensor([CAP], device=DEVICE), torch.tensor([SIGMA], device=DEVICE)
            report = torch.zeros(batch, 4, 3, 2, dtype=torch.int32, device=DEVICE)
            alpha, offset, margin = fused_coefficients.solve_prefixes(keys, counts, cap, sigma, RIDGE, report=report)
            bar, lift = torch.randn_like(alpha), torch.randn_like(offset)
            solve = partial(fused_coefficients.solve_prefixes, keys, counts, cap, sigma, RIDGE)
            pull = partial(fused_coefficients.pull_prefixes, keys, counts, cap, sigma, RIDGE, alpha, margin, bar, lift)
            solve_ms = median_ms(captured(solve))
            pull_ms = median_ms(captured(partial(pull, with_cap=False, with_sigma=False)))
            products = report[..., 0].double()
            squares = torch.tensor([float(n) ** 2 for n in counts], device=DEVICE)
            # A product takes 2n² operations on the fp32 units; the Gram matrix 3 · n²d on the matrix units in tf32.
            vector = float((products.double() * 2.0 * squares).sum()) / 67e12
            matrix = 3.0 * batch * 4 * float(squares.sum()) * 64 / 495e12
            moved = (keys.numel() * 4 + alpha.numel() * 5) / 4.3e12
            rows.append(
                {
                    "batch": batch,
                    "keys": kind,
                    "solve_ms": solve_ms,
                    "pull_ms": pull_ms,
                    "products_mean": float(products.mean()),
                    "products_most": int(products.max()),
                    "converged": float((report[..., 1] % 2).double().mean()),
                    "margin_mean": float(margin.double().sum(-1).mean()),
                    "floor_ms": 1e3 * max(vector + matrix, moved),
                }
            )
        q, k, v = torch.randn(batch, 256, 3, 4, 64, device=DEVICE).permute(2, 0, 3, 1, 4).unbind(0)
        gates = torch.rand(batch, 4, 3, 256, device=DEVICE)
        out, level = fused_readout.forward(q, k, v, gates, None, scale=0.125, chunk=64)
        cotangent = torch.randn_like(out)
        look = partial(fused_readout.forward, q, k, v, gates, None, scale=0.125, chunk=64)
        back = partial(fused_readout.backward, q, k, v, gates, None, out, level, cotangent, scale=0.125, chunk=64)
        forward_ms, backward_ms = median_ms(captured(look)), median_ms(captured(back))
        rows.append({"batch": batch, "keys": "readout", "forward_ms": forward_ms, "backward_ms": backward_ms})
    return rows


def one_step(model: nn.Module, text: Tensor, mode: str) -> None:
    """Forward, loss and backward."""
    for parameter in model.parameters():
        parameter.grad = None
    with torch.autocast("cuda", torch.bfloat16, enabled=mode == "bf16"):
        loss = model(text)
    loss.backward()


def time_steps() -> list[dict[str, Any]]:
    rows = []
    for mode in ("fp32", "tf32", "bf16"):
        torch.set_float32_matmul_precision("highest" if mode == "fp32" else "high")
        for batch in (16, 64):
            text = torch.randint(0, 256, (batch, 257), device=DEVICE)
            row: dict[str, Any] = {"precision": mode, "batch": batch}
            for name, attention in ATTENTION.items():
                torch.manual_seed(0)
                model = ByteModel(attention).to(DEVICE)

                step = partial(one_step, model, text, mode)
                row[f"{name} eager_ms"] = median_ms(step)
                row[f"{name} graph_ms"] = median_ms(captured(step))
            for timing in ("eager", "graph"):
                row[f"gate / softmax {timing}"] = row[f"gate {timing}_ms"] / row[f"softmax {timing}_ms"]
                row[f"gate / fused {timing}"] = row[f"gate {timing}_ms"] / row[f"fused softmax {timing}_ms"]
            rows.append(row)
    torch.set_float32_matmul_precision("highest")
    return rows


def trained_model(weights: Path, attention: Callable[[int, int], nn.Module]) -> ByteModel:
    """The byte model with the weights that a study saved."""
    saved = torch.load(weights, map_location=DEVICE, weights_only=True)["weights"]
    model = ByteModel(attention).to(DEVICE)
    state = {"embed.weight": saved["token"], "place.weight": saved["position"]}
    state |= {"last.weight": saved["final.gain"], "last.bias": saved["final.shift"]}
    for layer in range(4):
        for ours, theirs in (("first", "attention"), ("second", "mlp")):
            state[f"blocks.{layer}.{ours}.weight"] = saved[f"{layer}.{theirs}.gain"]
            state[f"blocks.{layer}.{ours}.bias"] = saved[f"{layer}.{theirs}.shift"]
        for ours, theirs in (("attention.qkv", "attention.qkv"), ("attention.out", "attention.out")):
            state[f"blocks.{layer}.{ours}.weight"] = saved[f"{layer}.{theirs}"].T
        for ours, theirs in (("mlp.0", "mlp.up"), ("mlp.2", "mlp.down")):
            state[f"blocks.{layer}.{ours}.weight"] = saved[f"{layer}.{theirs}"].T
            state[f"blocks.{layer}.{ours}.bias"] = torch.zeros_like(saved[f"{layer}.{theirs}"][0])
    model.load_state_dict(state)
    return model


def time_trained(weights: Path, corpus: Path) -> list[dict[str, Any]]:
    """A step of a trained model on real text: its keys are harder to solve for than fresh ones."""
    content = lzma.decompress(corpus.read_bytes())[-1_000_000:]
    numbers = torch.frombuffer(bytearray(content), dtype=torch.uint8).to(DEVICE).long()
    rows = []
    for mode in ("fp32", "bf16"):
        for batch in (16, 64):
            begin = torch.randint(0, len(numbers) - 257, (batch, 1), device=DEVICE)
            text = numbers[begin + torch.arange(257, device=DEVICE)]
            row: dict[str, Any] = {"precision": mode, "batch": batch}
            for name, attention in ATTENTION.items():
                model = trained_model(weights, attention)
                if name == "gate" and mode == "fp32":
                    row["bits"] = float(model(text).detach()) / math.log(2.0)
                step = partial(one_step, model, text, mode)
                row[f"{name} eager_ms"] = median_ms(step)
                row[f"{name} graph_ms"] = median_ms(captured(step))
            for timing in ("eager", "graph"):
                row[f"gate / softmax {timing}"] = row[f"gate {timing}_ms"] / row[f"softmax {timing}_ms"]
                row[f"gate / fused {timing}"] = row[f"gate {timing}_ms"] / row[f"fused softmax {timing}_ms"]
            rows.append(row)
    return rows


def time_contexts() -> list[dict[str, Any]]:
    """One attention layer, forward and backward, at a constant number of tokens."""
    rows = []
    for length in CONTEXTS:
        batch = TOKENS // length
        row: dict[str, Any] = {"length": length, "batch": batch}
        for name, attention in ATTENTION.items():
            torch.manual_seed(0)
            layer = attention(256, 4).to(DEVICE)
            for parameter in layer.parameters():
                nn.init.normal_(parameter, std=0.02)
            x = torch.randn(batch, length, 256, device=DEVICE, requires_grad=True)
            cotangent = torch.randn_like(x)

            def step(layer: nn.Module = layer, x: Tensor = x, cotangent: Tensor = cotangent) -> None:
                x.grad = None
                layer(x).backward(cotangent)

            row[f"{name} ms"] = median_ms(captured(step), least=3)
        row["gate / softmax"] = row["gate ms"] / row["softmax ms"]
        row["gate / fused"] = row["gate ms"] / row["fused softmax ms"]
        rows.append(row)
    return rows


PARTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "coefficients": check_coefficients,
    "readout": check_readout,
    "model": check_model,
    "ops": time_ops,
    "steps": time_steps,
    "contexts": time_contexts,
}
CHECKS = ("coefficients", "readout", "model")


def brief(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, dict):
        return " ".join(f"{key}:{brief(one)}" for key, one in value.items())
    return str(value)


def compile_ahead(parts: list[str]) -> None:
    """Compilation is most of a first run: let one process per part fill Triton's cache at the same time."""
    command = [sys.executable, __file__, "--only"]
    children = [
        subprocess.Popen([*command, part], stdout=subprocess.DEVNULL, env=os.environ)  # noqa: S603 — this file
        for part in parts
    ]
    for child in children:
        child.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), help="run these parts")
    parser.add_argument("--out", type=Path, help="where to write the JSON; nothing is written with --only and no --out")
    parser.add_argument("--weights", type=Path, help="a trained 3.22M hybrid of studies/, to time its step too")
    parser.add_argument("--corpus", type=Path, help="xz-compressed text for that")
    parser.add_argument("--ahead", action="store_true", help="compile in parallel processes first")
    options = parser.parse_args()
    chosen = options.only or list(PARTS)
    if options.ahead:
        started = time.perf_counter()
        compile_ahead([part for part in chosen if part in ("coefficients", "readout", "steps", "contexts", "ops")])
        print(f"compiled in {time.perf_counter() - started:.0f} s", flush=True)
    record: dict[str, Any] = {"machine": describe()}
    for part in chosen:
        started = time.perf_counter()
        torch.manual_seed(0)
        rows = PARTS[part]()
        record[part] = rows
        print(f"== {part} ({time.perf_counter() - started:.1f} s)")
        for row in rows:
            if part not in CHECKS or not row["passed"] or len(rows) < 8:
                print("; ".join(f"{key} {brief(value)}" for key, value in row.items()))
        if part in CHECKS:
            failed = [row for row in rows if not row["passed"]]
            print(f"{len(rows) - len(failed)} of {len(rows)} passed", flush=True)
            if failed and not options.only:
                print("a check failed: nothing is timed")
                return 1
    if options.weights is not None and options.corpus is not None:
        record["trained"] = time_trained(options.weights, options.corpus)
        print("== trained")
        for row in record["trained"]:
            print("; ".join(f"{key} {brief(value)}" for key, value in row.items()))
    target = options.out or (None if options.only else RESULTS / "gate.json")
    if target is not None:
        write_result(target, record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
