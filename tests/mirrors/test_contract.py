"""The contract, over every adapter and its real system."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from expunge.errors import StoreError
from expunge.mirrors import Mirror, open_mirror

from .conftest import KINDS
from .contract import MirrorContract, random_copies


class TestAdapters(MirrorContract):
    @pytest.fixture(params=KINDS)
    def mirror(self, request: pytest.FixtureRequest, new_url: Callable[[str], str]) -> Iterator[Mirror]:
        with open_mirror(new_url(request.param)) as opened:
            yield opened


@pytest.mark.parametrize("kind", KINDS)
def test_two_who_have_it_open_lose_nothing(
    kind: str, new_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system that cannot have two writers refuses the second: what it was to write stays owed."""
    monkeypatch.setattr("expunge.mirrors.qdrant._WAIT", 0.1)
    url, copies = new_url(kind), random_copies(9)
    refused = []
    with open_mirror(url) as first:
        first.write(copies[:3])
        try:
            with open_mirror(url) as second:
                second.write(copies[3:6])
        except StoreError as problem:
            if problem.code != "mirror-down":
                raise
            refused = copies[3:6]
        first.write(copies[6:])
    with open_mirror(url) as again:
        again.write(refused)
        assert {copy.id for copy in again.entries()} == {copy.id for copy in copies}
