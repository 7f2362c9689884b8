"""``expunge certificate`` and ``expunge verify certificate``."""

from __future__ import annotations

from pathlib import Path

from cli.command_runner import TRUST, answer, call, code_of
from witnessing.stamping_authority import make_authority, stamping_server


def test_a_document_is_written_and_verified(ward: Path) -> None:
    done = answer("erase-subject", "p-1", "--yes")
    leaf, salt = done["index"], done["salt"]
    made = answer("certificate", leaf, "--out", "e.html", "--subject", "p-1", "--salt", salt, "--names")
    assert (made["erasure"], made["format"]) == (True, "html")
    found = answer("verify", "certificate", "e.html", *TRUST)
    assert found["facts"]["Whose data"] == "p-1"
    assert set(found["checked"]) >= {"signature", "inclusion", "receipts", "subject", "page", "QR code"}
    assert {row["Collection"].split()[0] for row in found["memories"]} == {"ward", "other"}
    call("certificate", leaf, "--out", "e.pdf")
    paper = call("verify", "certificate", "e.pdf", *TRUST)
    assert "not compared" in paper.stderr
    assert "p-1" not in paper.stdout
    shown = Path("e.html").read_bytes()
    Path("f.html").write_bytes(shown.replace(b"p-1</dd>", b"p-2</dd>"))
    assert code_of("verify", "certificate", "f.html", *TRUST, code=1) == "certificate-page-mismatch"
    # A key of another store, for the same ledger's name.
    call("keygen", "other.pem")
    origin = ("--origin", found["origin"])
    assert (
        code_of("verify", "certificate", "e.html", "--trust", "other.pub", *origin, code=1) == "envelope-signer-unknown"
    )


def test_the_operator_is_named_by_the_ledger(ward: Path) -> None:
    """A name is given once, when the store is made; the page answers who, whatever is revealed."""
    new, name = ("--store", "sqlite:///named.db", "--json"), "hospital.example/ward"
    call("--ledger-name", name, "create", "ward", "hours.csv", *new, "--subject-column", "patient", "--nu", "0.4")
    done = answer("erase-subject", "p-1", "--yes", *new[:2])
    call("certificate", done["index"], "--out", "named.html", *new[:2])
    Path("named.vkey").write_text(call("show", "--verifier-key", *new[:2]).stdout, encoding="utf-8")
    facts = answer("verify", "certificate", "named.html", "--trust", "named.vkey")["facts"]
    assert facts["From which store"] == name
    assert facts["By whom"] == "the operator of this store; nobody is named"
    refused = call("--ledger-name", "other.example/log", "show", *new, code=4)
    assert name in refused.stderr


def test_case_and_actor_are_shown_unless_they_are_withheld(ward: Path) -> None:
    leaf = answer("erase-subject", "p-1", "--yes", "--case", "C-1", "--actor", "desk")["index"]
    shown = call("certificate", leaf, "--out", "all.html")
    assert "case, actor" in shown.stderr
    assert {b"C-1", b"desk"} == {text for text in (b"C-1", b"desk") if text in Path("all.html").read_bytes()}
    call("certificate", leaf, "--out", "part.html", "--without-case")
    part = call("certificate", leaf, "--out", "none.html", "--without-case", "--without-actor")
    assert "It shows" not in part.stderr
    assert (b"C-1" in Path("part.html").read_bytes(), b"desk" in Path("part.html").read_bytes()) == (False, True)
    assert not [text for text in (b"C-1", b"desk") if text in Path("none.html").read_bytes()]
    answer("verify", "certificate", "none.html", *TRUST)


def test_an_edit_that_is_no_erasure_is_called_so(ward: Path) -> None:
    assert answer("certificate", 0, "--out", "c.html")["erasure"] is False
    assert answer("verify", "certificate", "c.html", *TRUST)["title"] == "Record of an edit"


def test_what_cannot_be_issued_is_refused_before_a_file_is_written(ward: Path) -> None:
    done = answer("erase-subject", "p-1", "--yes")
    leaf, salt = done["index"], done["salt"]
    call("hold", "ward", "--subject", "p-2", "--reason", "x")
    html = ("--out", "x.html")
    assert code_of("certificate", leaf + 1, *html, code=2) == "certificate-leaf-unsuitable"
    assert code_of("certificate", leaf - 1, *html, "--subject", "p-1", "--salt", salt, code=2) == (
        "certificate-leaf-unsuitable"
    )
    assert code_of("certificate", leaf, *html, "--subject", "p-2", "--salt", salt, code=1) == (
        "certificate-subject-mismatch"
    )
    assert (
        code_of("certificate", leaf, *html, "--case", "a", "--case-salt", salt, code=1) == "certificate-case-mismatch"
    )
    for wrong in (
        ("certificate", 999, *html),
        ("certificate", leaf, "--out", "x.txt"),
        ("certificate", leaf, *html, "--subject", "p-1"),
        ("certificate", leaf, *html, "--subject", "p-1", "--salt", "abc"),
        ("certificate", leaf, *html, "--timestamp", "none.tsr"),
        ("certificate", leaf, *html, "--actor", "\x1b", "--actor-salt", salt),
    ):
        assert code_of(*wrong, code=2) == "input-error"
    assert not list(Path().glob("x.*"))
    call("certificate", leaf, *html)
    call("certificate", leaf, *html, code=2)
    call("certificate", leaf, *html, "--force")


def test_a_document_with_a_time_stamp(ward: Path) -> None:
    """What the authority stamped is the document's own head, and a stamp of another head is found out."""
    authority = make_authority(ward / "tsa")
    root = ("--tsa-root", authority / "root.pem")
    with stamping_server(authority) as url:
        for name in ("old", "new"):
            call("checkpoint", "export", "--out", f"{name}.txt")
            call("checkpoint", "timestamp", f"{name}.txt", "--tsa", url, *root)
            call("delete", "--yes", "other", f"h00{len(name)}" if name == "old" else "h005")
    call("certificate", 0, "--out", "c.html", "--head", "new.txt", "--timestamp", "new.tsr")
    assert "timestamp" in answer("verify", "certificate", "c.html", *TRUST, *root)["checked"]
    assert "timestamp" not in answer("verify", "certificate", "c.html", *TRUST)["checked"]
    call("certificate", 0, "--out", "none.html")
    assert code_of("verify", "certificate", "none.html", *TRUST, *root, code=2) == "input-error"
    call("certificate", 0, "--out", "wrong.html", "--head", "new.txt", "--timestamp", "old.tsr")
    assert code_of("verify", "certificate", "wrong.html", *TRUST, *root) == "timestamp-imprint-mismatch"
