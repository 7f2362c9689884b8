"""Make the pictures of docs/guides/page.md: the demo as `expunge serve --demo` shows it, in a real browser.

Run `python tools/screenshots.py`. It needs Chromium, as the page's tests do; the demo is made afresh in a temporary
folder and thrown away. Pictures are reduced to a palette, which keeps each of them small.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT: Final = Path(__file__).parent.parent
IMAGES: Final = ROOT / "docs" / "guides" / "images"
COLOURS: Final = 192
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
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    few = picture.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
    few.save(IMAGES / f"page-{name}.png", optimize=True)


def overview(camera: Camera) -> None:
    """Every memory."""
    with camera.opened("#/") as page:
        take(page, "overview")


def memory_map(camera: Camera) -> None:
    """One memory, on a wide screen by day and on a narrow one by night."""
    with camera.opened("#/m/icu-plane/map") as page:
        page.locator("table.entries tbody button").nth(1).click()
        page.wait_for_selector(".payload dl")
        take(page, "map")
    with camera.opened("#/m/icu-plane/map", NARROW, "dark") as page:
        take(page, "map-narrow")


def question(camera: Camera) -> None:
    """An answer, and who carries it."""
    with camera.opened("#/m/icu-plane/ask") as page:
        page.get_by_label("Or with numbers").fill("2.5, 0.5")
        page.get_by_role("button", name="Ask").click()
        page.wait_for_selector(".shares")
        take(page, "ask")


def certificates(camera: Camera) -> None:
    """Warranties that edits have used up, some of them altogether."""
    with camera.opened("#/m/conversations/certificates") as page:
        take(page, "certificates")


def erasure(camera: Camera) -> None:
    """A patient before and after."""
    with camera.opened("#/m/icu-plane/erase") as page:
        page.get_by_label("A subject, in this memory").check()
        page.get_by_label("Whose entries").fill(PATIENT)
        page.get_by_role("button", name="Preview").click()
        page.wait_for_selector("svg.chart path.mark.erased")
        take(page, "preview")
        page.get_by_role("button", name=re.compile("for good")).click()
        page.wait_for_selector(".verdict.passed")
        page.locator(".done").scroll_into_view_if_needed()
        take(page, "erased")


def ledger(camera: Camera) -> None:
    """Every edit so far."""
    with camera.opened("#/ledger") as page:
        take(page, "ledger")


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
        page.get_by_label("Receipt", exact=True).fill(texts["Envelope"][:at] + letter + texts["Envelope"][at + 1 :])
        page.get_by_label("Proof of inclusion", exact=True).fill(texts["Proof"])
        page.get_by_label("Trusted key", exact=True).fill(texts["Key of the log"])
        page.get_by_role("button", name="Verify").click()
        page.wait_for_selector(".verdict.failed")
        page.evaluate("() => scrollTo(0, 0)")
        take(page, "verify")


VIEWS: Final[tuple[Callable[[Camera], None], ...]] = (
    *(overview, memory_map, question, certificates, erasure, ledger, verification),
)


def main() -> None:
    """Make every picture."""
    sys.path.insert(0, str(ROOT / "tests"))
    from service.frontend.browser import launched

    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, demo(Path(folder)) as address, launched() as browser:
        camera = Camera(browser, address)
        for view in VIEWS:
            view(camera)
    for picture in sorted(IMAGES.glob("page-*.png")):
        print(f"{picture.relative_to(ROOT)}  {picture.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
