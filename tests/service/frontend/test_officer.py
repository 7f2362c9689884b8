"""The officer's task: find a person, see what there is, erase it, get the certificate, have it verified elsewhere."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from expunge.ledger.signing import SigningKey, save_signing_key
from service.frontend.browser import (
    PATIENCE,
    RunningService,
    Visitor,
    confirm,
    fact,
    look_at,
    map_of,
    press,
    serving,
    tab_to,
    visiting,
)
from store.postgres_server import Server

DECOMPOSED = unicodedata.normalize("NFD", "José Ortega")
OWNERS: dict[str, list[str | None]] = {
    "ward": ["Ada Byron", "Ada Byron", "ada byron", "Max Noether", "Max Noether", "Emmy Noether", None, "Emmy Noether"],
    "clinic": ["Ada Byron", "Max Noether", "Emmy Noether", "Emmy Noether", DECOMPOSED, "jose ortega", "Zoe"],
    "notes": ["Ada Byron", "Zoe", "Zoe", "Max Noether", "Max Noether", "Emmy Noether"],
}


def fill(service: RunningService) -> None:
    rng = np.random.default_rng(3)
    for name, owners in OWNERS.items():
        keys, values = rng.standard_normal((len(owners), 2)), rng.standard_normal((len(owners), 1))
        service.store.create(name, keys, values, sigma=1.5, nu=0.6, subjects=owners)
    service.store["notes"].admit(
        [0.3, 0.3], [0.0], id="summary", derived_from=[("clinic", service.store["clinic"].ids[0])]
    )


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with serving(tmp_path_factory.mktemp("hospital"), with_memories=False) as running:
        fill(running)
        yield running


@pytest.fixture
def officer(window: Browser, hospital: RunningService) -> Iterator[Visitor]:
    with visiting(window, hospital) as visit:
        yield visit
        visit.check_traffic()


def subjects(service: RunningService) -> set[str]:
    return {one["subject"] for name in OWNERS for one in map_of(service, name)["entries"] if one["subject"]}


def summaries(service: RunningService) -> list[int]:
    lines = service.call("GET", "/v1/log?limit=200")["items"]
    return [line["index"] for line in lines if line["kind"] == "subject_erased"]


def pressed(visit: Visitor, name: str, role: str = "button", text: str | None = None) -> None:
    """Reach a control with the keyboard, and press it or type into it."""
    tab_to(visit, name, role)
    if text is None:
        press(visit, "Enter")
    else:
        visit.page.keyboard.type(text)


def erase_by_keyboard(visit: Visitor) -> None:
    pressed(visit, "Who is to be erased?", "searchbox", "byron")
    press(visit, "Enter")
    expect(visit.page.get_by_role("region", name="Found")).to_be_visible()
    pressed(visit, "See what there is of Ada Byron")
    expect(visit.page.get_by_role("region", name="Person")).to_be_visible()
    pressed(visit, "Case number", "textbox", "DSR-2026-114")
    tab_to(visit, "Reason", "combobox")
    visit.page.keyboard.type("The person")
    pressed(visit, "Type the name to confirm: Ada Byron", "textbox", "Ada Byron")
    pressed(visit, "Erase 5 entries for good")


def erase_by_mouse(visit: Visitor) -> None:
    person = look_at(visit.page, "Ada Byron", search="byron")
    person.get_by_label("Case number").fill("DSR-2026-114")
    person.get_by_label("Reason").select_option(label="The person asked for it")
    confirm(visit.page, "Ada Byron")


def answer_of(route: Route) -> Any:
    """What the service answers when the erasure is over, however long that takes here."""
    return route.fetch(headers=route.request.headers | {"prefer": "wait=60"}, timeout=60_000).json()


def saved(page: Page, folder: Path, button: str, role: Any = "button") -> Path:
    with page.expect_download() as download:
        page.get_by_role(role, name=button).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.parametrize("erase", [erase_by_mouse, erase_by_keyboard])
def test_the_whole_task(window: Browser, tmp_path: Path, server: Server, database: str, erase: Any) -> None:
    """Find, preview, erase, certificate; then another browser profile verifies it, without the service."""
    key = tmp_path / "signing.pem"
    save_signing_key(SigningKey.generate(), key)
    url = None if database == "sqlite" else server.new_database()
    with serving(tmp_path, url, with_memories=False, key=key) as service:
        fill(service)
        with visiting(window, service) as visit:
            page = visit.page
            expect(page.get_by_role("heading", level=1)).to_have_text("Erase a person")
            erase(visit)
            shown = page.get_by_role("region", name="Erasure")
            expect(shown.locator(".large-name")).to_have_text("Ada Byron")
            expect(shown.locator(".state.applied").first).to_contain_text("Done")
            expect(fact(shown, "Case")).to_have_text("DSR-2026-114 (asked by the person)")
            expect(page.get_by_role("region", name="Memory by memory").get_by_role("row")).to_have_count(4)
            index = summaries(service)[0]
            assert page.url.endswith(f"#/erased/{index}")
            certificate = page.get_by_role("region", name="Certificate")
            salt = certificate.locator("code").get_attribute("title") or ""
            named = saved(page, tmp_path / "named", "Save certificate (HTML)")
            certificate.get_by_label("Name Ada Byron on it").uncheck()
            unnamed = saved(page, tmp_path / "unnamed", "Save certificate (HTML)")
            keys = saved(page, tmp_path, "the keys of this store")
            verifier = saved(page, tmp_path, "the verifier, which is one file", "link")
            assert all("Ada" not in address for address in visit.requests)
            visit.check_traffic()
        assert "Ada Byron" not in subjects(service)
        assert "ada byron" in subjects(service), "another spelling is another name until somebody says otherwise"
        case = service.call("GET", f"/v1/cases?leaf={index}")["items"][0]
        assert case["case"] == "DSR-2026-114 (asked by the person)"
        service.store.verify()
        origin = service.store.origin
    verify_elsewhere(window, verifier, keys, {"named": named, "unnamed": unnamed}, salt, origin)


DROP = """(zone, files) => {
  const carried = new DataTransfer();
  for (const [name, text] of files) carried.items.add(new File([text], name));
  zone.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }));
}"""


def verify_elsewhere(
    window: Browser, verifier: Path, keys: Path, certificates: dict[str, Path], salt: str, origin: str
) -> None:
    """In a profile of its own, without a network, with the verifier as a file, and no service any more."""
    context = window.new_context()
    context.set_default_timeout(PATIENCE)
    context.set_offline(True)
    page = context.new_page()
    page.goto(verifier.as_uri())
    for kind, path in certificates.items():
        page.reload()
        files = [("keys.txt", keys.read_text()), (path.name, path.read_text(encoding="utf-8"))]
        page.get_by_label("Name, number, or case").fill("Ada Byron")
        page.get_by_label("Salt").fill(salt)
        page.locator(".drop").evaluate(DROP, files)
        finding = page.locator(".finding")
        expect(finding.locator(".verdict.passed")).to_contain_text("Genuine")
        who = "Ada Byron" if kind == "named" else "not named here"
        expect(fact(finding, "Who")).to_contain_text(who)
        expect(fact(finding, "What")).to_have_text("a person erased")
        expect(fact(finding, "How many")).to_have_text("5 entries")
        expect(fact(finding, "When")).to_contain_text("UTC")
        expect(fact(finding, "Store")).to_have_text(origin)
        expect(finding.locator(".about.yes")).to_contain_text("Yes: it names this as its subject")
    context.close()


def test_what_is_on_screen_is_about_the_person_in_large_type(officer: Visitor) -> None:
    page, service = officer.page, officer.service
    officer.go("#/erase")
    person = look_at(page, "Zoe")
    rows = person.get_by_role("row")
    expect(rows.nth(1)).to_contain_text("clinic")
    expect(person.locator(".large-name")).to_have_text("Zoe")
    button = page.get_by_role("button", name=re.compile("for good$"))
    page.get_by_label("Type the name to confirm").fill("Max Noether")
    expect(button).to_be_disabled()
    page.get_by_label("Who is to be erased?").fill("Max")
    expect(person).to_have_count(0)
    expect(button).to_have_count(0)
    assert "Zoe" in subjects(service)


def test_nobody_and_a_part_of_a_name(officer: Visitor) -> None:
    page = officer.page
    officer.go("#/erase")
    page.get_by_label("Who is to be erased?").fill("Nobody At All")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("Nobody in the store is called “Nobody At All”")).to_be_visible()
    page.get_by_label("Who is to be erased?").fill("noether")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("region", name="Found").get_by_role("row")).to_have_count(3)
    assert all("oether" not in url for url in officer.requests)


def test_a_person_under_several_spellings(officer: Visitor) -> None:
    """José is not found; the look-alikes are offered, looked at and erased one by one, and nothing without a look."""
    page, service = officer.page, officer.service
    officer.go("#/erase")
    shown = r"Jose\u{0301} Ortega"
    page.get_by_label("Who is to be erased?").fill("José Ortega")
    page.get_by_role("button", name="Search").click()
    found = page.get_by_role("region", name="Found")
    expect(found.locator("code")).to_have_text([shown, "jose ortega"])
    found.get_by_role("button").first.click()
    besides = page.get_by_role("region", name="Not erased")
    expect(besides.locator("li")).to_contain_text("jose ortega")
    expect(page.get_by_role("region", name="Not searched")).to_contain_text("ward (1 of 8 entries without a name)")
    confirm(page, "José Ortega")
    expect(page.locator(".state.applied").first).to_be_visible()
    assert DECOMPOSED not in subjects(service)
    assert "jose ortega" in subjects(service)


def test_another_entry_since_the_preview_is_noticed(officer: Visitor) -> None:
    """144 were seen, 145 are there: nothing goes before all of them were seen."""
    page, service = officer.page, officer.service
    officer.go("#/erase")
    look_at(page, "Zoe")
    expect(page.get_by_role("button", name="Erase 3 entries for good")).to_be_visible()
    service.call("POST", "/v1/memories/ward/admit", {"key": [0.1, 0.1], "value": [0.0], "subject": "Zoe"})
    before = service.store.size
    confirm(page, "Zoe")
    expect(page.get_by_role("alert")).to_contain_text("Other entries would go now than those that you saw")
    assert service.store.size == before
    page.get_by_role("button", name="Look again").click()
    expect(page.get_by_role("button", name="Erase 4 entries for good")).to_be_visible()
    confirm(page, "Zoe")
    expect(page.locator(".state.applied").first).to_be_visible()
    assert "Zoe" not in subjects(service)


def test_a_lost_answer_is_asked_for_again_and_nothing_is_claimed(officer: Visitor) -> None:
    """Done, and its answer lost: the page says that it does not know, and gets the same answer, salt included."""
    page, service = officer.page, officer.service
    service.call("POST", "/v1/memories/ward/admit", {"key": [0.2, 0.1], "value": [0.0], "subject": "Lost"})
    before = len(summaries(service))
    lost: list[Any] = []

    def lose(route: Route) -> None:
        if route.request.method == "POST" and "dry_run" not in route.request.url and len(lost) < 2:
            lost.append(answer_of(route))
            route.abort()
        else:
            route.continue_()

    page.route("**/v1/erasures*", lose)
    officer.go("#/erase")
    look_at(page, "Lost")
    confirm(page, "Lost")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("it may have been done, or not")
    expect(alert).not_to_contain_text("nothing was")
    # Loading the page again in between takes the same erasure up.
    page.reload()
    expect(page.get_by_role("region", name="Certificate")).to_be_visible()
    assert len(lost) == 2
    assert len(summaries(service)) == before + 1
    assert {one["result"]["salt"] for one in lost} == {
        page.get_by_role("region", name="Certificate").locator("code").get_attribute("title")
    }
    # At its own address the erasure is shown again, by name in this tab alone.
    page.reload()
    expect(page.locator(".large-name")).to_have_text("Lost")
    with visiting(page.context.browser, service) as other:  # type: ignore[arg-type]
        other.go(page.url.partition("/#")[2].join(["#", ""]))
        expect(other.page.locator(".state.applied").first).to_be_visible()
        expect(other.page.get_by_text("not named in the ledger")).to_be_visible()
        expect(other.page.get_by_text("Lost", exact=True)).to_have_count(0)


def test_a_refused_erasure_is_shown_as_refused_everywhere(officer: Visitor) -> None:
    page, service = officer.page, officer.service
    service.call("POST", "/v1/memories/ward/admit", {"key": [0.2, 0.3], "value": [0.0], "subject": "Held"})
    hold = service.call("POST", "/v1/memories/ward/holds", {"subject": "Held", "reason": "a case before the court"})
    officer.go("#/erase")
    person = look_at(page, "Held")
    expect(person).to_contain_text("Nothing can be erased now.")
    expect(person.get_by_role("row").nth(1)).to_contain_text("Stays")
    expect(page.get_by_role("button", name=re.compile("for good"))).to_have_count(0)
    service.call("POST", "/v1/erasures", {"subject": "Held"}, Prefer="wait=30")
    index = summaries(service)[0]
    officer.go("#/ledger")
    line = page.locator("table.receipts tbody tr").filter(
        has=page.get_by_role("link", name=f"Receipt {index}", exact=True)
    )
    expect(line.locator(".kind.refused")).to_contain_text("erasure of a person refused")
    expect(line.locator(".kind.erased")).to_have_count(0)
    for address in (f"#/ledger/{index}", f"#/erased/{index}"):
        officer.go(address)
        state = page.locator("main .state").first
        expect(state).to_have_class("state refused")
        expect(state).to_contain_text("Refused: nothing was erased")
    service.call("DELETE", f"/v1/holds/{hold['number']}")


def test_a_token_that_may_only_erase_erases_by_the_exact_name(window: Browser, hospital: RunningService) -> None:
    hospital.call("POST", "/v1/memories/ward/admit", {"key": [0.4, 0.3], "value": [0.0], "subject": "Exact"})
    text, token = hospital.tokens.create(["erase"])
    with visiting(window, hospital, token=text) as visit:
        page = visit.page
        expect(page.get_by_role("heading", level=1)).to_have_text("Erase a person")
        page.get_by_label("Who is to be erased?").fill("Exact")
        page.get_by_role("button", name="See what there is").click()
        expect(page.get_by_role("region", name="Person").get_by_role("row").nth(1)).to_contain_text("not shown")
        confirm(page, "Exact")
        expect(page.locator(".state.applied").first).to_be_visible()
        expect(page.get_by_role("region", name="Salt").locator("code")).to_have_attribute(
            "title", re.compile("^[0-9a-f]{64}$")
        )
        visit.check_traffic()
    hospital.tokens.revoke(token.name)
    assert "Exact" not in subjects(hospital)


def test_an_erasure_that_is_put_off_waits_and_is_cancelled(officer: Visitor) -> None:
    page, service = officer.page, officer.service
    service.call("POST", "/v1/memories/ward/admit", {"key": [0.5, 0.3], "value": [0.0], "subject": "Later"})
    officer.go("#/erase")
    person = look_at(page, "Later")
    person.get_by_label("Case number").fill("DSR-9")
    person.get_by_label("When").select_option(label="In 7 days")
    confirm(page, "Later")
    expect(page.get_by_role("region", name="Request")).to_contain_text("is carried out on")
    officer.go("#/requests")
    line = page.get_by_role("row").filter(has_text="Later")
    expect(line).to_contain_text("DSR-9")
    expect(line).to_contain_text("Waits")
    line.get_by_role("button", name="Cancel").click()
    line.get_by_role("button", name="Really cancel?").click()
    expect(page.locator("p.done")).to_have_text("The erasure of Later is cancelled.")
    expect(page.get_by_text("No erasure waits.")).to_be_visible()
    assert "Later" in subjects(service)


def test_holds_and_what_has_ended(officer: Visitor) -> None:
    page, service = officer.page, officer.service
    ends = datetime.now(UTC) + timedelta(seconds=8)
    for name in ("Kept", "Ended"):
        entry = {"key": [0.5, 0.5], "value": [0.0], "subject": name, "expires": ends.isoformat()}
        service.call("POST", "/v1/memories/notes/admit", entry)
    officer.go("#/holds")
    page.get_by_label("Memory").fill("notes")
    page.get_by_label("Person").fill("Kept")
    page.get_by_label("Reason").fill("a case before the court")
    page.get_by_role("button", name="Place the hold").click()
    expect(page.get_by_role("row").filter(has_text="Kept")).to_contain_text("a case before the court")
    page.wait_for_timeout(max(0.0, (ends - datetime.now(UTC)).total_seconds() * 1000 + 1000))
    officer.go("#/retention")
    expect(page.get_by_role("row").filter(has_text="notes")).to_contain_text("1 entry kept by holds")
    page.get_by_role("button", name="Erase 1 entry now").click()
    page.get_by_role("button", name="Really erase 1 for good?").click()
    expect(page.locator("p.done")).to_have_text("1 entry erased.")
    officer.go("#/holds")
    page.get_by_role("button", name="Release").click()
    page.get_by_role("button", name="Really release?").click()
    expect(page.get_by_text("No hold is in force.")).to_be_visible()
    assert {"Kept", "Ended"} & subjects(service) == {"Kept"}


def test_without_a_network_the_page_says_so(officer: Visitor) -> None:
    page = officer.page
    officer.go("#/erase")
    expect(page.locator("#offline")).to_be_hidden()
    page.context.set_offline(True)
    expect(page.locator("#offline")).to_be_visible()
    page.get_by_label("Who is to be erased?").fill("Max")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("alert")).to_contain_text("This computer has no network.")
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("region", name="Found")).to_be_visible()


def test_progress_is_told_memory_by_memory(officer: Visitor) -> None:
    page, service = officer.page, officer.service
    for name in ("ward", "clinic"):
        service.call("POST", f"/v1/memories/{name}/admit", {"key": [0.9, 0.3], "value": [0.0], "subject": "Slow"})
    done: dict[str, Any] = {}

    def slow(route: Route) -> None:
        if "dry_run" in route.request.url:
            return route.continue_()
        done.update(answer_of(route))
        return route.fulfill(status=202, json=done | {"state": "running", "progress": {"done": 1, "total": 2}})

    def running(route: Route) -> None:
        route.fulfill(json=done | {"state": "running", "progress": {"done": 1, "total": 2}})

    page.route("**/v1/erasures*", slow)
    page.route("**/v1/jobs/*", running)
    officer.go("#/erase")
    look_at(page, "Slow")
    confirm(page, "Slow")
    cells = page.get_by_role("region", name="Progress").get_by_role("cell")
    expect(cells).to_have_text(["clinic", "done", "ward", "erasing …"])
    expect(page.get_by_role("progressbar")).to_have_attribute("value", "1")
    page.unroute("**/v1/jobs/*")
    page.route("**/v1/jobs/*", lambda route: route.fulfill(json=done))
    page.unroute("**/v1/erasures*")
    expect(page.get_by_role("region", name="Certificate")).to_be_visible()
