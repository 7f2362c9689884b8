"""The pictures of docs/guides/plots.md are those that the code draws."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from draw_plots import IMAGES, PICTURES, picture

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "plots.md"


def test_the_page_shows_every_picture() -> None:
    shown = re.findall(r"\(images/(plot-[a-z-]+)\.png\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(PICTURES)


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_a_committed_picture_is_the_one_that_is_drawn(name: str) -> None:
    """Up to how a machine smooths text: on average less than one step of 255 a pixel."""
    kept = np.asarray(Image.open(IMAGES / f"{name}.png").convert("L"), dtype=np.float64)
    drawn = np.asarray(picture(name).convert("L"), dtype=np.float64)
    assert kept.shape == drawn.shape
    assert np.abs(kept - drawn).mean() < 1.0
