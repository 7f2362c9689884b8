"""The page for everybody: nothing for axe to find, by day and by night, no sideways scrolling, nothing in motion."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from service.frontend.browser import RunningService, Visitor, axe_findings, look_at, visiting


def preview(visit: Visitor) -> None:
    visit.page.get_by_label("A subject, in this memory").check()
    visit.page.get_by_label("Whose entries").fill("patient-4")
    visit.page.get_by_role("button", name="Preview").click()
    expect(visit.page.get_by_role("region", name="Preview")).to_be_visible()


def choose(visit: Visitor) -> None:
    visit.page.locator("table.entries tbody button").first.click()
    visit.page.get_by_role("button", name="What would removing it be?").click()
    expect(visit.page.locator(".note")).to_be_visible()


def ask(visit: Visitor) -> None:
    visit.page.get_by_label("Or with numbers").fill("1, 1")
    visit.page.get_by_role("button", name="Ask").click()
    expect(visit.page.get_by_role("list", name="Nearest entries")).to_be_visible()


def verified(visit: Visitor) -> None:
    expect(visit.page.locator(".verdict")).to_be_visible()
    visit.page.get_by_text("Raw text").click()


def rejected(visit: Visitor) -> None:
    visit.page.get_by_text("Or paste a text").click()
    visit.page.get_by_label("Text of a receipt").fill("{}")
    visit.page.get_by_role("button", name="Use this store's keys").click()
    visit.page.get_by_role("button", name="Verify", exact=True).click()
    expect(visit.page.locator(".verdict.failed")).to_be_visible()


def checked(visit: Visitor) -> None:
    expect(visit.page.locator("p.head.passed")).to_be_visible()


def framed(visit: Visitor) -> None:
    expect(visit.page.frame_locator("iframe").get_by_role("heading")).to_be_visible()


def looked_at(visit: Visitor) -> None:
    look_at(visit.page, "person-0", search="person")


def as_it_is(visit: Visitor) -> None:
    expect(visit.page.get_by_role("heading", level=1)).to_be_visible()


# View → what is done on it before one looks.
VIEWS: dict[str, Callable[[Visitor], None]] = {
    "#/": as_it_is,
    "#/memories": checked,
    "#/m/ward/map": choose,
    "#/m/ward/ask": ask,
    "#/m/ward/certificates": as_it_is,
    "#/m/ward/erase": preview,
    "#/m/ward/ledger": as_it_is,
    "#/ledger": checked,
    "#/ledger/1": verified,
    "#/erase": looked_at,
    "#/requests": as_it_is,
    "#/retention": as_it_is,
    "#/holds": as_it_is,
    "#/ledger?sort=erasures&case=DSR": as_it_is,
    "#/verify": rejected,
    "#/report": framed,
    "#/nowhere": as_it_is,
}
SIDEWAYS = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.slow
def test_every_view_is_accessible_and_fits(window: Browser, site: RunningService) -> None:
    found: dict[str, list[str]] = {}
    with visiting(window, site, width=360) as visit:
        page = visit.page
        for route, act in VIEWS.items():
            page.set_viewport_size({"width": 360, "height": 740})
            page.emulate_media(color_scheme="light")
            visit.go(route)
            act(visit)
            found[route] = [f"{page.evaluate(SIDEWAYS)} px sideways at 360", *axe_findings(page)]
            page.set_viewport_size({"width": 1600, "height": 900})
            page.emulate_media(color_scheme="dark")
            found[route] += [f"{page.evaluate(SIDEWAYS)} px sideways at 1600", *axe_findings(page)]
        visit.check_traffic()
    assert found == {route: ["0 px sideways at 360", "0 px sideways at 1600"] for route in VIEWS}


def test_signing_in_is_accessible_and_fits(window: Browser, site: RunningService) -> None:
    with visiting(window, site, width=360, scheme="dark", token=None) as visit:
        visit.go("")
        visit.page.get_by_label("Token").fill("wrong")
        visit.page.get_by_role("button", name="Sign in").click()
        expect(visit.page.get_by_role("alert")).to_be_visible()
        assert visit.page.evaluate(SIDEWAYS) == 0
        assert axe_findings(visit.page) == []
        visit.page.emulate_media(color_scheme="light")
        assert axe_findings(visit.page) == []


def test_the_checker_finds_what_is_wrong(visitor: Visitor) -> None:
    visitor.page.evaluate("() => document.querySelector('main').append(document.createElement('img'))")
    assert any("image-alt" in finding for finding in axe_findings(visitor.page))


def test_nothing_moves_for_those_who_ask_for_that(window: Browser, site: RunningService) -> None:
    with visiting(window, site, reduced_motion="reduce") as visit:
        visit.go("#/m/ward/certificates")
        style = "(bar) => getComputedStyle(bar).transitionDuration"
        assert visit.page.locator(".bar .filled").first.evaluate(style) == "0s"
    with visiting(window, site) as visit:
        visit.go("#/m/ward/certificates")
        assert visit.page.locator(".bar .filled").first.evaluate(style) == "0.6s"


def test_an_erasure_is_printed_without_the_frame(window: Browser, site: RunningService) -> None:
    site.call("POST", "/v1/memories/icu/admit", {"key": [0.0] * 6, "value": [0.0, 0.0], "subject": "Printed"})
    job = site.call("POST", "/v1/erasures", {"subject": "Printed"}, Prefer="wait=30")
    with visiting(window, site, scheme="dark") as visit:
        visit.go(f"#/erased/{job['result']['index']}")
        page = visit.page
        assert axe_findings(page) == []
        page.emulate_media(media="print", color_scheme="dark")
        expect(page.get_by_role("region", name="Erasure")).to_be_visible()
        expect(page.get_by_role("navigation", name="Sections")).to_be_hidden()
        expect(page.get_by_role("button", name="Print this page")).to_be_hidden()
        ink = page.locator("h1").evaluate("(one) => getComputedStyle(one).color")
        assert ink == "rgb(28, 33, 38)", "dark ink on paper, whatever the screen"


def test_a_new_view_gets_the_focus_and_says_its_name(visitor: Visitor) -> None:
    page = visitor.page
    page.get_by_role("link", name="Ledger").click()
    expect(page).to_have_title("Ledger · expunge")
    assert page.evaluate("() => document.activeElement.id") == "main"
    expect(page.locator("#status")).to_have_text("Ledger")
    page.keyboard.press("Shift+Tab")
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "main"
    assert page.url.endswith("#/ledger")
