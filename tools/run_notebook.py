"""Run examples/your_own_data.ipynb in a clean kernel, and keep what it prints and draws in the file.

Run `python tools/run_notebook.py`, or `make notebook`. A test runs the notebook likewise and compares: outputs differ
from run to run in digests and random identifiers only, which `comparable` masks, and pictures in how text is smoothed.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import nbformat
from nbclient import NotebookClient
from PIL import Image

ROOT: Final = Path(__file__).parent.parent
COLOURS: Final = 128
NOTEBOOK: Final = ROOT / "examples" / "your_own_data.ipynb"
# SHA-256 in hexadecimal, and UUIDs: salts are random, and so is what commits to them.
RANDOM: Final = re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\b|\b[0-9.e-]+ m?s\b")


def executed(path: Path = NOTEBOOK) -> Any:
    """The notebook with fresh outputs; standard error and what tells of the machine are left out."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    with TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False)
        client.execute(cwd=folder)
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = _with_few_colours(output.data["image/png"])
    return notebook


def _with_few_colours(picture: str) -> str:
    """A PNG in base64, reduced to a palette: a quarter of the size."""
    found, reduced = Image.open(BytesIO(b64decode(picture))).convert("RGB"), BytesIO()
    few = found.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
    few.save(reduced, format="PNG", optimize=True)
    return b64encode(reduced.getvalue()).decode("ascii")


def comparable(notebook: Any) -> list[list[dict[str, str]]]:
    """What each cell shows, as text; of a picture only that it is there."""
    return [[_shown(output) for output in cell.get("outputs", ())] for cell in notebook.cells]


def _shown(output: Any) -> dict[str, str]:
    if "text" in output:
        return {"text": RANDOM.sub("…", output["text"])}
    data = output.get("data", {})
    return {kind: "" if kind == "image/png" else RANDOM.sub("…", str(data[kind])) for kind in sorted(data)}


def main() -> None:
    """Run it and write it."""
    nbformat.write(executed(), NOTEBOOK)  # type: ignore[no-untyped-call]
    print(f"wrote {NOTEBOOK.relative_to(ROOT)}, {NOTEBOOK.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
