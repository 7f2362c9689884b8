"""The verifier that is one file, from a file in two browsers, and the same verifier in the page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

import build_verifier
from attestation.certificate_ledger import LOG_KEY as CERTIFICATE_KEY
from attestation.certificate_ledger import STRANGER, document, full_ledger
from cosigning import cosign_checkpoint
from expunge.attestation.certificate_document import certificate_html
from expunge.ledger.mldsa import MldsaVerifyingKey
from expunge.ledger.note import NoteAlgorithm, NoteKey, NoteSignature, parse_note
from expunge.ledger.signing import SigningKey, VerifyingKey
from expunge.store import open as open_store
from service.frontend.browser import ORIGIN, RunningService, Visitor, axe_findings, visiting
from service.frontend.firefox import firefox
from service.frontend.verifier import vkey
from verifier.mutants import authority
from verify.cases import LOGGER, SIGNER, case, ledger

FILE = build_verifier.STATIC / build_verifier.TARGET
SUBJECT = "patient-7"


@dataclass(frozen=True)
class Given:
    """Files of a store, the key to trust, and the salt of an erased subject."""

    folder: Path
    key: str
    salt: str
    erasure: str

    def __truediv__(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    """A ledger with edits of every sort, and what one would be given of it."""
    folder = tmp_path_factory.mktemp("given")
    rng = np.random.default_rng(2)
    subjects = [SUBJECT if row % 9 == 0 else f"patient-{row % 5}" for row in range(40)]
    keys, values = rng.standard_normal((40, 3)), rng.standard_normal((40, 2))
    with open_store(f"sqlite:///{folder / 'store.db'}", origin=ORIGIN) as store:
        ward = store.create("ward", keys, values, sigma=2.0, nu=0.3, subjects=subjects)
        ward.prune("archive")
        (folder / "older.txt").write_bytes(store.checkpoint().to_bytes())
        ward.admit([0.5, 0.5, 3.0], [1.0, 2.0], subject=SUBJECT)
        icu = store.create("icu", keys[:20] + 5.0, values[:20], sigma=2.0, nu=0.4, subjects=subjects[:20])
        icu.prune("forget")
        erasure = store.erase_subject(SUBJECT)
        assert erasure.index is not None
        assert erasure.salt is not None
        store.drop("icu")
        leaves = [leaf.envelope for leaf in store.receipts()]
        (folder / "ledger.jsonl").write_bytes(b"".join(leaf + b"\n" for leaf in leaves))
        (folder / "head.txt").write_bytes(store.checkpoint().to_bytes())
        (folder / "grown.txt").write_bytes(store.consistency(2).to_bytes())
        name = f"receipt-{erasure.index}"
        for index in (2, erasure.index):
            (folder / f"receipt-{index}.json").write_bytes(leaves[index])
            (folder / f"receipt-{index}.tlog-proof").write_bytes(store.inclusion(index).to_bytes())
        key = store.log_key.to_text()
    (folder / "bundle.evidence").write_bytes(case("ward-decrement").evidence)
    (folder / "dated.txt").write_bytes(ledger().heads[-1].to_bytes())
    (folder / "dated.tsr").write_bytes(authority()[1])
    (folder / "notes.txt").write_text("nothing of the kind", encoding="utf-8")
    return Given(folder, key, erasure.salt.hex(), name)


ALL = (
    *("receipt-2.json", "receipt-2.tlog-proof", "ledger.jsonl", "head.txt", "older.txt", "grown.txt"),
    "notes.txt",
)


@dataclass
class Alone:
    """The file in a tab of its own, and what that tab asked for and complained about."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def verify(self, key: str, *files: Path) -> dict[str, str]:
        """Give it files and a key; the state of every finding, by its name."""
        self.page.reload()
        self.page.get_by_label("Trusted keys").fill(key)
        self.page.locator("#verifier-files").set_input_files(files)
        expect(self.page.locator(".results .finding, .results .problem").first).to_be_visible()
        return states(self.page)


def states(page: Page) -> dict[str, str]:
    """The verdict on each file."""
    script = (
        "(all) => Object.fromEntries(all.map((one) => [one.ariaLabel, one.querySelector('.verdict').classList[1]]))"
    )
    found: dict[str, str] = page.locator(".finding").evaluate_all(script)
    return found


@pytest.fixture
def alone(window: Browser) -> Iterator[Alone]:
    """The file, opened from the disk by Chromium without a network."""
    context = window.new_context(viewport={"width": 1280, "height": 900})
    opened = Alone(context.new_page())
    context.on("request", lambda request: opened.requests.append(request.url))
    context.on("console", lambda line: opened.complaints.append(line.text))
    opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    context.set_offline(True)
    opened.page.goto(FILE.as_uri())
    yield opened
    assert set(opened.requests) == {FILE.as_uri()}, "it asks no network for anything"
    assert opened.complaints == []
    context.close()


def test_the_committed_files_are_current() -> None:
    for file, content in build_verifier.build().items():
        assert file.read_text(encoding="utf-8") == content, f"{file.name}: run tools/build_verifier.py"


def test_the_file_allows_itself_nothing_else() -> None:
    text = FILE.read_text(encoding="utf-8")
    policy = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    form = r"default-src 'none'; script-src 'sha256-\S+'; style-src 'sha256-\S+'; base-uri 'none'; form-action 'none'"
    assert len(policy) == 1
    assert re.fullmatch(form, policy[0])
    assert not re.search(r"(?:src|href)=|\bimport\(|@import|url\(", text)


def test_everything_that_one_can_be_given(alone: Alone, given: Given) -> None:
    key = given.key
    assert alone.verify(key, *(given / name for name in ALL)) == {
        "receipt-2.json": "passed",
        "ledger.jsonl": "passed",
        "grown.txt": "passed",
        "notes.txt": "failed",
    }
    expect(alone.page.get_by_role("region", name="receipt-2.json")).to_contain_text("1 entry was admitted")
    assert alone.verify(key, given / "receipt-2.json") == {"receipt-2.json": "partial"}
    assert alone.verify(key, given / "ledger.jsonl") == {"ledger.jsonl": "partial"}
    assert alone.verify(key, given / "head.txt", given / "older.txt") == {"head.txt, older.txt": "partial"}
    both = vkey(LOGGER) + "\n" + SIGNER.public.to_pem().decode()
    assert alone.verify(both, given / "bundle.evidence") == {"bundle.evidence": "partial"}
    expect(alone.page.locator(".finding")).to_contain_text("expunge verify evidence does that")
    stamped = both + authority()[2]
    assert alone.verify(stamped, given / "dated.txt", given / "dated.tsr") == {"dated.txt": "passed"}
    expect(alone.page.locator(".finding")).to_contain_text("existed at the latest")


def test_a_ledger_is_not_its_own_witness(alone: Alone, given: Given, tmp_path: Path) -> None:
    """Not with a key that it has added, either; and a proof that it grew needs cosignatures like a head."""
    own, stranger = SigningKey.generate(), SigningKey.generate()
    with open_store(f"sqlite:///{tmp_path / 'store.db'}", origin=ORIGIN) as store:
        store.create("ward", np.eye(3), np.eye(3), sigma=2.0, nu=0.5)
        store.add_key(own.public, "receipts")
        (tmp_path / "ledger.jsonl").write_bytes(b"".join(leaf.envelope + b"\n" for leaf in store.receipts()))
        head = cosign_checkpoint(store.checkpoint(), "sock.example", own, int(time.time()))
        (tmp_path / "head.txt").write_bytes(head.to_bytes())
        key = store.log_key.to_text()
    files = tmp_path / "ledger.jsonl", tmp_path / "head.txt"
    codes = alone.page.locator(".finding code")
    assert alone.verify(f"{key}\n{witness('sock.example', own)}", *files) == {"ledger.jsonl": "failed"}
    expect(codes.first).to_have_text("witness-is-log")
    grown = given / "grown.txt", given / "older.txt"
    assert alone.verify(f"{given.key}\n{witness('away.example', stranger)}", *grown) == {"grown.txt": "failed"}
    expect(codes.first).to_have_text("cosignature-quorum-missed")


def witness(name: str, key: SigningKey) -> str:
    return NoteKey(name, key.public, NoteAlgorithm.COSIGNATURE_V1).to_text()


def test_a_file_that_is_dropped(alone: Alone, given: Given) -> None:
    alone.page.get_by_label("Trusted keys").fill(given.key)
    text = (given / "receipt-2.json").read_text(encoding="utf-8")
    alone.page.evaluate(
        """(text) => {
          const moved = new DataTransfer();
          moved.items.add(new File([text], "dropped.json"));
          document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer: moved, bubbles: true }));
        }""",
        text,
    )
    expect(alone.page.locator(".finding")).to_have_count(1)
    assert states(alone.page) == {"dropped.json": "partial"}
    alone.page.get_by_role("button", name="Remove dropped.json").click()
    expect(alone.page.locator(".taken li")).to_have_count(0)


def test_a_lie_is_named_and_what_it_claims_is_not_shown(alone: Alone, given: Given, tmp_path: Path) -> None:
    leaves = (given / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    short = tmp_path / "short.jsonl"
    short.write_bytes(b"".join(leaves[:3] + leaves[4:]))
    assert alone.verify(given.key, short, given / "head.txt") == {"short.jsonl": "failed"}
    finding = alone.page.locator(".finding")
    expect(finding.locator("code").first).to_have_text(re.compile("ledger-[a-z-]+"))
    forged = tmp_path / "forged.json"
    forged.write_text(altered((given / "receipt-2.json").read_text(), '"live":', '"live":1'), encoding="utf-8")
    assert alone.verify(given.key, forged, given / "receipt-2.tlog-proof") == {"forged.json": "failed"}
    expect(finding.locator(".verdict")).to_contain_text("NOT verified. envelope-signature-invalid: ")
    expect(finding.locator(".verdict")).to_contain_text("was not made by it over this payload")
    expect(finding).not_to_contain_text("admitted")


def test_a_certificate_whose_page_is_another_is_red(alone: Alone, tmp_path: Path) -> None:
    made, indices = full_ledger()
    key = CERTIFICATE_KEY.to_text()
    good = {}
    for name in ("complete", "incomplete", "refused", "dropped"):
        file = tmp_path / f"{name}.html"
        file.write_bytes(certificate_html(document(made, name, indices[name])))
        good[file.name] = file
    assert alone.verify(key, *good.values()) == dict.fromkeys(good, "passed")
    finding = alone.page.get_by_role("region", name="complete.html", exact=True)
    expect(finding).to_contain_text("Its page shows what was signed; only the QR code was not checked.")
    sound = good["complete.html"].read_bytes()
    changes = {
        "text.html": (b"9 entries were removed.", b"8 entries were removed."),
        "tag.html": (b"</main>", b"</main><p>Nothing is left.</p>"),
        "style.html": (b"</style>", b".excludes{display:none}</style>"),
        "script.html": (b"showResult();\n</script>", b"document.title=1;\n</script>"),
    }
    for name, change in changes.items():
        (tmp_path / name).write_bytes(sound.replace(*change, 1))
    assert alone.verify(key, *(tmp_path / name for name in changes)) == dict.fromkeys(changes, "failed")
    for verdict in alone.page.locator(".verdict").all():
        expect(verdict).to_contain_text("certificate-page-mismatch: What the page shows is not what its data make.")
    expect(alone.page.locator(".results")).not_to_contain_text("entries were removed")


def test_whom_it_is_about(alone: Alone, given: Given) -> None:
    page = alone.page
    for text, answer in ((SUBJECT, "Yes: it names this as its subject"), ("patient-8", "No: nothing in it opens")):
        page.get_by_label("Name, number, or case").fill(text)
        page.get_by_label("Salt").fill(given.salt)
        page.get_by_label("Trusted keys").fill(given.key)
        page.locator("#verifier-files").set_input_files(given / f"{given.erasure}.json")
        expect(page.locator(".about")).to_contain_text(answer)
    page.get_by_label("Name, number, or case").fill(SUBJECT)
    page.locator("#verifier-files").set_input_files([given / "ledger.jsonl", given / "head.txt"])
    place = page.get_by_role("region", name="ledger.jsonl").locator(".about")
    expect(place).to_contain_text(f"Yes: leaf {given.erasure.removeprefix('receipt-')} (subject)")
    page.get_by_label("Salt").fill("beef")
    page.get_by_role("button", name="Verify").click()
    expect(page.locator(".problem")).to_contain_text("64 hexadecimal digits")


@dataclass(frozen=True)
class Tried:
    """Files, what is given with them, and what the verifier has to say of the first."""

    trust: str
    files: tuple[Path, ...]
    state: str
    says: str
    hours: str = ""
    about: tuple[str, str] = ("", "")


def every_kind(given: Given, folder: Path) -> dict[str, Tried]:
    """Genuine, forged and damaged files of every kind."""

    def written(name: str, content: bytes) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    made, indices = full_ledger()
    genuine = certificate_html(document(made, "complete", indices["complete"]))
    key = CERTIFICATE_KEY.to_text()
    damaged = genuine.replace(b"9 entries were removed.", b"8 entries were removed.", 1)
    bundle, both = case("ward-decrement").evidence, vkey(LOGGER) + "\n" + SIGNER.public.to_pem().decode()
    stamp, stamped = (given / "dated.tsr").read_bytes(), both + authority()[2]
    head = given / "dated.txt"
    leaves = (given / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    lie = written("lie.jsonl", b"".join(leaves[:3] + leaves[4:]))
    receipt, proof = given / "receipt-2.json", given / "receipt-2.tlog-proof"
    foreign = json.loads(receipt.read_bytes())
    foreign["payload"] = foreign["payload"].replace("+", "-").replace("/", "_")
    foreign = {"extra": [1.5], **foreign}
    more = {**foreign, "signatures": [*foreign["signatures"], {"sig": "AAAAAAAAAAAA"}]}
    lost = {**foreign, "signatures": [{"sig": foreign["signatures"][0]["sig"]}]}
    kept, erasure = parse_note((given / "head.txt").read_bytes()), given / f"{given.erasure}.json"
    watching = SigningKey.generate()
    old = cosign_checkpoint(kept, "sock.example", watching, int(time.time()) - 7200)
    quantum = NoteKey("new.example", MldsaVerifyingKey(bytes(1312)), NoteAlgorithm.COSIGNATURE_MLDSA_44)
    line = NoteSignature(quantum.name, quantum.key_id, int(time.time()).to_bytes(8, "big") + bytes(2420))
    watched = f"{given.key}\n{witness('sock.example', watching)}"
    dated, newer = written("old.txt", old.to_bytes()), written("new.txt", kept.with_signature(line).to_bytes())
    return {
        "a certificate": Tried(key, (written("good.html", genuine),), "passed", "Its page shows what was signed"),
        "a forged certificate": Tried(key, (written("own.html", forged()),), "failed", "envelope-signer-unknown"),
        "a damaged certificate": Tried(key, (written("bad.html", damaged),), "failed", "certificate-page-mismatch"),
        "a time stamp": Tried(stamped, (head, given / "dated.tsr"), "passed", "existed at the latest"),
        "a damaged time stamp": Tried(
            stamped, (head, written("bad.tsr", flipped(stamp, 45))), "failed", "timestamp-signature-invalid"
        ),
        "a bundle": Tried(both, (given / "bundle.evidence",), "partial", "expunge verify evidence does that"),
        "a damaged bundle": Tried(both, (written("bad.evidence", flipped(bundle, -900)),), "failed", "evidence-"),
        "a lie": Tried(given.key, (lie, given / "head.txt"), "failed", "ledger-"),
        "a receipt": Tried(given.key, (receipt, proof), "passed", "1 entry was admitted"),
        "a receipt written anew": Tried(
            given.key, (written("anew.json", json.dumps(foreign, indent=2).encode()), proof), "passed", "1 entry was"
        ),
        "a receipt with a signature more": Tried(
            given.key, (written("more.json", json.dumps(more).encode()), proof), "failed", "inclusion-root-mismatch"
        ),
        "a receipt without its key id": Tried(
            given.key, (written("lost.json", json.dumps(lost).encode()),), "partial", "1 entry was admitted"
        ),
        "a salt": Tried(given.key, (erasure,), "partial", "Yes: it names this", about=(SUBJECT, given.salt)),
        "another salt": Tried(given.key, (erasure,), "partial", "No: nothing in it", about=(SUBJECT, "0" * 64)),
        "a cosignature": Tried(watched, (dated,), "passed", "sock.example", hours="2.5"),
        "an old cosignature": Tried(watched, (dated,), "failed", "cosignature-too-old", hours="1.5"),
        "a line of ML-DSA-44": Tried(
            f"{given.key}\n{quantum.to_text()}",
            (newer,),
            "partial",
            "Whether new.example cosigned was not checked here",
        ),
        "a witness that did not cosign": Tried(
            f"{watched}\n{quantum.to_text()}", (newer,), "failed", "cosignature-quorum-missed"
        ),
    }


def flipped(data: bytes, at: int) -> bytes:
    """The bytes with one bit changed."""
    found = bytearray(data)
    found[at] ^= 1
    return bytes(found)


def forged() -> bytes:
    """A certificate with the forger's own key, whose own script says of itself that it is undamaged."""
    made, indices = full_ledger(STRANGER)
    file = certificate_html(document(made, "complete", indices["complete"]))
    found = re.search(rb'<script id="check" type="module">(.*?)</script>', file, re.DOTALL)
    assert found is not None
    script = found[1] + b'\ndocument.getElementById("self-check").dataset.state = "undamaged";\n'
    old, new = (base64.b64encode(hashlib.sha256(each).digest()) for each in (found[1], script))
    return file.replace(found[1], script).replace(old, new)


GIVE = """(({ trust, hours, about: [text, salt] }) => {
  const labels = [...document.querySelectorAll("label")];
  const fields = { "Trusted keys": trust, Hours: hours, "Name, number, or case": text, Salt: salt };
  for (const [label, value] of Object.entries(fields))
    document.getElementById(labels.find((one) => one.textContent === label).htmlFor).value = value;
  return true;
})"""
READY = """new Promise((resolve) => {
  const look = () => (document.querySelector("form") ? resolve(isSecureContext) : setTimeout(look, 20));
  look();
})"""
VERDICT = """new Promise((resolve) => {
  const look = () => {
    const found = [...document.querySelectorAll(".finding")];
    if (!found.length && !document.querySelector(".results .problem")) return setTimeout(look, 20);
    return resolve(found.map((one) => [one.querySelector(".verdict").classList[1], one.textContent]));
  };
  look();
})"""


def given_with(tried: Tried) -> str:
    """What is typed, as an expression."""
    return f"{GIVE}({json.dumps({'trust': tried.trust, 'hours': tried.hours, 'about': tried.about})})"


def check(name: str, tried: Tried, found: list[list[str]]) -> None:
    """One verdict, of this state, that says this."""
    assert [state for state, _ in found] == [tried.state], (name, found)
    assert tried.says in found[0][1], (name, found)


def test_every_kind_in_chromium(alone: Alone, given: Given, tmp_path: Path) -> None:
    page = alone.page
    for name, tried in every_kind(given, tmp_path).items():
        page.reload()
        assert page.evaluate(READY)
        page.evaluate(given_with(tried))
        page.locator("#verifier-files").set_input_files(tried.files)
        check(name, tried, page.evaluate(VERDICT))


def test_every_kind_in_firefox(given: Given, tmp_path: Path) -> None:
    with firefox() as browser:
        for name, tried in every_kind(given, tmp_path).items():
            browser.open(FILE)
            assert browser.evaluate(READY)
            browser.evaluate(given_with(tried))
            browser.put_files("#verifier-files", *tried.files)
            check(name, tried, browser.evaluate(VERDICT))
            assert browser.evaluate("performance.getEntriesByType('resource').length") == 0


def test_a_forger_has_his_own_script(window: Browser, tmp_path: Path) -> None:
    """Which says that all is well: the verifier refuses this file, whatever it says of itself."""
    (tmp_path / "own.html").write_bytes(forged())
    page = window.new_page()
    page.goto((tmp_path / "own.html").as_uri())
    expect(page.locator("#self-check")).to_have_attribute("data-state", "undamaged")
    page.close()


SIDEWAYS = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_it_is_for_everybody(alone: Alone, given: Given) -> None:
    alone.verify(given.key, *(given / name for name in ALL))
    alone.page.get_by_text("Technical details").first.click()
    found = []
    for width, scheme in ((360, "light"), (800, "dark"), (1280, "light"), (360, "dark")):
        alone.page.set_viewport_size({"width": width, "height": 900})
        alone.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found += [alone.page.evaluate(SIDEWAYS), *axe_findings(alone.page)]
    assert found == [0, 0, 0, 0]


def altered(envelope: str, old: str, new: str) -> str:
    """The envelope with one word of its payload changed, everything else in order."""
    whole = json.loads(envelope)
    payload = base64.b64decode(whole["payload"]).decode()
    assert old in payload
    whole["payload"] = base64.b64encode(payload.replace(old, new, 1).encode()).decode()
    return json.dumps(whole, separators=(",", ":"), sort_keys=True)


OTHER_KEY = NoteKey(ORIGIN, VerifyingKey(base64.b64decode("11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="))).to_text()
# What is pasted: which part of it is changed, how, and what that is called.
PASTED: dict[str, tuple[str, Callable[[str], str], str | None]] = {
    "sound": ("key", lambda text: text, None),
    "receipt": (
        "envelope",
        lambda text: altered(text, '"mode":"forget"', '"mode":"archive"'),
        "envelope-signature-invalid",
    ),
    "spelling": ("envelope", lambda text: text.replace(":", ": ", 1), None),
    "field twice": ("envelope", lambda text: text.replace("{", '{"payload":"",', 1), "json-duplicate-key"),
    "index": ("proof", lambda text: text.replace("index 1", "index 2"), "inclusion-root-mismatch"),
    "head": ("proof", lambda text: re.sub(r"\n\d+\n([^\n]+=\n\n—)", r"\n9999\n\1", text), "note-signature-invalid"),
    "format": ("proof", lambda text: text.replace("index 1\n", ""), "log-proof-index-invalid"),
    "key": ("key", lambda _: OTHER_KEY, "envelope-signer-unknown"),
}


def test_pasting_into_the_page_without_signing_in_or_network(window: Browser, site: RunningService) -> None:
    leaf: Any = site.call("GET", "/v1/receipts/1")
    sound = {"envelope": leaf["envelope"], "proof": leaf["inclusion"]["text"], "key": leaf["log_key"]}
    with visiting(window, site, token=None) as visit:
        for part, change, error in PASTED.values():
            visit.go("#/nowhere")
            visit.go("#/verify")
            visit.page.context.set_offline(True)
            seen = len(visit.requests)
            texts = sound | {part: change(sound[part])}
            visit.page.get_by_label("Trusted keys").fill(texts["key"])
            visit.page.get_by_text("Or paste a text").click()
            for name in ("envelope", "proof"):
                visit.page.get_by_label("Text of a receipt").fill(texts[name])
                visit.page.get_by_role("button", name="Add").click()
            visit.page.get_by_role("button", name="Verify", exact=True).click()
            verdict = visit.page.locator(".verdict")
            expect(verdict).to_contain_text(error or "Verified.")
            first = visit.page.locator(".steps li.failed").first
            expect(first).to_contain_text(error) if error else expect(first).to_have_count(0)
            assert len(visit.requests) == seen, "nothing that is pasted leaves the browser"
            visit.page.context.set_offline(False)
        visit.check_traffic()


def test_files_in_the_page_with_the_key_of_the_store(visitor: Visitor, tmp_path: Path) -> None:
    leaf = visitor.service.call("GET", "/v1/receipts/2")
    (tmp_path / "receipt.json").write_text(leaf["envelope"], encoding="utf-8")
    (tmp_path / "receipt.tlog-proof").write_text(leaf["inclusion"]["text"], encoding="utf-8")
    visitor.go("#/verify")
    page = visitor.page
    page.locator("#verifier-files").set_input_files([tmp_path / "receipt.json", tmp_path / "receipt.tlog-proof"])
    page.get_by_role("button", name="Use this store's keys").click()
    page.get_by_role("button", name="Verify", exact=True).click()
    expect(page.locator(".verdict.passed")).to_contain_text("and in the ledger")
    with page.expect_download() as download:
        page.get_by_role("link", name="the verifier that is one file").click()
    assert Path(download.value.path()).read_bytes() == FILE.read_bytes()
