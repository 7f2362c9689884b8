"""Erasing on the page: what is told before, what is left behind, and certificates that live edits use up."""

from __future__ import annotations

import itertools
import re

import pytest
from playwright.sync_api import expect

from service.frontend.browser import Visitor, confirm, fact, map_of, mark_positions, press, tab_to

PLACES = [
    (0.0, 0.0, "ann"),
    (1.0, 0.0, "ann"),
    (0.0, 1.0, "ann"),
    (2.0, 2.0, "ann"),
    (1.0, 1.5, "bob"),
    (2.0, 0.5, "bob"),
]


def test_deleting_an_entry_with_the_keyboard_alone(visitor: Visitor) -> None:
    service, page = visitor.service, visitor.page
    visitor.go("#/m/practice/erase")
    before = service.call("GET", "/v1/memories/practice")
    name = next(one["id"] for one in map_of(service, "practice")["entries"] if one["group"] == "margin")
    tab_to(visitor, "One entry", "radio")
    press(visitor, "Tab")
    page.keyboard.type(name)
    press(visitor, "Escape")
    tab_to(visitor, "Preview")
    press(visitor, "Enter")
    preview = page.get_by_role("region", name="Preview")
    expect(preview).to_contain_text("1 entry would go, and the memory would be solved again")
    planned = service.call("POST", "/v1/memories/practice/delete?dry_run=true", {"ids": [name]})
    expect(fact(preview, "Live entries")).to_have_text(f"{before['size']} → {planned['size']}")
    expect(fact(preview, "Can go before the cap changes")).to_have_text(
        f"{before['deletable']} → {planned['deletable']}"
    )
    expect(fact(preview, "Other weights that move")).to_have_text(str(planned["changed_coefficients"]))
    assert service.call("GET", "/v1/memories/practice")["digest"] == before["digest"], "looking changes nothing"
    expect(page.get_by_text("Crosses are the entries that would go.")).to_be_visible()
    assert len(mark_positions(visitor, "erased")) == 1
    tab_to(visitor, f"Type the id to confirm: {name}", "textbox")
    page.keyboard.type(name)
    tab_to(visitor, "Erase 1 entry for good")
    press(visitor, "Enter")
    expect(page.get_by_text("1 entry is erased. This is the receipt.")).to_be_visible()
    expect(page.locator(".verdict.passed")).to_contain_text("It verifies")
    after = service.call("GET", "/v1/memories/practice")
    assert after["size"] == before["size"] - 1
    assert name not in {one["id"] for one in map_of(service, "practice")["entries"]}
    expect(page.locator(".numbers")).to_contain_text(f"{after['size']} live entries")
    expect(page.get_by_text("Crosses show where they were.")).to_be_visible()
    assert len(mark_positions(visitor, "erased")) == 1


def test_the_preview_is_about_one_name_and_goes_when_another_is_typed(visitor: Visitor) -> None:
    """The red button erases who is named in large type, after that name was typed; typing elsewhere takes it away."""
    service, page = visitor.service, visitor.page
    visitor.go("#/m/practice/erase")
    page.get_by_label("A subject, in this memory").check()
    page.get_by_label("Whose entries").fill("p-1")
    page.get_by_role("button", name="Preview").click()
    preview, button = (
        page.get_by_role("region", name="Preview"),
        page.get_by_role("button", name=re.compile("for good$")),
    )
    expect(preview.locator(".large-name")).to_have_text("p-1")
    page.get_by_label("Type the name to confirm").fill("p-2")
    expect(button).to_be_disabled()
    page.get_by_label("Whose entries").fill("p-2")
    expect(preview).to_have_count(0)
    expect(button).to_have_count(0)
    page.get_by_role("button", name="Preview").click()
    expect(preview.locator(".large-name")).to_have_text("p-2")
    confirm(page, "p-2")
    expect(page.locator(".done")).to_be_visible()
    left = {one["subject"] for one in map_of(service, "practice")["entries"]}
    assert "p-2" not in left
    assert "p-1" in left


def test_erasing_beyond_the_cap_and_to_nothing(visitor: Visitor) -> None:
    """The preview says what happens to the rest; an empty memory is shown as such in every view."""
    service, page = visitor.service, visitor.page
    rows = [{"key": [x, y], "value": [1.0], "subject": owner} for x, y, owner in PLACES]
    shape = {"keys": [row["key"] for row in rows], "values": [row["value"] for row in rows]}
    owners = {"subjects": [row["subject"] for row in rows]}
    service.call("POST", "/v1/memories", {"name": "brief", "sigma": 1.0, "nu": 0.9, **shape, **owners})
    for subject, left in (("ann", 2), ("bob", 0)):
        visitor.go("#/m/brief/erase")
        page.get_by_label("A subject, in this memory").check()
        page.get_by_label("Whose entries").fill(subject)
        page.get_by_role("button", name="Preview").click()
        preview = page.get_by_role("region", name="Preview")
        planned = service.call("POST", "/v1/memories/brief/delete?dry_run=true", {"subject": subject})
        assert planned["size"] == left
        if left:
            expect(preview).to_contain_text(
                "Too few would be left for the old cap, so the remaining 2 would be fitted again"
            )
            expect(fact(preview, "Cap")).to_contain_text("→")
        else:
            expect(preview).to_contain_text("nothing would be left: the memory would be empty")
            expect(fact(preview, "Answers move by")).to_have_text("there is nothing left to ask")
        count = len(planned["applied"])
        expect(preview.get_by_role("button", name=f"Erase {count} entries for good")).to_be_visible()
        confirm(page, subject)
        expect(page.get_by_text(f"{count} entries are erased.")).to_be_visible()
    expect(page.locator(".numbers")).to_contain_text("empty: no entries")
    for view in ("map", "ask"):
        visitor.go(f"#/m/brief/{view}")
        expect(page.get_by_text("This memory is empty: no entries.")).to_be_visible()
    for view in ("certificates", "erase", "ledger"):
        visitor.go(f"#/m/brief/{view}")
        expect(page.locator(".numbers")).to_contain_text("empty: no entries")
    visitor.go("#/memories")
    expect(page.get_by_role("row").filter(has_text="brief")).to_contain_text("empty")
    service.call("DELETE", "/v1/memories/brief")


def test_what_cannot_be_erased_is_told_before_and_not_offered(visitor: Visitor) -> None:
    service, page = visitor.service, visitor.page
    held = service.call("POST", "/v1/memories/icu/holds", {"id": "e3", "reason": "a case before the court"})
    visitor.go("#/m/icu/erase")
    page.get_by_label("Its id").fill("e3")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Preview")).to_contain_text("It would be refused")
    expect(page.get_by_role("button", name=re.compile("for good"))).to_have_count(0)
    service.call("DELETE", f"/v1/holds/{held['number']}")
    page.get_by_label("Its id").fill("nobody")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("nobody")


def test_a_refusal_on_the_way_shows_its_receipt(visitor: Visitor) -> None:
    service, page = visitor.service, visitor.page
    visitor.go("#/m/icu/erase")
    page.get_by_label("Its id").fill("e5")
    page.get_by_role("button", name="Preview").click()
    button = page.get_by_role("button", name="Erase 1 entry for good")
    expect(button).to_be_visible()
    # A hold does not change the state, so it is the edit itself that runs into it.
    held = service.call("POST", "/v1/memories/icu/holds", {"id": "e5", "reason": "a case before the court"})
    confirm(page, "e5")
    expect(page.get_by_role("alert").first).to_contain_text("a case before the court")
    expect(page.locator(".receipt")).to_contain_text("a hold forbids erasing some of the entries")
    expect(page.locator(".verdict.passed")).to_be_visible()
    service.call("DELETE", f"/v1/holds/{held['number']}")
    assert "e5" in {one["id"] for one in map_of(service, "icu")["entries"]}


def test_an_edit_in_between_is_noticed(visitor: Visitor) -> None:
    service, page = visitor.service, visitor.page
    visitor.go("#/m/icu/erase")
    page.get_by_label("Its id").fill("e9")
    page.get_by_role("button", name="Preview").click()
    button = page.get_by_role("button", name="Erase 1 entry for good")
    expect(button).to_be_visible()
    service.call("POST", "/v1/memories/icu/delete", {"ids": ["e10"]})
    confirm(page, "e9")
    expect(page.get_by_role("alert")).to_contain_text("Somebody edited the memory in between.")
    assert "e9" in {one["id"] for one in map_of(service, "icu")["entries"]}


@pytest.mark.slow
def test_warranties_shrink_while_one_looks(visitor: Visitor) -> None:
    service, page = visitor.service, visitor.page
    visitor.go("#/m/cold/certificates")
    width = "(row) => parseFloat(row.querySelector('.filled').style.width)"

    def shown() -> dict[str, float]:
        return {
            row.get_attribute("data-id") or "": row.evaluate(width) / 100
            for row in page.locator(".warranties li").all()
        }

    def stated() -> dict[str, float]:
        rows = service.call("GET", "/v1/memories/cold/warranties?limit=1000")["items"]
        return {row["id"]: row["fraction"] if row["status"] == "valid" else 0.0 for row in rows}

    page.get_by_role("button", name=re.compile("^Show .* more$")).click()
    first = shown()
    assert first == pytest.approx({name: stated()[name] for name in first}, abs=1e-3)
    assert any(fraction > 0.0 for fraction in first.values())
    document = page.evaluate("() => (window.mark = Math.random())")
    for number in itertools.count():
        key = [3.0 if at == number % 5 else 0.0 for at in range(5)]
        done = service.call("POST", "/v1/memories/cold/admit", {"key": key, "value": [0.0, 0.0], "id": f"new-{number}"})
        if done["details"].get("expired") or number == 12:
            break
    expect(page.get_by_text(f"Live: as of edit {done['edit']}.")).to_be_visible()
    later = shown()
    assert later == pytest.approx({name: stated()[name] for name in later}, abs=1e-3)
    common = first.keys() & later.keys()
    assert sum(later[name] < first[name] for name in common) > len(common) / 2
    assert done["details"].get("expired"), "the last admission ended a certificate"
    expect(page.locator(".warranties li.expired").first).to_contain_text("not proved with the present entries")
    assert page.evaluate("() => window.mark") == document, "without a reload"


def test_nothing_pruned_is_said_in_words(visitor: Visitor) -> None:
    visitor.go("#/m/icu/certificates")
    expect(visitor.page.get_by_text("No entry has been pruned.")).to_be_visible()


def test_blanks_that_belong_to_a_name_stay(visitor: Visitor) -> None:
    page, store = visitor.page, visitor.service.store
    store.create(
        "blanks", [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]], [1.0, 2.0, 9.0], sigma=5.0, cap=1.0, ids=["a", "a ", "c"]
    )
    try:
        for typed, meant in (("a ", "a "), (" c ", "c")):
            visitor.go("#/m/blanks/map")
            visitor.go("#/m/blanks/erase")
            page.get_by_role("combobox").fill(typed)
            with page.expect_request(re.compile("dry_run=true")) as asked:
                page.get_by_role("button", name="Preview").click()
            assert asked.value.post_data_json == {"ids": [meant]}
            expect(page.get_by_role("region", name="Preview")).to_be_visible()
    finally:
        store.drop("blanks")


def test_certificates_that_an_erasure_ends_are_told_before_and_after(visitor: Visitor) -> None:
    page, store = visitor.page, visitor.service.store
    keys = [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9], [0.0, 2.0]]
    store.create("ending", keys, [1.0, 2.0, 9.0, 3.0], sigma=5.0, cap=0.5, ids=["a", "b", "c", "d"])
    try:
        forgotten = store["ending"].prune("forget").applied
        assert forgotten
        victim = store["ending"].ids[0]
        visitor.go("#/m/ending/erase")
        page.get_by_role("combobox").fill(victim)
        page.get_by_role("button", name="Preview").click()
        region = page.get_by_role("region", name="Preview")
        expect(region.get_by_text("Certificates that end for good").locator("xpath=..")).to_contain_text(
            str(len(forgotten))
        )
        expect(region).to_contain_text("Certificates of forgotten entries end when an entry goes that was live")
        confirm(page, victim)
        receipt = page.get_by_role("region", name=re.compile("^Receipt"))
        expect(receipt).to_contain_text("ended for good")
        expect(receipt).to_contain_text("passed: every error is within 1e−9")
        visitor.go("#/m/ending/certificates")
        expect(page.locator(".warranties li.ended").first).to_contain_text("was live at the pruning was erased")
    finally:
        store.drop("ending")


def test_what_was_made_from_an_entry_is_shown_before_it_goes_too(visitor: Visitor) -> None:
    service, page = visitor.service, visitor.page
    name = next(one["id"] for one in map_of(service, "practice")["entries"])
    facts = {"name": "facts", "dimension": 2, "sigma": 1.0, "cap": 1.0}
    service.call("POST", "/v1/memories", facts)
    fact_ = {"key": [0.1, 0.2], "value": [1.0], "id": "fact", "derived_from": [["practice", name]]}
    service.call("POST", "/v1/memories/facts/admit", fact_)
    visitor.go("#/m/practice/erase")
    tab_to(visitor, "One entry", "radio")
    press(visitor, "Tab")
    page.keyboard.type(name)
    press(visitor, "Escape")
    tab_to(visitor, "Preview")
    press(visitor, "Enter")
    preview = page.get_by_role("region", name="Preview")
    expect(preview).to_contain_text("Made from them, and to go, too")
    expect(preview).to_contain_text(f"fact of facts, made from {name} of practice")
    expect(preview.get_by_role("button", name="Erase 2 entries for good")).to_be_visible()
    confirm(page, name)
    expect(page.get_by_text("This is the receipt.")).to_be_visible()
    assert service.call("GET", "/v1/memories/facts")["size"] == 0
    visitor.go("#/ledger")
    expect(page.get_by_text("erased in several memories")).to_be_visible()
