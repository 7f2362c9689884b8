"""The frame of the page: what each token is offered, where it starts, and paths of a service below a prefix."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from expunge.service.tokens import Scope
from service.frontend.browser import RunningService, Visitor, visiting

EVERYTHING = ["Memories", "Ledger", "Verify", "Report"]
VIEWS = ["Map", "Ask", "Certificates", "Erase", "Receipts"]


def drawn(page: Page) -> None:
    """The view is there, and shows no problem."""
    expect(page.locator("main[aria-busy=false] h1")).to_be_visible()
    expect(page.locator(".problem")).to_have_count(0)


@pytest.mark.parametrize(
    ("scopes", "sections", "views"),
    [
        (["read", "erase"], ["Erase a person", "Requests", *EVERYTHING], VIEWS),
        (["read"], EVERYTHING, ["Map", "Ask", "Certificates", "Receipts"]),
        (["audit"], EVERYTHING, ["Receipts"]),
        (["admin"], ["Memories", "Holds", "Verify"], []),
        (["erase"], ["Erase a person", "Requests", "Verify"], None),
        (["write"], ["Verify"], None),
    ],
)
def test_a_token_is_offered_what_it_may_see_and_starts_there(
    window: Browser, site: RunningService, scopes: list[Scope], sections: list[str], views: list[str] | None
) -> None:
    text, token = site.tokens.create(scopes)
    with visiting(window, site, token=text) as visit:
        page = visit.page
        navigation = page.get_by_role("navigation", name="Sections").get_by_role("link")
        expect(navigation).to_have_text(sections)
        expect(page.locator("nav [aria-current=page]")).to_have_text(sections[0])
        expect(page.get_by_role("heading", level=1)).to_have_text(sections[0])
        drawn(page)
        for section in sections:
            navigation.filter(has_text=section).click()
            expect(page.locator("#nav [aria-current=page]")).to_have_text(section)
            drawn(page)
        if views is not None:
            navigation.filter(has_text="Memories").click()
            page.get_by_role("link", name="ward").click()
            expect(page.get_by_role("heading", level=1)).to_have_text("ward")
            offered = page.get_by_role("navigation", name="This memory").get_by_role("link")
            expect(offered).to_have_text(views)
            for view in views:
                offered.filter(has_text=view).click()
                expect(page.locator(".subnav [aria-current=page]")).to_have_text(view)
                drawn(page)
        visit.check_traffic()
    site.tokens.revoke(token.name)


def test_a_query_behind_a_route_is_not_part_of_it(visitor: Visitor) -> None:
    visitor.go("#/ledger?kind=created")
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("Ledger")
    visitor.go("#/?anything")
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("Erase a person")


def test_paths_are_below_the_address_of_the_page(visitor: Visitor) -> None:
    """Where a proxy has the service below a prefix, the page asks there."""
    find = """async (place) => {
      const { url } = await import("/page/session.js");
      history.replaceState(null, "", place);
      return ["/v1/log", "/page/verifier.html"].map(url);
    }"""
    for prefix in ("/", "/expunge/", "/a/b/"):
        base = f"{visitor.service.url}{prefix}"
        found = visitor.page.evaluate(find, f"{prefix}#/memories")
        assert found == [f"{base}v1/log", f"{base}page/verifier.html"]
    read = "(one) => one.getAttribute('href') ?? one.getAttribute('src')"
    links = [one.evaluate(read) for one in visitor.page.locator("head link, head script").all()]
    assert links
    assert all(not link.startswith("/") for link in links)
