"""Make the pictures of docs/guides/page.md: the demo as `expunge serve --demo` shows it, in a real browser.

And the picture of a certificate document, and of commands in terminals of 80 and 120 columns (docs/guides/cli.md). Run
`python tools/screenshots.py`, with ``--terminals`` for those alone, and with ``--all FOLDER`` to look at every command
at both widths. It needs Chromium, as the page's tests do; the demo is made afresh in a temporary folder and thrown
away. Pictures are reduced to a palette, which keeps each of them small.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FilePayload, Page

ROOT: Final = Path(__file__).parent.parent
IMAGES: Final = ROOT / "docs" / "guides" / "images"
HOURS: Final = ROOT / "src" / "expunge" / "datasets" / "data" / "icu" / "hours.csv"
COLOURS: Final = 192
TERMINAL_COLOURS: Final = 24
WIDE: Final = (1280, 800)
NARROW: Final = (360, 740)
PATIENT: Final = "patient-10035631"


@contextmanager
def demo(folder: Path) -> Iterator[str]:
    """The running demo's address, with a token behind it."""
    words = [sys.executable, "-m", "expunge", "serve", "--demo", "--folder", str(folder / "demo"), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:  # noqa: S603
        try:
            lines = iter(process.stdout or ())
            found = next(match for line in lines if (match := re.search(r"http://\S+", line)))
            yield found.group()
        finally:
            process.terminate()


class Camera:
    """A browser at the demo's address, and what it is pointed at."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.browser, self.address = browser, address
        self.base = address.partition("#")[0]

    @contextmanager
    def opened(self, route: str, size: tuple[int, int] = WIDE, scheme: Any = "light") -> Iterator[Page]:
        """A view, signed in."""
        viewport: Any = {"width": size[0], "height": size[1]}
        context = self.browser.new_context(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
        page = context.new_page()
        page.goto(self.address)
        page.wait_for_selector("p.head.passed")
        page.goto(self.base + route)
        page.wait_for_selector("main[aria-busy=false] h1")
        page.wait_for_timeout(300)
        yield page
        context.close()


def take(page: Page, name: str) -> None:
    """Write what is on screen, with few colours."""
    page.wait_for_timeout(300)
    keep(page.screenshot(), IMAGES / f"{name}.png", COLOURS)


def keep(picture: bytes, path: Path, colours: int) -> None:
    """Write a picture with few colours."""
    found = Image.open(io.BytesIO(picture)).convert("RGB")
    few = found.quantize(colours, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def overview(camera: Camera) -> None:
    """Every memory."""
    with camera.opened("#/memories") as page:
        take(page, "page-overview")


def memory_map(camera: Camera) -> None:
    """One memory, on a wide screen by day and on a narrow one by night."""
    with camera.opened("#/m/icu-plane/map") as page:
        page.locator("table.entries tbody button").nth(1).click()
        page.wait_for_selector(".payload dl")
        take(page, "page-map")
    with camera.opened("#/m/icu-plane/map", NARROW, "dark") as page:
        take(page, "page-map-narrow")


def question(camera: Camera) -> None:
    """An answer, and who carries it."""
    with camera.opened("#/m/icu-plane/ask") as page:
        page.get_by_label("Or with numbers").fill("2.5, 0.5")
        page.get_by_role("button", name="Ask").click()
        page.wait_for_selector(".shares")
        take(page, "page-ask")


def certificates(camera: Camera) -> None:
    """Warranties that edits have used up, some of them altogether."""
    with camera.opened("#/m/conversations/certificates") as page:
        take(page, "page-certificates")


def erasure(camera: Camera) -> None:
    """A patient in one memory, and in all of them before and after."""
    with camera.opened("#/m/icu-plane/erase") as page:
        page.get_by_label("A subject, in this memory").check()
        page.get_by_label("Whose entries").fill(PATIENT)
        page.get_by_role("button", name="Preview").click()
        page.wait_for_selector("svg.chart path.mark.erased")
        take(page, "page-preview")
    with camera.opened("#/erase") as page:
        page.get_by_label("Who is to be erased?").fill(PATIENT)
        page.get_by_role("button", name="Search").click()
        page.get_by_role("button", name=f"See what there is of {PATIENT}").click()
        page.get_by_label("Case number").fill("DSR-2026-114")
        page.get_by_label("Reason").select_option(label="The person asked for it")
        page.locator(".person").scroll_into_view_if_needed()
        take(page, "page-person")
        page.get_by_label("Type the name to confirm").fill(PATIENT)
        page.get_by_role("button", name=re.compile("for good")).click()
        page.wait_for_selector(".erasure")
        take(page, "page-erased")


def ledger(camera: Camera) -> None:
    """Every edit so far."""
    with camera.opened("#/ledger") as page:
        take(page, "page-ledger")


def verification(camera: Camera) -> None:
    """A receipt with one letter of its signed text changed."""
    with camera.opened("#/ledger/0", scheme="dark") as page:
        page.get_by_text("Raw text").click()
        texts = {
            name: page.get_by_role("region", name=name, exact=True).inner_text()
            for name in ("Envelope", "Key of the log")
        }
        texts["Proof"] = page.get_by_role("region", name="Proof of inclusion", exact=True).inner_text()
        page.goto(f"{camera.base}#/verify")
        at = texts["Envelope"].index('"payload":"') + 400
        letter = "A" if texts["Envelope"][at] != "A" else "B"
        forged = texts["Envelope"][:at] + letter + texts["Envelope"][at + 1 :]
        texts_of: dict[str, str] = {"receipt.json": forged, "receipt.tlog-proof": texts["Proof"]}
        page.get_by_label("Trusted keys").fill(texts["Key of the log"])
        files: list[FilePayload] = [
            {"name": name, "mimeType": "text/plain", "buffer": text.encode()} for name, text in texts_of.items()
        ]
        page.locator("#verifier-files").set_input_files(files)
        page.wait_for_selector(".verdict.failed")
        page.evaluate("() => scrollTo(0, 0)")
        take(page, "page-verify")


def document(browser: Browser, folder: Path) -> None:
    """A certificate document with all that one can have, opened from a disk."""
    import numpy as np
    from rfc3161_client import TimestampRequestBuilder

    import expunge
    from cosigning import cosign_checkpoint
    from expunge.attestation.certificate_document import certificate_contents, certificate_html
    from expunge.ledger.certificate.contents import Revealed
    from expunge.ledger.signing import SigningKey
    from witnessing.stamping_authority import make_authority, stamp

    rng = np.random.default_rng(5)
    with expunge.open(f"sqlite:///{folder / 'paper.db'}", origin="ledger.example/ward") as store:
        for name, size in (("icu-7", 60), ("icu-8", 40), ("night-notes", 30)):
            subjects = [f"patient-{row % 11}" for row in range(size)]
            keys, values = rng.standard_normal((size, 3)), rng.standard_normal(size)
            store.create(name, keys, values, sigma=2.0, nu=0.3, subjects=subjects)
        done = store.erase_subject("patient-5", case="DSR-2026-0117", actor="M. Noether, data protection")
        if done.index is None or done.salt is None:
            raise RuntimeError("the sample has no entry of patient-5")
        note = store.checkpoint()
        for number in (1, 2):
            name, key = f"witness.example/w{number}", SigningKey.generate()
            note = cosign_checkpoint(note, name, key, int(time.time()))
        authority = make_authority(folder / "authority")
        query = TimestampRequestBuilder(data=note.text, cert_req=True).build().as_bytes()
        shown = Revealed("patient-5", done.salt)
        opened = certificate_contents(
            store,
            done.index,
            revealed={"subject": shown},
            names=True,
            head=note,
            timestamps=[stamp(authority, query)],
        )
    path = folder / "certificate.html"
    path.write_bytes(certificate_html(opened))
    page = browser.new_page(viewport={"width": 860, "height": 1180})
    page.goto(path.as_uri())
    page.wait_for_selector("#self-check[data-state=undamaged]")
    take(page, "certificate-document")
    page.close()


VIEWS: Final[tuple[Callable[[Camera], None], ...]] = (
    *(overview, memory_map, question, certificates, erasure, ledger, verification),
)


# What is typed, in order, and the columns of the terminals whose pictures are committed.
COMMANDS: Final[tuple[tuple[str, str, int | None], ...]] = (
    ("preview", "expunge create ward hours.csv --preview", 120),
    ("create", "expunge create ward hours.csv", 80),
    ("read", "expunge read ward --at hr=95,spo2=93 --at hr=300", 80),
    ("nearest", "expunge nearest ward --at hr=95,spo2=93 -n 3", None),
    ("show", "expunge show ward", None),
    ("tune", "expunge tune ward", 80),
    ("dry-run", "expunge erase-subject 10035631 --dry-run", None),
    ("erase", "expunge erase-subject 10035631 --yes", 80),
)


def terminals(browser: Browser, folder: Path, shown: Path | None) -> None:
    """Pictures of commands as a terminal shows them: those of the documents, or all at both widths in a folder."""
    for width in (80, 120):
        place = folder / str(width)
        place.mkdir()
        shutil.copyfile(HOURS, place / "hours.csv")
        for name, command, columns in COMMANDS:
            text = typed(command, place, width)
            if shown is not None:
                draw(browser, command, text, width, shown / f"terminal-{name}-{width}.png")
            elif columns == width:
                draw(browser, command, text, width, IMAGES / f"terminal-{name}.png")


def typed(command: str, folder: Path, width: int) -> str:
    """What a command prints on both streams, colours included."""
    words = [sys.executable, "-m", *shlex.split(command)]
    environment = {**os.environ, "COLUMNS": str(width), "FORCE_COLOR": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(  # noqa: S603 — the commands above
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    printed = re.sub(r"\x1b\[\?25[lh]", "", done.stdout.decode())
    # A bar is drawn again and again on its line, and wiped at the end, from the line below it.
    return re.sub(r"[^\n]*\n\r?\x1b\[1A\x1b\[2K|[^\n]*\x1b\[2K", "", printed)


def draw(browser: Browser, command: str, text: str, width: int, path: Path) -> None:
    """Draw a terminal with a command and what it printed."""
    from rich.console import Console
    from rich.terminal_theme import DEFAULT_TERMINAL_THEME
    from rich.text import Text

    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(Text(f"$ {command}", style="bold"), Text.from_ansi(text), sep="\n")
    svg = console.export_svg(title=f"{width} columns", theme=DEFAULT_TERMINAL_THEME)
    # The font of the drawing comes from a server; the one that is here is as wide.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    page = browser.new_page(viewport={"width": 1600, "height": 900})
    page.set_content(f"<style>body{{margin:0}} svg{{width:{9 * width + 40}px}}</style>{svg}")
    keep(page.locator("svg").screenshot(), path, TERMINAL_COLOURS)
    page.close()


def main() -> None:
    """Make every picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--terminals", action="store_true", help="the pictures of docs/guides/cli.md alone")
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="every command at 80 and 120 columns, to look at")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from service.frontend.browser import launched

    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        terminals(browser, Path(folder), arguments.all)
    if arguments.terminals or arguments.all:
        return
    with tempfile.TemporaryDirectory() as folder, demo(Path(folder)) as address, launched() as browser:
        camera = Camera(browser, address)
        for view in VIEWS:
            view(camera)
        document(browser, Path(folder))
    for picture in sorted(IMAGES.glob("*.png")):
        print(f"{picture.relative_to(ROOT)}  {picture.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
