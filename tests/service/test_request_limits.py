"""Requests by token and bad tokens by address, by a clock of the test's own."""

from __future__ import annotations

import pytest

from expunge.service.request_limits import RequestLimits, TooMany


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_second_of_requests_may_come_at_once() -> None:
    clock = Clock()
    limits = RequestLimits(2.0, 0, clock)
    limits.count_request("a")
    limits.count_request("a")
    with pytest.raises(TooMany) as raised:
        limits.count_request("a")
    assert raised.value.seconds == 1
    limits.count_request("b")
    clock.now += 0.5
    limits.count_request("a")
    with pytest.raises(TooMany):
        limits.count_request("a")
    clock.now += 1e6
    for _ in range(2):
        limits.count_request("a")
    with pytest.raises(TooMany):
        limits.count_request("a")


def test_a_lock_lasts_a_minute_from_the_last_bad_token() -> None:
    clock = Clock()
    limits = RequestLimits(0.0, 3, clock)
    for _ in range(3):
        limits.check_address("198.51.100.7")
        limits.count_bad_token("198.51.100.7")
        clock.now += 10
    with pytest.raises(TooMany) as raised:
        limits.check_address("198.51.100.7")
    assert raised.value.seconds == 50
    limits.check_address("198.51.100.8")
    clock.now += 50.1
    limits.check_address("198.51.100.7")
    # A few bad tokens over a long time are no attack.
    for _ in range(9):
        limits.count_bad_token("198.51.100.9")
        clock.now += 40
        limits.check_address("198.51.100.9")


@pytest.mark.parametrize("address", [None, "127.0.0.1", "::1", "::ffff:127.0.0.1", "testclient", ""])
def test_this_machine_and_no_address_are_never_locked_out(address: str | None) -> None:
    limits = RequestLimits(0.0, 1, Clock())
    limits.count_bad_token(address)
    limits.check_address(address)


def test_what_is_remembered_is_bounded() -> None:
    limits = RequestLimits(1.0, 1, Clock())
    for row in range(10_500):
        limits.count_request(f"token-{row}")
        limits.count_bad_token(f"10.0.{row // 256}.{row % 256}")
    assert len(limits._buckets) == len(limits._bad) == 10_000
    with pytest.raises(TooMany):
        limits.check_address("10.0.40.0")
