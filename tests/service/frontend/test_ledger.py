"""The ledger on the page: readable, verified by the browser itself, and held to what was seen before."""

from __future__ import annotations

import base64
import csv
import json
import re
from pathlib import Path

from playwright.sync_api import Route, expect

from expunge.ledger.note import NoteKey
from expunge.ledger.signing import VerifyingKey
from expunge.verify import verify_inclusion, verify_receipt
from service.frontend.browser import ORIGIN, Visitor, fact


def test_the_ledger_is_listed_and_each_receipt_is_readable(visitor: Visitor) -> None:
    service, page = visitor.service, visitor.page
    visitor.go("#/ledger")
    expect(page.locator("p.head.passed")).to_contain_text("signed")
    newest = service.call("GET", "/v1/log?limit=50")["items"]
    rows = page.locator("table.receipts tbody tr[data-leaf]")
    assert rows.count() == len(newest)
    # A summary has links to its parts, too.
    expect(rows.first.get_by_role("link").first).to_have_text(str(newest[0]["index"]))
    page.get_by_role("button", name="Older").click()
    expect(rows.nth(len(newest))).to_be_attached()
    assert rows.count() > len(newest)
    visitor.go("#/m/ward/ledger")
    page.get_by_role("link", name="Receipt 0", exact=True).click()
    receipt = page.locator(".receipt")
    expect(receipt.locator(".lead")).to_have_text("A memory was created with 140 entries. 140 entries are live now.")
    expect(fact(receipt, "Memory")).to_contain_text("ward")
    expect(fact(receipt, "Cap, width")).to_have_text("0.03571, 1.6")
    expect(receipt).to_contain_text("Not covered: copies made before the edit")
    expect(page.locator("pre").first).to_be_hidden()
    page.get_by_text("Raw text").click()
    expect(page.get_by_role("region", name="Statement", exact=True)).to_contain_text('"outcome": "created"')


def test_saved_files_verify_elsewhere(visitor: Visitor) -> None:
    visitor.go("#/ledger/3")
    page = visitor.page
    page.get_by_text("Raw text").click()
    saved = {}
    for name in ("receipt-3.json", "receipt-3.tlog-proof", "log.vkey"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Save {name}").click()
        assert download.value.suggested_filename == name
        saved[name] = Path(download.value.path()).read_bytes()
    key = NoteKey.from_text(saved["log.vkey"].decode())
    assert isinstance(key.public, VerifyingKey)
    verify_receipt(saved["receipt-3.json"], [key.public])
    verify_inclusion(saved["receipt-3.json"], saved["receipt-3.tlog-proof"], [key], ORIGIN)


def altered(envelope: str, old: str, new: str) -> str:
    """The envelope with one word of its payload changed, everything else in order."""
    whole = json.loads(envelope)
    payload = base64.b64decode(whole["payload"]).decode()
    assert old in payload
    whole["payload"] = base64.b64encode(payload.replace(old, new, 1).encode()).decode()
    return json.dumps(whole, separators=(",", ":"), sort_keys=True)


def test_a_receipt_that_the_service_altered_is_caught(visitor: Visitor) -> None:
    """The service serves a receipt that says something else than what was signed."""

    def lie(route: Route) -> None:
        answer = route.fetch()
        document = answer.json()
        document["envelope"] = altered(document["envelope"], '"live":140', '"live":139')
        route.fulfill(response=answer, json=document)

    visitor.page.route("**/v1/receipts/0", lie)
    visitor.go("#/ledger/0")
    verdict = visitor.page.locator(".verdict.failed")
    expect(verdict).to_contain_text("envelope-signature-invalid")
    failed = visitor.page.locator(".steps li.failed")
    expect(failed.nth(0)).to_contain_text("A trusted key signed exactly this payload")
    expect(failed.nth(1)).to_contain_text("inclusion-root-mismatch")
    expect(visitor.page.locator(".steps li.skipped").first).to_contain_text("not reached")


def test_the_browser_holds_the_ledger_to_the_head_it_kept(visitor: Visitor) -> None:
    page, service = visitor.page, visitor.service
    expect(page.locator("p.head.passed")).to_contain_text("keeps the head from now on")
    service.call("POST", "/v1/memories/icu/admit", {"key": [0.1] * 6, "value": [0.0, 0.0], "id": "watched"})
    visitor.go("#/ledger")
    expect(page.locator("p.head.passed")).to_contain_text("extends the head that this browser kept (1 leaf more)")

    def rewrite(route: Route) -> None:
        answer = route.fetch()
        document = answer.json()
        lines = document["text"].split("\n")
        lines[1] = "A" * 43 + "="
        route.fulfill(response=answer, json=document | {"text": "\n".join(lines)})

    service.call("POST", "/v1/memories/icu/admit", {"key": [0.2] * 6, "value": [0.0, 0.0], "id": "watched-too"})
    page.route("**/v1/log/consistency*", rewrite)
    visitor.go("#/memories")
    expect(page.locator("p.head.failed")).to_contain_text(re.compile("consistency-(old|new)-root-mismatch"))
    page.unroute("**/v1/log/consistency*")
    page.evaluate("""() => Object.entries(localStorage).forEach(([name, text]) => {
      localStorage.setItem(name, JSON.stringify({ ...JSON.parse(text), key: "another" }));
    })""")
    visitor.go("#/ledger")
    expect(page.locator("p.head.failed")).to_contain_text("SigningKeyChanged")


KEPT = """() => JSON.parse(Object.entries(localStorage).find(([name]) => name.startsWith("expunge.head."))[1]).note"""


def test_the_head_that_is_kept_is_the_newest_that_was_verified(visitor: Visitor) -> None:
    """Not what the service puts beside the proof, and not an older one that arrives late in another tab."""
    page, service = visitor.page, visitor.service
    expect(page.locator("p.head.passed")).to_contain_text("keeps the head from now on")
    first = page.evaluate(KEPT)
    numbers = iter(range(100))

    def grow() -> str:
        form = {"key": [0.3] * 6, "value": [0.0, 0.0], "id": f"grown-{next(numbers)}"}
        service.call("POST", "/v1/memories/icu/admit", form)
        note: str = service.call("GET", "/v1/log/checkpoint")["note"]
        return note

    def misplace(route: Route) -> None:
        answer = route.fetch()
        document = answer.json()
        document["checkpoint"]["note"] = first
        route.fulfill(response=answer, json=document)

    newest = grow()
    page.route("**/v1/log/consistency*", misplace)
    visitor.go("#/ledger")
    expect(page.locator("p.head.passed")).to_contain_text("(1 leaf more)")
    assert page.evaluate(KEPT) == newest != first
    page.unroute("**/v1/log/consistency*")

    def overtake(route: Route) -> None:
        answer = route.fetch()
        page.evaluate(
            """(note) => Object.entries(localStorage).forEach(([name, text]) => {
              localStorage.setItem(name, JSON.stringify({ ...JSON.parse(text), note }));
            })""",
            grow(),
        )
        route.fulfill(response=answer)

    grow()
    page.route("**/v1/log/consistency*", overtake)
    visitor.go("#/memories")
    expect(page.locator("p.head.passed")).to_contain_text("(1 leaf more)")
    assert page.evaluate(KEPT) == service.call("GET", "/v1/log/checkpoint")["note"]


def test_the_ledger_is_filtered_saved_and_linked_to(visitor: Visitor) -> None:
    """Filters are part of the address; many lines that say the same are one; a summary leads to its parts."""
    service, page = visitor.service, visitor.page
    rows = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]
    for name in ("east", "west"):
        shape = {"keys": rows, "values": [[1.0]] * 4, "subjects": ["Ida", "Ida", "Tom", "Tom"]}
        service.call("POST", "/v1/memories", {"name": name, "sigma": 1.0, "nu": 0.5, **shape})
    case = {"Expunge-Case": "DSR-77 (asked)", "Prefer": "wait=30"}
    job = service.call("POST", "/v1/erasures", {"subject": "Ida"}, **case)
    hold = service.call("POST", "/v1/memories/east/holds", {"subject": "Tom", "reason": "=1+1, a case"})
    for _ in range(5):
        service.call("POST", "/v1/erasures", {"subject": "Tom"}, Prefer="wait=30")
        service.call("POST", "/v1/memories/west/admit", {"key": [3.0, 3.0], "value": [1.0], "subject": "Tom"})
    for _ in range(4):
        service.call("POST", "/v1/memories/west/admit", {"key": [3.0, 3.0], "value": [1.0]})
    visitor.go("#/ledger")
    filters = page.get_by_role("search", name="Filters")
    filters.get_by_label("What").select_option(label="Erasures of persons")
    filters.get_by_label("Case").fill("dsr-77")
    filters.get_by_role("button", name="Show").click()
    lines = page.locator("table.receipts tbody tr[data-leaf]")
    expect(lines).to_have_count(1)
    index = job["result"]["index"]
    expect(lines.first).to_contain_text("a person erased: 4 entries")
    expect(lines.first).to_contain_text("DSR-77 (asked)")
    assert page.url.endswith("#/ledger?sort=persons&case=dsr-77")
    page.reload()
    expect(lines).to_have_count(1)
    for name, number in (("Last month", 0), ("This month", 1)):
        filters.get_by_role("link", name=name).click()
        expect(lines).to_have_count(number)
    assert re.search(r"sort=persons&.*from=\d{4}-\d\d-01&to=\d{4}-\d\d-(28|29|30|31)", page.url)
    # What was chosen and not shown yet stays chosen.
    visitor.go("#/ledger")
    filters.get_by_label("What").select_option(label="Erasures of persons")
    filters.get_by_role("link", name="This month").click()
    expect(page).to_have_url(re.compile(r"sort=persons&from="))
    expect(filters.get_by_label("What").locator("option:checked")).to_have_text("Erasures of persons")
    expect(filters.get_by_label("From")).not_to_have_value("")
    filters.get_by_label("Case").fill("dsr-77")
    filters.get_by_role("button", name="Show").click()
    expect(lines).to_have_count(1)
    part = job["result"]["memories"][0]["index"]
    lines.first.get_by_role("link", name=f"Receipt {part}, a part of {index}").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Receipt {part}")
    visitor.go("#/ledger?sort=refused")
    expect(lines.first).to_be_attached()
    for state in lines.locator(".kind").all():
        assert "refused" in (state.get_attribute("class") or "")
    visitor.go("#/ledger?memory=west")
    group = page.locator("tr.group-of-lines").first
    expect(group).to_contain_text("5 times: 5 entries admitted")
    expect(lines.first).to_be_hidden()
    group.get_by_role("button").click()
    expect(lines.first).to_be_visible()
    saved = {}
    for kind in ("CSV", "JSON lines"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Save as {kind}").click()
        saved[kind] = Path(download.value.path()).read_text(encoding="utf-8")
    listed = service.call("GET", "/v1/log?memory=west&limit=1000")["items"]
    assert [json.loads(line) for line in saved["JSON lines"].splitlines()] == listed
    read = list(csv.DictReader(saved["CSV"].splitlines()))
    assert [int(one["index"]) for one in read] == [one["index"] for one in listed]
    assert {one["name"] for one in read} == {"west"}
    service.call("DELETE", f"/v1/holds/{hold['number']}")
    for name in ("east", "west"):
        service.call("DELETE", f"/v1/memories/{name}")
