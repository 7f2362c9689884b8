"""The page in a real browser, before the real service: signing in, looking, asking, and what goes wrong."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Route, expect

from expunge.errors import VerificationError
from expunge.integrations.embedding import embed_texts, find_embedding
from expunge.integrations.notebook import Notebook
from expunge.service.memory_summary import summary_content
from expunge.store import StoredMemory
from service.frontend.browser import RunningService, Visitor, axe_findings, fact, map_of, mark_positions, visiting


def test_signing_in_by_hand_and_out_again(window: Browser, site: RunningService) -> None:
    with visiting(window, site, token=None) as visit:
        page = visit.page
        visit.go("")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.get_by_label("Token").fill("expunge_000000000000_" + "x" * 43)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("token")
        page.get_by_label("Token").fill(site.token)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Erase a person")).to_be_visible()
        kept = page.evaluate(
            "() => [JSON.stringify({...sessionStorage}), JSON.stringify({...localStorage}), document.cookie]"
        )
        assert site.token in kept[0]
        assert site.token not in kept[1] + kept[2] + page.url
        page.reload()
        expect(page.get_by_role("heading", name="Erase a person")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert page.evaluate("() => sessionStorage.length") == 0
        visit.check_traffic()


def test_a_token_in_the_address_is_taken_out_of_it(visitor: Visitor) -> None:
    assert visitor.page.url == f"{visitor.service.url}/#/"
    assert not any(visitor.service.token in url for url in visitor.requests)
    assert visitor.page.evaluate("() => history.length") <= 2


def test_a_token_that_is_revoked_leads_back_to_signing_in(window: Browser, site: RunningService) -> None:
    text, token = site.tokens.create(["read"])
    with visiting(window, site, token=text) as visit:
        site.tokens.revoke(token.name)
        visit.page.get_by_role("link", name="ward").click()
        expect(visit.page.get_by_role("heading", name="Sign in")).to_be_visible()
        expect(visit.page.get_by_role("alert")).to_be_visible()


def test_a_token_that_may_only_read_is_offered_no_erasure(window: Browser, site: RunningService) -> None:
    text, _ = site.tokens.create(["read"])
    with visiting(window, site, token=text) as visit:
        visit.go("#/m/ward/erase")
        expect(visit.page.get_by_text("This token may not erase.")).to_be_visible()
        visit.go("#/m/ward/map")
        visit.page.locator("table.entries button").first.click()
        expect(visit.page.get_by_role("link", name="Ask with its key")).to_be_visible()
        expect(visit.page.get_by_role("link", name="Delete …")).to_have_count(0)
        visit.check_traffic()


def test_the_overview_has_the_numbers_of_every_memory(visitor: Visitor) -> None:
    visitor.go("#/memories")
    page, memories = visitor.page, visitor.service.call("GET", "/v1/memories")["items"]
    lines = page.locator("table.memory-list tbody tr")
    assert [line.get_by_role("link").inner_text() for line in lines.all()] == [one["name"] for one in memories]
    for line, memory in zip(lines.all(), memories, strict=True):
        expect(line.get_by_role("cell").nth(1)).to_have_text(str(memory["size"]) if memory["size"] else "empty")
        for group in ("margin", "bound", "reserve"):
            if memory["partition"][group]:
                expect(line).to_contain_text(f"{memory['partition'][group]} {group}")
        expect(line.get_by_role("cell").nth(3)).to_have_text(str(memory["deletable"]) if memory["size"] else "")


def test_memories_are_found_and_sorted(visitor: Visitor) -> None:
    visitor.go("#/memories")
    page = visitor.page
    sizes = {one["name"]: one["size"] for one in visitor.service.call("GET", "/v1/memories")["items"]}
    names = page.locator("table.memory-list tbody a")
    page.get_by_role("button", name="Live", exact=True).click()
    expect(page.get_by_role("columnheader", name="Live")).to_have_attribute("aria-sort", "descending")
    expect(names).to_have_text(sorted(sizes, key=lambda name: (-sizes[name], name)))
    page.get_by_role("button", name="Live").click()
    expect(names).to_have_text(sorted(sizes, key=lambda name: (sizes[name], name)))
    page.get_by_label("Find a memory").fill("RAC")
    expect(names).to_have_text([name for name in sizes if "rac" in name])


def test_the_overview_names_what_is_damaged(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(memory: StoredMemory) -> dict[str, Any]:
        if memory.name == "ward":
            raise VerificationError("altered")
        return summary_content(memory)

    monkeypatch.setattr("expunge.service.routes.memory_list.summary_content", damaged)
    visitor.go("#/memories")
    expect(visitor.page.get_by_role("alert")).to_contain_text("ward: what is stored is not what was written.")
    expect(visitor.page.locator("table.memory-list tbody tr")).not_to_have_count(0)


def test_the_map_draws_every_entry_in_the_shape_of_its_group(visitor: Visitor) -> None:
    visitor.go("#/m/ward/map")
    expected = map_of(visitor.service, "ward")
    counts: dict[str, int] = {}
    for entry in expected["entries"]:
        counts[entry["group"]] = counts.get(entry["group"], 0) + 1
    counts["archived"] = len(expected["archived"])
    assert set(counts) == {"margin", "bound", "reserve", "archived"}
    assert {group: len(mark_positions(visitor, group)) for group in counts} == counts
    look = """(element) => {
      const [, shape] = /^M.*?(m[^M]*)/.exec(element.getAttribute("d"));
      return [shape, getComputedStyle(element).stroke];
    }"""
    marks = [visitor.page.locator(f"svg.chart path.mark.{group}").first.evaluate(look) for group in counts]
    marks += [visitor.page.locator(f".legend svg.{group} path").evaluate(look) for group in ("forgotten", "erased")]
    for part in (0, 1):
        assert len({one[part] for one in marks}) == 6, "six shapes, six colours"
    legend = visitor.page.locator(".legend").inner_text()
    counts |= {"forgotten": len(expected["forgotten"]), "erased": expected["erased_total"]}
    assert {group: int(number) for number, group in re.findall(r"(\d+)\s+(\w+)", legend)} == counts
    label = visitor.page.locator("svg.chart").get_attribute("aria-label") or ""
    assert f"{counts['margin']} margin" in label


def test_the_boundary_runs_through_the_margin(visitor: Visitor) -> None:
    visitor.go("#/m/ward/map")
    line = visitor.page.locator("svg.chart path.boundary")
    nearest = """(path, point) => {
      const length = path.getTotalLength();
      let best = Infinity;
      for (let at = 0; at <= length; at += 1) {
        const { x, y } = path.getPointAtLength(at);
        best = Math.min(best, Math.hypot(x - point[0], y - point[1]));
      }
      return best;
    }"""
    margin = mark_positions(visitor, "margin")
    assert margin
    for point in margin:
        assert line.evaluate(nearest, point) < 3.0, "pixels"
    inside = "(path, [x, y]) => path.isPointInFill(new DOMPoint(x, y))"
    assert not any(line.evaluate(inside, point) for point in mark_positions(visitor, "bound"))
    assert all(line.evaluate(inside, point) for point in mark_positions(visitor, "reserve"))
    visitor.go("#/m/icu/map")
    expect(visitor.page.get_by_text("6 coordinates drawn in two")).to_be_visible()
    expect(line).to_have_count(0)


def test_a_group_can_be_hidden(visitor: Visitor) -> None:
    visitor.go("#/m/ward/map")
    assert mark_positions(visitor, "bound")
    toggle = visitor.page.get_by_role("button", name="bound")
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "false"
    assert not mark_positions(visitor, "bound")
    toggle.click()
    assert mark_positions(visitor, "bound")


def test_hovering_tells_what_is_there(visitor: Visitor) -> None:
    visitor.go("#/m/ward/map")
    chart = visitor.page.locator("svg.chart")
    names = {f"{one['id']}": one for one in map_of(visitor.service, "ward")["entries"]}
    x, y = max(mark_positions(visitor, "bound"))
    chart.hover(position={"x": x, "y": y})
    tip = visitor.page.locator(".tip")
    expect(tip).to_be_visible()
    entry = names[tip.locator("b").inner_text()]
    assert entry["group"] == "bound"
    expect(tip).to_contain_text(entry["subject"])
    chart.click(position={"x": x, "y": y})
    chosen = visitor.page.get_by_role("region", name="Chosen entry")
    expect(chosen.get_by_role("heading")).to_contain_text(entry["id"])
    chart.hover(position={"x": 2, "y": 2})
    expect(tip).to_be_hidden()


def test_searching_narrows_map_and_list(visitor: Visitor) -> None:
    visitor.go("#/m/ward/map")
    whole = map_of(visitor.service, "ward")
    matching = [one["id"] for one in whole["entries"] + whole["archived"] if one["subject"] == "patient-3"]
    visitor.page.get_by_label("Search").fill("PATIENT-3")
    expect(visitor.page.get_by_text(f"1–{len(matching)} of {len(matching)}", exact=True)).to_be_visible()
    rows = visitor.page.locator("table.entries tbody button")
    assert sorted(rows.all_inner_texts()) == sorted(matching)
    expect(visitor.page.get_by_role("status").last).to_have_text(re.compile(f"^{len(matching)} of "))
    faint = visitor.page.locator("svg.chart path.faint")
    drawn = sum((one.get_attribute("d") or "").count("M") for one in faint.all())
    assert drawn == len(whole["entries"]) + len(whole["archived"]) - len(matching)
    visitor.page.get_by_label("Search").fill("no such thing")
    expect(visitor.page.get_by_text("No entry matches.")).to_be_visible()


def test_an_entry_shows_what_it_holds_and_what_removing_it_would_be(visitor: Visitor) -> None:
    visitor.go("#/m/ward/map")
    entries = map_of(visitor.service, "ward")["entries"]
    for group, words in (("bound", "solved again"), ("reserve", "No answer would change")):
        name = next(one["id"] for one in entries if one["group"] == group)
        visitor.page.get_by_label("Search").fill(name)
        visitor.page.get_by_role("button", name=name, exact=True).click()
        chosen = visitor.page.get_by_role("region", name="Chosen entry")
        payload = visitor.service.call("GET", f"/v1/memories/ward/entries/{name}")["payload"]
        expect(chosen).to_contain_text(payload if isinstance(payload, str) else payload["note"])
        chosen.get_by_role("button", name="What would removing it be?").click()
        expect(chosen).to_contain_text(words)


def test_what_is_erased_has_no_place_and_a_receipt(visitor: Visitor) -> None:
    visitor.go("#/m/ward/map")
    whole = map_of(visitor.service, "ward")
    place = visitor.page.locator(".placeless")
    expect(place).to_contain_text(f"{whole['erased_total']} entries were erased")
    assert place.locator("svg.mark.erased").count() == whole["erased_total"]
    index = whole["erased"][0]["index"]
    place.get_by_role("link", name=f"Receipt {index}").click()
    expect(visitor.page.get_by_role("heading", name=f"Receipt {index}")).to_be_visible()


def shares(visit: Visitor) -> dict[str, float]:
    """Entry → width of its bar, in parts of the longest."""
    width = "(bar) => bar.querySelector('.filled').style.width"
    found = visit.page.get_by_role("list", name="Who carries it").locator("> li")
    expect(found.first).to_be_visible()
    return {
        row.locator(".who b").inner_text(): float(row.locator(".bar").evaluate(width).rstrip("%")) / 100
        for row in found.all()
    }


def test_asking_shows_which_entries_carry_the_answer(visitor: Visitor) -> None:
    visitor.go("#/m/icu/ask")
    page = visitor.page
    page.get_by_label("With the key of an entry").fill("e7")
    page.get_by_role("button", name="Ask").click()
    key = visitor.service.call("GET", "/v1/memories/icu/entries/e7")["key"]
    found = visitor.service.call("POST", "/v1/memories/icu/search", {"query": key, "k": 12})["hits"]
    assert shares(visitor) == pytest.approx({hit["id"]: hit["share"] / found[0]["share"] for hit in found}, abs=1e-4)
    answer = visitor.service.call("POST", "/v1/memories/icu/read", {"queries": [key]})["readouts"][0]
    shown = [float(text.replace("−", "-")) for text in page.locator(".readout dd").all_inner_texts()]
    assert shown == pytest.approx(answer, rel=1e-3)
    expect(page.locator("svg.chart circle.hit")).to_have_count(12)
    expect(page.locator("svg.chart path.query")).to_have_count(1)


def test_asking_with_numbers_and_at_a_place(visitor: Visitor) -> None:
    visitor.go("#/m/ward/ask")
    page = visitor.page
    numbers = page.get_by_label("Or with numbers")
    for typed, complaint in (
        ("1", "A query has 2 numbers; these are 1."),
        ("1, x", "Not everything here is a number."),
    ):
        numbers.fill(typed)
        page.get_by_role("button", name="Ask").click()
        expect(page.get_by_role("alert").filter(has_text=complaint)).to_be_visible()
    numbers.fill("3.2, 1.2")
    page.get_by_role("button", name="Ask").click()
    found = visitor.service.call("POST", "/v1/memories/ward/search", {"query": [3.2, 1.2], "k": 12})["hits"]
    assert shares(visitor) == pytest.approx({hit["id"]: hit["share"] / found[0]["share"] for hit in found}, abs=1e-4)
    x, y = min(mark_positions(visitor, "bound"))
    page.locator("svg.chart").click(position={"x": x, "y": y})
    leftmost = min(
        map_of(visitor.service, "ward")["entries"], key=lambda one: one["x"] if one["group"] == "bound" else 9e9
    )
    expect(page.locator(".shares .who b").first).to_have_text(leftmost["id"])
    assert numbers.input_value() == ""


def test_asking_with_measurements_by_name(visitor: Visitor) -> None:
    """A memory with columns has one named field per column, and an empty field is a missing measurement."""
    rng = np.random.default_rng(3)
    hours = [{"HR": 84.0 + 16.0 * a, "SpO2": 97.0 + b} for a, b in rng.standard_normal((20, 2)).tolist()]
    columns = {
        "keys": [{"name": "HR", "unit": "1/min", "centre": 84, "scale": 16}, {"name": "SpO2", "fill": 97.0}],
        "values": [{"name": "MAP", "unit": "mmHg"}],
    }
    body = {"name": "vitals", "keys": hours, "values": [80.0] * 20, "nu": 0.3, "preprocessing": columns}
    visitor.service.call("POST", "/v1/memories", body)
    visitor.go("#/m/vitals/ask")
    page = visitor.page
    pulse, ask = page.get_by_label("HR (1/min)"), page.get_by_role("button", name="Ask")
    page.get_by_label("SpO2").fill("96")
    for typed, complaint in (("", "HR is missing, and the memory has no fill for it."), ("x", "this is not a number")):
        pulse.fill(typed)
        ask.click()
        expect(page.get_by_role("alert").filter(has_text=complaint)).to_be_visible()
    pulse.fill("90,5")
    page.get_by_label("SpO2").fill("")
    ask.click()
    named = {"query": {"HR": 90.5, "SpO2": None}, "k": 12}
    found = visitor.service.call("POST", "/v1/memories/vitals/search", named)["hits"]
    assert shares(visitor) == pytest.approx({hit["id"]: hit["share"] / found[0]["share"] for hit in found}, abs=1e-4)
    expect(page.locator(".readout dt")).to_have_text(["MAP"])
    expect(page.locator(".readout dd")).to_have_text(["80 mmHg"])
    expect(page.get_by_text("Not given, so the memory's fill was used: SpO2.")).to_be_visible()
    assert axe_findings(page) == []


def test_asking_with_a_text_where_keys_were_made_from_texts(visitor: Visitor) -> None:
    page, store = visitor.page, visitor.service.store
    notes = ["The cat sleeps on the sofa", "Dosage of insulin at night", "A train to the coast"]
    words = find_embedding("words")
    book = Notebook(store, "diary", embed=words)
    for at, text in enumerate(notes):
        book.write(embed_texts(words, [text])[0], id=f"n{at}", payload=text)
    try:
        visitor.go("#/m/diary/ask")
        page.get_by_label("With a text").fill("insulin dosage")
        page.get_by_role("button", name="Ask").click()
        expect(page.get_by_role("list", name="Nearest entries").locator("li").first).to_contain_text("n1")
        assert all("insulin" not in url for url in visitor.requests)
        visitor.go("#/m/icu/ask")
        expect(page.get_by_label("With a text")).to_have_count(0)
        refused = visitor.page.evaluate(
            "async () => { const { post } = await import('/page/session.js');"
            " return post('/v1/memories/icu/explain', { text: 'x' }).catch(({ status }) => status); }"
        )
        assert refused == 422
    finally:
        store.drop("diary")


def many_points(route: Route) -> None:
    """The map of a memory of 10,000 entries, one of them far away from all others."""
    drawn = route.fetch().json()
    one = drawn["entries"][0]
    rng = np.random.default_rng(1)
    places = [*rng.standard_normal((9_999, 2)).tolist(), [900.0, -400.0]]
    entries = [one | {"id": f"x{at}", "x": x, "y": y, "group": "reserve"} for at, (x, y) in enumerate(places)]
    route.fulfill(json=drawn | {"entries": entries, "archived": [], "boundary": None})


def test_a_map_of_ten_thousand_with_an_outlier_is_read_and_zoomed(visitor: Visitor) -> None:
    page = visitor.page
    page.route("**/v1/memories/icu/map", many_points)
    visitor.go("#/m/icu/map")
    chart, outside = page.locator("svg.chart"), page.locator(".chart-controls").get_by_role("status")
    expect(outside).to_contain_text("outside this view")

    def spread() -> float:
        width = float(chart.evaluate("(one) => one.clientWidth"))
        across = sorted(left for left, _ in mark_positions(visitor, "reserve"))
        return (across[len(across) * 3 // 4] - across[len(across) // 4]) / width

    # In pixels of the map, marks being drawn smaller: half of the entries take a good part of the width.
    first = spread()
    assert first > 0.3
    page.get_by_role("button", name="Show every entry").click()
    expect(outside).to_be_empty()
    assert spread() < first / 20
    page.get_by_role("button", name="Show where most entries are").click()
    for _ in range(4):
        page.get_by_role("button", name="Zoom in").click()
    expect(outside).to_contain_text(re.compile(r"^[5-9],\d{3} entries lie outside"))
    before = outside.inner_text()
    page.keyboard.press("ArrowRight")
    expect(outside).not_to_have_text(before)
    box = chart.bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + 120, middle[1], steps=4)
    page.mouse.up()
    expect(page.get_by_role("region", name="Chosen entry")).to_contain_text("Choose an entry.")


def test_where_a_query_lies_and_what_is_nearest(visitor: Visitor) -> None:
    """Inside or outside, and by how much; far from everything no shares, and the nearest entries all the same."""
    visitor.go("#/m/ward/ask")
    page = visitor.page
    answer = page.get_by_role("region", name="Answer")
    neighbours = page.get_by_role("list", name="Nearest entries").locator("> li")
    expect(page.get_by_text("margin entries lie on it")).to_be_visible()
    for query, lies, near in (
        ([0.2, 0.1], "inside", True),
        ([3.2, -1.0], "outside", True),
        ([90, 90], "outside", False),
    ):
        page.get_by_label("Or with numbers").fill(", ".join(map(str, query)))
        page.get_by_role("button", name="Ask").click()
        expect(answer).to_contain_text(f"The query is {lies}, ")
        found = visitor.service.call("POST", "/v1/memories/ward/nearest", {"query": query, "k": 6})["neighbours"]
        expect(neighbours).to_have_count(6)
        assert neighbours.locator(".who b").all_inner_texts() == [one["id"] for one in found]
        archived = sum(one["archived"] for one in found)
        assert neighbours.locator("svg.mark.archived").count() == archived
        expect(answer.get_by_text("No entry nearby.")).to_have_count(0 if near else 1)
        expect(page.get_by_role("list", name="Who carries it")).to_have_count(1 if near else 0)
        expect(page.locator("svg.chart circle.hit")).to_have_count(12 if near else 0)
    entries = map_of(visitor.service, "ward")["entries"]
    visitor.go("#/m/ward/map")
    expect(page.locator(".legend")).to_contain_text("boundary")
    for group, words in (("margin", "on it"), ("reserve", "inside"), ("bound", "outside")):
        name = next(one["id"] for one in entries if one["group"] == group)
        page.get_by_label("Search").fill(name)
        page.get_by_role("button", name=name, exact=True).click()
        chosen = page.get_by_role("region", name="Chosen entry")
        expect(fact(chosen, "Distance")).to_contain_text(f"from the boundary: {words}")


def test_the_key_of_a_chosen_entry_is_asked_with(visitor: Visitor) -> None:
    name = next(one["id"] for one in map_of(visitor.service, "icu")["entries"] if one["group"] == "bound")
    visitor.go("#/m/icu/map")
    visitor.page.get_by_label("Search").fill(name)
    visitor.page.get_by_role("button", name=name, exact=True).click()
    visitor.page.get_by_role("link", name="Ask with its key").click()
    assert name in shares(visitor)
    assert not visitor.page.url.endswith(name), "ids stay out of the browser's history"


def test_the_audit_report_is_shown(visitor: Visitor) -> None:
    visitor.go("#/report")
    frame = visitor.page.frame_locator("iframe")
    expect(frame.get_by_role("heading")).to_have_text("Audit of the paper's experiments")
    link = visitor.page.get_by_role("link", name="Open it in a tab of its own").get_attribute("href") or ""
    assert visitor.service.token not in link


def test_a_problem_is_told_in_words_and_can_be_tried_again(visitor: Visitor) -> None:
    page = visitor.page
    busy = {
        "title": "The store is busy.",
        "status": 503,
        "detail": "another thread has been editing for 30 s; try again",
    }

    def answer(route: Route) -> None:
        route.fulfill(status=503, json=busy, content_type="application/problem+json")

    page.route("**/v1/memories/icu/map", answer)
    visitor.go("#/m/icu/map")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Another thread has been editing for 30 s")
    page.unroute("**/v1/memories/icu/map")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("svg.chart")).to_be_visible()
    page.route("**/v1/log*", lambda route: route.abort())
    visitor.go("#/ledger")
    expect(alert).to_contain_text("The service does not answer.")
    page.unroute("**/v1/log*")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("table.receipts")).to_be_visible()


def test_addresses_that_lead_nowhere(visitor: Visitor) -> None:
    visitor.go("#/nowhere")
    expect(visitor.page.get_by_role("heading", name="There is no such page")).to_be_visible()
    visitor.go("#/m/nobody/map")
    expect(visitor.page.get_by_role("alert")).to_contain_text("There is no such memory in this store.")
    visitor.go("#/ledger/99999")
    expect(visitor.page.get_by_role("alert")).to_be_visible()


def test_content_is_text_and_never_markup(visitor: Visitor) -> None:
    service = visitor.service
    nasty = '<img src=x onerror="window.caught=1"><script>window.caught=1</script>'
    service.call(
        "POST",
        "/v1/memories/practice/admit",
        {"key": [9.0, 9.0, 9.0], "value": [0, 0], "id": nasty, "subject": nasty, "payload": nasty},
    )
    visitor.go("#/m/practice/map")
    visitor.page.get_by_label("Search").fill("<img")
    visitor.page.get_by_role("button", name=nasty, exact=True).click()
    expect(visitor.page.get_by_role("region", name="Chosen entry")).to_contain_text(nasty)
    visitor.page.get_by_role("link", name="Ask with its key").click()
    expect(visitor.page.locator(".shares .who b").first).to_have_text(nasty)
    assert visitor.page.evaluate("() => window.caught") is None
    assert visitor.page.locator("main img, main script").count() == 0


@pytest.mark.parametrize("name", ["north/7", "..", "uuid:x"])
def test_a_memory_whose_name_does_not_fit_into_a_path_is_shown(visitor: Visitor, name: str) -> None:
    page, store = visitor.page, visitor.service.store
    store.create(name, [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.9]], [1.0, 2.0, 9.0], sigma=5.0, cap=1.0, ids=["a", "b", "c"])
    try:
        visitor.go("#/memories")
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        page.locator("table.entries button").first.click()
        expect(page.locator(".entry-name")).to_be_visible()
        page.get_by_role("link", name="Receipts").click()
        expect(page.get_by_text("created").first).to_be_visible()
    finally:
        store.drop(name)
