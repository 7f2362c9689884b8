"""Sphinx settings. ``make docs`` builds the site with warnings as errors."""

from __future__ import annotations

from typing import Any

import expunge

project = "expunge"
author = "the expunge authors"
copyright = "2026, the expunge authors"  # noqa: A001 — Sphinx's word
release = version = expunge.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 4
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "expunge"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
# Greek letters, long signatures and read-only arrays are easier to read without the module paths in front of them.
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
# The guide shows a table as CSV, which the highlighter does not know.
suppress_warnings = ["misc.highlighting_failure"]


def _plain_bars(app: object, what: str, name: str, it: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text in which |x| is an absolute value, not a substitution."""
    lines[:] = [line.replace("|", "\\|") for line in lines]


def setup(app: Any) -> None:
    """Hook the docstrings."""
    app.connect("autodoc-process-docstring", _plain_bars)
