"""Build the verifier that is one file, from the modules that the page verifies with.

    python tools/build_verifier.py

It writes ``verifier.html``, and two modules made from the package: the meanings of the codes, and the page of a
certificate document, which is ``page.js`` with its words and the digest of the rest of such a file.

The file asks no network for anything: its content security policy allows the one script and the one style in it, by
their SHA-256, and nothing else. A test holds the committed files to what this tool makes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
STATIC = ROOT / "src" / "expunge" / "service" / "frontend" / "static"
MEANINGS = "verifier/meanings.js"
PAGE = "verify/certificate_page.js"
TARGET = "verifier.html"
ENTRY = "verifier/standalone.js"
STYLES = ("style.css", "verifier/verifier.css")
IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?:async )?(?:function|const|class) (\w+)", re.MULTILINE)
# Classes whose codes a verifier can answer with.
CLASSES = ("VerificationError", "InputError")
NOT_SHOWN = ("The service", "Every package")


def meanings() -> str:
    """The module with what each code means."""
    sys.path.insert(0, str(ROOT / "src"))
    from expunge.error_codes import CODES

    found = {
        code: meaning
        for subject, classes in CODES.items()
        if subject not in NOT_SHOWN
        for name in CLASSES
        for code, meaning in classes.get(name, {}).items()
    }
    found |= CODES["Signing keys (docs/formats/signing-key.md)"]["InputError"]
    found["signing-key-missing"] = "No key was given: without one, a signature shows nothing."
    lines = "".join(f"  {json.dumps(code)}: {json.dumps(found[code])},\n" for code in sorted(found))
    origin = "// Written by tools/build_verifier.py from src/expunge/error_codes.py."
    return f"{origin}\n\nexport const MEANINGS = {{\n{lines}}};\n"


def certificate_page() -> str:
    """The module that makes the page of a certificate document."""
    sys.path.insert(0, str(ROOT / "src"))
    from expunge.ledger.certificate import html
    from expunge.ledger.certificate.page import words

    parts = [part.encode() for part in html.template()]
    fixed = {"lengths": [len(part) for part in parts], "sha256": hashlib.sha256(b"".join(parts)).hexdigest()}
    script = Path(html.__file__).with_name("page.js").read_text(encoding="utf-8")
    return (
        "// Written by tools/build_verifier.py from src/expunge/ledger/certificate: page.js, words.json, html.py.\n\n"
        f"export const WORDS = {json.dumps(words(), indent=2)};\n\n"
        "// Parts of a file that are the same in every one: their lengths in bytes, and SHA-256 over all of them.\n"
        f"export const TEMPLATE = {json.dumps(fixed)};\n\n{script}"
    )


def modules(entry: str) -> dict[str, str]:
    """Every module that the entry needs, itself included, each after those that it imports."""
    found: dict[str, str] = {}
    open_ones: list[str] = []

    def add(path: str) -> None:
        if path in found:
            return
        if path in open_ones:
            raise SystemExit(f"modules import each other: {' -> '.join([*open_ones, path])}")
        open_ones.append(path)
        source = (STATIC / path).read_text(encoding="utf-8")
        for _, target in IMPORT.findall(source):
            add(posixpath.normpath(posixpath.join(posixpath.dirname(path), target)))
        open_ones.pop()
        found[path] = source

    add(entry)
    return found


def name_of(path: str) -> str:
    """The variable that holds what a module exports."""
    return "$" + re.sub(r"\W", "_", path.removesuffix(".js"))


def wrapped(path: str, source: str) -> str:
    """A module as a function of its own, so that its names stay its own."""

    def bound(found: re.Match[str]) -> str:
        names = ", ".join(name.strip().replace(" as ", ": ") for name in found[1].split(",") if name.strip())
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[2]))
        return f"const {{ {names} }} = {name_of(target)};\n"

    exported = EXPORT.findall(source)
    body = IMPORT.sub(bound, source)
    body = re.sub(r"^export (?=(?:async )?(?:function|const|class) )", "", body, flags=re.MULTILINE)
    if re.search(r"^(?:import|export)\b", body, re.MULTILINE):
        raise SystemExit(f"{path} imports or exports in a form that this tool does not know")
    if path == ENTRY:
        return f"(async () => {{\n{body}}})();\n"
    return f"const {name_of(path)} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();\n"


def digest(text: str) -> str:
    """A source expression for a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def document() -> str:
    """The whole file."""
    script = '"use strict";\n' + "".join(wrapped(path, source) for path, source in modules(ENTRY).items())
    style = "".join((STATIC / name).read_text(encoding="utf-8") for name in STYLES)
    if "</script" in script.lower() or "<!--" in script or "</style" in style.lower():
        raise SystemExit("the script or the style would end early")
    allowed = f"script-src {digest(script)}; style-src {digest(style)}"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    return f"""<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta http-equiv="Content-Security-Policy" content="{policy}">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta name="referrer" content="no-referrer">
    <title>Verify · expunge</title>
    <style>{style}</style>
  </head>
  <body>
    <main id="main" tabindex="-1"></main>
    <p id="status" class="hidden" role="status"></p>
    <noscript><p class="noscript">This needs JavaScript. Or use the <code>expunge verify</code> command.</p></noscript>
    <script>{script}</script>
  </body>
</html>
"""


def build() -> dict[Path, str]:
    """What each file that this tool writes must hold; the document needs the other two to be there."""
    return {STATIC / MEANINGS: meanings(), STATIC / PAGE: certificate_page(), STATIC / TARGET: document()}


if __name__ == "__main__":
    (STATIC / MEANINGS).write_text(meanings(), encoding="utf-8")
    (STATIC / PAGE).write_text(certificate_page(), encoding="utf-8")
    for file, content in build().items():
        file.write_text(content, encoding="utf-8")
