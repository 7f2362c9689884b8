"""The results page, from the committed JSON: ``python -m studies.summary`` prints the tables, ``--write`` renews them.

Tables stand between markers in docs/results/training.md; the words around them are written by hand. ``--plots`` draws
the curves again. A study without results is left out, never filled in.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from studies.record import RESULTS, read
from studies.statistics import paired

__all__ = ["COMPARISONS", "main", "page", "tables"]

PAGE = Path(__file__).parent.parent / "docs" / "results" / "training.md"
# Where the JSON prints more digits than a seed's spread carries.
DIGITS = 3
# Panels of the figure in a row.
PANELS = 3


@dataclass(frozen=True)
class Comparison:
    """A pair of runs and what the paper reports for it."""

    name: str
    title: str
    paper: str


COMPARISONS = (
    Comparison("3m", "enwik8, 3.22M, the paper's recipe", "2.178 / 2.383, −8.6%, p = 0.001"),
    Comparison("3m-tuned", "enwik8, 3.22M, third tuning", "–"),
    Comparison("tinystories", "TinyStories, 3.22M, the paper's recipe", "lower on 3 of 3, p = 0.057"),
    Comparison("10m-paper", "enwik8, 10M, the paper's recipe", "+2.5% (20 MB of text)"),
    Comparison("10m-tuned", "enwik8, 10M, first tuning", "–"),
    Comparison("10m-half", "enwik8, 10M, third tuning, 3,000 steps", "–"),
    Comparison("10m-third", "enwik8, 10M, third tuning, 6,000 steps", "–"),
    Comparison("10m-dropout", "enwik8, 10M, with dropout, 6,000 steps", "–"),
    Comparison("10m-long", "GCIDE, 20 MB, 10M, seventh tuning", "+2.5% (20 MB of enwik8)"),
    Comparison("32m-half", "enwik8, 32M, with dropout, 3,000 steps", "–"),
    Comparison("32m", "enwik8, 32M, with dropout, 6,000 steps", "behind, one seed"),
)


def _exists(name: str) -> bool:
    """Whether there is such a result; a run that stopped before its end is none yet, unless every model diverged."""
    if not (RESULTS / f"{name}.json").exists():
        return False
    content = read(name)
    return content.get("complete", True) or all(bits is None for bits in content["final_bits"])


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def _windows(content: Any) -> str:
    widths = [slot["window"] for slot in content["run"]["slots"]]
    return str(widths[0]) if min(widths) == max(widths) else f"{min(widths)}–{max(widths)}"


def _bits(number: float | None) -> str:
    return "diverged" if number is None else f"{number:.{DIGITS}f}"


def _interval(low: float, high: float) -> str:
    return f"[{low:+.{DIGITS}f}, {high:+.{DIGITS}f}]".replace("-", "−")


def compared(measure: str) -> list[str]:
    """One row a comparison, by ``best_bits`` (the paper's measure) or ``test_bits``."""
    rows = []
    for comparison in COMPARISONS:
        names = f"{comparison.name}-hybrid", f"{comparison.name}-window"
        if not all(_exists(name) for name in names):
            continue
        hybrid, window = (read(name) for name in names)
        if any(None in content.get(measure, [None]) for content in (hybrid, window)):
            continue
        pairs = list(zip(hybrid[measure], window[measure], strict=True))
        found = paired(hybrid[measure], window[measure]) if len(pairs) > 1 else None
        softmax = f"{comparison.name}-softmax"
        reference = f"{_mean(read(softmax)[measure]):.{DIGITS}f}" if _exists(softmax) else "–"
        relative = _mean([first / second - 1 for first, second in pairs])
        cells = (
            comparison.title,
            f"{_mean(hybrid[measure]):.{DIGITS}f}",
            f"{_mean(window[measure]):.{DIGITS}f} ({_windows(window)})",
            reference,
            _interval(*found.interval) if found else "–",
            f"{100 * relative:+.1f}%".replace("-", "−"),
            f"{found.p:.2g}" if found else "–",
            f"{sum(first < second for first, second in pairs)} of {len(pairs)}",
            comparison.paper,
        )
        rows.append(f"| {' | '.join(cells)} |")
    if not rows:
        return []
    return [
        "| study | hybrid | window (visible tokens) | full softmax | 95% of the difference | mean relative | p, paired "
        "| hybrid lower | paper, hybrid / window |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows,
    ]


ROUNDS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")


def candidates(name: str, title: str) -> list[str]:
    """Every candidate of a run, by final validation bits."""
    if not _exists(name):
        return []
    content = read(name)
    counts = content.get("active_keys")
    lines = [
        f"| {title}, {content['run']['steps']:,} steps | rate | warm-up | decay | dropout | final bits | best bits | "
        + ("mean active keys of 448 |" if counts else "visible tokens |"),
        "|---|---|---|---|---|---|---|---|",
    ]
    ended = [math.inf if bits is None else bits for bits in content["final_bits"]]
    for place in sorted(range(len(ended)), key=ended.__getitem__):
        slot = content["run"]["slots"][place]
        recipe = slot["recipe"]
        last = f"{_mean(counts[place]):.0f}" if counts else str(slot["window"])
        lines.append(
            f"| {slot['label']} | {recipe['rate']:g} | {recipe['warmup']} | {recipe.get('decay', 0.1):g} | "
            f"{recipe.get('dropout', 0):g} | {_bits(content['final_bits'][place])} | "
            f"{_bits(content['best_bits'][place])} | {last} |"
        )
    return lines


def tuned() -> list[str]:
    """The candidates of both arms in every round."""
    lines: list[str] = []
    for round_ in ROUNDS:
        stage = "tune-10m" if round_ == "first" else f"tune-10m-{round_}"
        for arm in ("hybrid", "window"):
            table = candidates(f"{stage}-{arm}", f"{round_} round, {arm}")
            lines += ["", *table] if table else []
    return lines[1:]


def repeated() -> list[str]:
    """How much two runs of one setting differ, where the window is the whole block and full softmax ran beside it."""
    rows = []
    for comparison in COMPARISONS:
        names = f"{comparison.name}-window", f"{comparison.name}-softmax"
        if not all(_exists(name) for name in names):
            continue
        window, softmax = (read(name) for name in names)
        if any(slot["window"] < window["run"]["shape"]["block"] for slot in window["run"]["slots"]):
            continue
        pairs = zip(window["best_bits"], softmax["best_bits"], strict=True)
        apart = [abs(first - second) for first, second in pairs]
        rows.append(f"| {comparison.title} | {_bits(median(apart))} | {_bits(max(apart))} |")
    if not rows:
        return []
    head = "| one setting run twice, difference in best validation | median of the seeds | largest |"
    return [head, "|---|---|---|", *rows]


def learning() -> list[str]:
    """Mean bits of both arms along the comparisons at 10M and 32M that gave both the same optimiser."""
    lines: list[str] = []
    for name in ("10m-half", "10m-third", "10m-dropout", "10m-long", "32m"):
        if not all(_exists(f"{name}-{arm}") for arm in ("hybrid", "window")):
            continue
        hybrid, window = (read(f"{name}-{arm}")["curve"] for arm in ("hybrid", "window"))
        lines += [
            "",
            f"| {name}, step | validation, hybrid | window | training, hybrid | window |",
            "|---|---|---|---|---|",
        ]
        for one, other in zip(hybrid, window, strict=True):
            bits = [_mean(point[kind]) for kind in ("valid_bits", "train_bits") for point in (one, other)]
            lines.append(f"| {one['step']:,} | {' | '.join(f'{value:.{DIGITS}f}' for value in bits)} |")
    return lines[1:]


def control() -> list[str]:
    """What the weights do without the solve."""
    kinds = "", "-dropout", "-long"
    tables = [candidates(f"control-10m{kind}-hybrid", "1/n in the place of the solve") for kind in kinds]
    return [line for table in tables if table for line in ("", *table)][1:]


def beside() -> list[str]:
    """The hybrid on the long text beside models with its seeds and batches: each less the hybrid, seed by seed."""
    arms = (
        ("hybrid", "10m-long-hybrid"),
        ("window, its own tuning", "10m-long-window"),
        ("full softmax, the hybrid's optimiser", "10m-long-rate-softmax"),
        ("1/n in the place of the solve", "10m-long-even-hybrid"),
    )
    if not all(_exists(name) for _, name in arms):
        return []
    lines = [
        "| 20 MB, 10M, 6,000 steps, five seeds | validation | less the hybrid, 95% | p | hybrid lower "
        "| test | less the hybrid, 95% | p | hybrid lower |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    hybrid = read(arms[0][1])
    for title, name in arms:
        content, cells = read(name), [title]
        for measure in ("best_bits", "test_bits"):
            cells.append(_bits(_mean(content[measure])))
            if content == hybrid:
                cells += ["–"] * 3
                continue
            found = paired(content[measure], hybrid[measure])
            lower = sum(first < second for first, second in zip(hybrid[measure], content[measure], strict=True))
            cells += [_interval(*found.interval), f"{found.p:.2g}", f"{lower} of {found.count}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def gates() -> list[str]:
    """What the trained gates do, layer by layer, over all seeds."""
    rows = []
    for comparison in COMPARISONS:
        name = f"{comparison.name}-hybrid"
        if not _exists(name) or not read(name).get("active_keys"):
            continue
        content = read(name)
        block, chunk = content["run"]["shape"]["block"], content["run"]["slots"][0]["recipe"]["gate"]["chunk"]
        last = (block - 1) // chunk * chunk
        active = [_mean(list(layer)) / last for layer in zip(*content["active_keys"], strict=True)]
        spreads = [_mean(list(layer)) for layer in zip(*content["key_spread"], strict=True)]
        powers = [_mean([_mean(head) for head in layer]) for layer in zip(*content.get("head_powers", []), strict=True)]
        rows.append(
            f"| {comparison.title} | {' / '.join(f'{share:.2f}' for share in active)} | "
            f"{' / '.join(f'{spread:.1f}' for spread in spreads)} | "
            f"{' / '.join(f'{power:.2f}' for power in powers) or '–'} |"
        )
    if not rows:
        return []
    head = (
        "| trained gates, layer by layer | share of active keys at the last boundary | spread of the keys, in widths "
        "| mean of the learned powers |"
    )
    return [head, "|---|---|---|---|", *rows]


def student() -> list[str]:
    """Fall of the student's error."""
    if not _exists("student"):
        return []
    falls = sorted(row["fall"] for row in read("student")["rows"])
    middle = median(falls)
    above = sum(fall >= 0.99 for fall in falls)
    return [
        "| student–teacher | paper | here |",
        "|---|---|---|",
        f"| fall of the squared error in 200 steps, median of {len(falls)} seeds | −99% | −{100 * middle:.1f}% |",
        f"| seeds that fall by 99% or more | – | {above} of {len(falls)} |",
        f"| least fall | – | −{100 * falls[0]:.1f}% |",
    ]


def forget() -> list[str]:
    """What is told of a secret."""
    if not _exists("forget"):
        return []
    content = read("forget")
    count, others = content["trials"], content["trials"] * (content["facts"] - 1)
    return [
        "| forget-QA | paper | here |",
        "|---|---|---|",
        f"| secret told before | 1.00 | {content['told_before'] / count:.3f} |",
        f"| told after deletion (a guess: {1 / content['words']:.3f}) | 0.04 | {content['told_after'] / count:.3f} |",
        f"| of these, another fact has the same answer | – | {content['told_after_with_shared_word']} of "
        f"{content['told_after']} |",
        f"| told after decay × 0.01 | 0.95 | {content['told_decayed'] / count:.3f} |",
        f"| other facts answered, before / after | – | {content['others_before'] / others:.3f} / "
        f"{content['others_after'] / others:.3f} |",
    ]


def quiz() -> list[str]:
    """Answers right in the quiz, arm by arm."""
    if not _exists("recall-quiz"):
        return []
    from studies.recall import guessed

    lines = ["| quiz (multi-query recall) | answers right, seed by seed |", "|---|---|"]
    for row in read("recall-quiz")["rows"]:
        name = row["arm"] + (f", {row['window']} visible tokens" if row["window"] else "")
        lines.append(f"| {name} | {', '.join(f'{share:.3f}' for share in row['right'])} |")
    return [*lines, f"| expected of repeating what was asked before, and guessing the rest | {guessed():.3f} |"]


def pace() -> list[str]:
    """What the runs cost."""
    rows = []
    for comparison in COMPARISONS:
        for arm in ("hybrid", "window", "softmax"):
            if _exists(f"{comparison.name}-{arm}"):
                content = read(f"{comparison.name}-{arm}")
                steps, seconds = content["steps"], content["step_seconds"]
                rows.append(
                    f"| {comparison.name}, {arm} | {len(content['run']['slots'])} | {steps:,} | {seconds:.0f} | "
                    f"{1e3 * seconds / max(1, steps):.1f} | {content['tokens_per_second'] / 1e6:.2f} | "
                    f"{content['machine']['device']} |"
                )
    if not rows:
        return []
    head = "| run | seeds at once | steps | seconds | ms a step | million tokens/s | machine |"
    return [head, "|---|---|---|---|---|---|---|", *rows]


PARTS: dict[str, Callable[[], list[str]]] = {
    "validation": lambda: compared("best_bits"),
    "test": lambda: compared("test_bits"),
    "repeated": repeated,
    "learning": learning,
    "tuning": tuned,
    "control": control,
    "beside": beside,
    "gates": gates,
    "student": student,
    "forget": forget,
    "quiz": quiz,
    "pace": pace,
}


def tables() -> dict[str, str]:
    """Every table, by the name of its place in the page."""
    return {name: "\n".join(make()) for name, make in PARTS.items()}


def page(text: str) -> str:
    """The page with its tables renewed."""
    for name, table in tables().items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        body = f"{begin}\n\n{table}\n\n{end}" if table else f"{begin}\n{end}"
        text = re.sub(f"{begin}.*?{end}", lambda _, body=body: body, text, flags=re.DOTALL)  # type: ignore[misc]
    return text


def plot(folder: Path = RESULTS) -> None:
    """Validation curves, one panel a comparison."""
    from matplotlib.figure import Figure

    shown = [c for c in COMPARISONS if _exists(f"{c.name}-hybrid") and _exists(f"{c.name}-window")]
    rows = -(-len(shown) // PANELS)
    figure = Figure(figsize=(4.2 * min(PANELS, len(shown)), 3.4 * rows), layout="constrained")
    colours = {"hybrid": "#0b6e4f", "window": "#c8553d", "softmax": "#7a7a7a"}
    for place, comparison in enumerate(shown):
        axes = figure.add_subplot(rows, min(PANELS, len(shown)), place + 1)
        for arm, colour in colours.items():
            if not _exists(f"{comparison.name}-{arm}"):
                continue
            curve = read(f"{comparison.name}-{arm}")["curve"]
            steps = [point["step"] for point in curve]
            seeds = list(zip(*(point["valid_bits"] for point in curve), strict=True))
            for seed, values in enumerate(seeds):
                axes.plot(steps, values, color=colour, alpha=0.35, linewidth=0.8)
                if seed == 0:
                    means = [_mean(point["valid_bits"]) for point in curve]
                    axes.plot(steps, means, color=colour, linewidth=2, label=f"{arm}, mean")
        arms = [read(f"{comparison.name}-{arm}")["curve"] for arm in colours if _exists(f"{comparison.name}-{arm}")]
        lowest = min(min(point["valid_bits"]) for curve in arms for point in curve)
        axes.set_ylim(lowest * 0.97, max(_mean(curve[1]["valid_bits"]) for curve in arms) * 1.02)
        axes.set_title(comparison.title, fontsize=9)
        axes.set_xlabel("step")
        axes.set_ylabel("validation bits a byte" if place % PANELS == 0 else "")
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8, frameon=False)
    figure.savefig(folder / "curves.png", dpi=130)


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.summary", description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--plots", action="store_true")
    given = parser.parse_args(arguments)
    if given.plots:
        plot()
    if given.write:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    print("\n\n".join(table for table in tables().values() if table))


if __name__ == "__main__":
    main()
