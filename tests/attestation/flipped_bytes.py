"""Which flipped bytes of a certificate document its own script does not find, asked in bulk and in a real browser."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

from playwright.sync_api import Page

__all__ = ["covered", "undetected"]

_FIND = """async ([script, file, flips]) => {
    const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    const { findDamage } = await import(address);
    const bytes = Uint8Array.from(atob(file), (character) => character.charCodeAt(0));
    const parser = new DOMParser();
    const isFound = () => {
        try {
            return findDamage(parser.parseFromString(new TextDecoder().decode(bytes), "text/html")) !== null;
        } catch {
            return true;
        }
    };
    if (isFound()) throw new Error("the file is damaged before anything is flipped");
    return flips.filter(([at, mask]) => {
        bytes[at] ^= mask;
        const found = isFound();
        bytes[at] ^= mask;
        return !found;
    });
}"""


def covered(file: bytes) -> tuple[list[int], list[int]]:
    """The places of the bytes of page and data: of texts and data, and of tags, which browsers repair."""
    start, end = file.index(b"<main"), file.index(b'<script id="check"')
    tags = {at for tag in re.finditer(rb"<[^<>]*>", file) for at in range(tag.start(), tag.end())}
    return [at for at in range(start, end) if at not in tags], [at for at in range(start, end) if at in tags]


def undetected(page: Page, file: bytes, flips: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Those of the flips, each a place and a mask, after which the file's own script finds no damage."""
    script = file[file.index(b"const WORDS") : file.rindex(b"showResult();")].decode() + "export { findDamage };"
    page.goto("about:blank")
    found: list[list[int]] = page.evaluate(_FIND, [script, base64.b64encode(file).decode(), list(flips)])
    return found
