"""The contract, over every adapter and its real system."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from expunge.mirrors import Mirror, open_mirror

from .conftest import KINDS
from .contract import MirrorContract


class TestAdapters(MirrorContract):
    @pytest.fixture(params=KINDS)
    def mirror(self, request: pytest.FixtureRequest, new_url: Callable[[str], str]) -> Iterator[Mirror]:
        with open_mirror(new_url(request.param)) as opened:
            yield opened
