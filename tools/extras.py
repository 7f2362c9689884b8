"""One real, small use of the base install and of each extra, for an environment that has nothing else.

    python tools/extras.py sklearn

``tools/release.py`` runs each use twice: with the extra, where it must end well, and without, where it must raise
MissingExtra and name the extra. Exit codes are 0 (used), 3 (missing, with the message on standard output), else 1.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np

import expunge
from expunge import Memory, MissingExtra, StoreError

KEYS = np.random.default_rng(0).standard_normal((40, 3))


def mirrored(url: str) -> None:
    """Write an entry to a mirror, erase it there, and find it absent."""
    from expunge.mirrors import Copy, Doomed, open_mirror, remove_entries

    with open_mirror(url) as mirror:
        mirror.write([Copy("7", [1.0, 0.0, 0.0], "a text", {"topic": "tea"}), Copy("8", [0.0, 1.0, 0.0], "another")])
        done = remove_entries(mirror, [Doomed("7")])
    if [entry.id for entry in done.entries("present")] or len(done.checks) != 1:
        raise SystemExit(f"a copy is left in {url}")


def base() -> None:
    """Fit, delete, and compare with a fit that never saw the entry; then the same in a file, signed and verified."""
    memory = Memory.fit(KEYS, KEYS[:, 0], sigma=2.0, nu=0.4)
    memory.delete("7")
    never = Memory.fit(np.delete(KEYS, 7, axis=0), np.delete(KEYS[:, 0], 7), sigma=2.0, cap=memory.cap)
    if np.abs(memory.coefficients - never.coefficients).max() > 1e-9:
        raise SystemExit("a deletion is not a fit of the rest")
    with expunge.open("sqlite:///used.db") as store:
        store.create("ward", KEYS, KEYS[:, 0], sigma=2.0, nu=0.4).delete("7")
        store.verify()


def audit(backend: Literal["local", "ray"] = "local") -> None:
    """Audit keys of one's own, and recompute the numbers from the results."""
    from expunge.audit.engine import run_experiment
    from expunge.audit.own_keys import own_plan
    from expunge.verify.audit_results import verify_audit_results

    plan = own_plan(KEYS, source="keys", quick=True)
    run_experiment("deletion", Path("audit"), plan, backend=backend)
    verify_audit_results(Path("audit/deletion"))


def cluster() -> None:
    """The same audit on a cluster of one machine."""
    audit("ray")


def unanswered(uri: str) -> None:
    """Open a key where nothing answers: the library that asks is there."""
    from expunge.ledger.signer_uri import open_signer

    try:
        open_signer(uri)
    except StoreError:
        return
    raise SystemExit(f"{uri} has a key")


def aws() -> None:
    """Ask for a key at AWS, on a port where nothing listens."""
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ENDPOINT_URL_KMS": "http://127.0.0.1:1",
        "AWS_MAX_ATTEMPTS": "1",
    }
    unanswered("awskms:alias/none")


def certificate() -> None:
    """Put an erasure on paper, and verify the file."""
    from expunge.attestation.certificate_document import certificate_contents, certificate_html, certificate_pdf
    from expunge.verify.certificate_document import verify_certificate

    with expunge.open("sqlite:///paper.db") as store:
        done = store.create("ward", KEYS, KEYS[:, 0], sigma=2.0, nu=0.4).delete("7")
        opened = certificate_contents(store, done.index)
        for file in (certificate_html(opened), certificate_pdf(opened)):
            verify_certificate(file, [store.public_key], [store.log_key], store.origin)


def chroma() -> None:
    """Delete a copy from a Chroma collection."""
    mirrored("chroma:///chroma#notes")


def clinical() -> None:
    """Read a stay of the PhysioNet challenge."""
    from expunge.datasets.cohorts import physionet2019

    columns = "HR|O2Sat|Temp|SBP|MAP|DBP|Resp|ICULOS"
    rows = [
        "|".join(str(value + hour % 5) for value in (70, 93, 36, 120, 90, 80, 16)) + f"|{hour}" for hour in range(1, 61)
    ]
    Path("p000001.psv").write_text("\n".join([columns, *rows, ""]))
    physionet2019(".")


def cose() -> None:
    """Write a leaf as a COSE message."""
    with expunge.open("sqlite:///used.db") as store:
        store.create("cose", KEYS, KEYS[:, 0], sigma=2.0, nu=0.4)
        store.cose(0)


def embeddings() -> None:
    """Embed two sentences with the model that is in the wheel."""
    from expunge.integrations.embedding import minilm

    minilm()(["green tea", "black coffee"])


def hsm() -> None:
    """Ask for a key in a token whose library is no library."""
    os.environ |= {"EXPUNGE_PIN": "1234", "PYKCS11LIB": __file__}
    unanswered("hsm:1")


def langgraph() -> None:
    """Put and get through LangGraph's interface."""
    from expunge.integrations.langgraph import ExpungeStore

    with expunge.open("sqlite:///used.db") as ledger:
        store = ExpungeStore(ledger)
        store.put(("notes", "ann"), "tea", {"text": "green"})
        store.get(("notes", "ann"), "tea")


def lancedb() -> None:
    """Delete a copy from a LanceDB table."""
    mirrored("lancedb:///lance#notes")


def oidc() -> None:
    """Make what checks a provider's tokens, and ask for no key."""
    from expunge.service.openid import OpenId, OpenIdProvider

    OpenIdProvider(OpenId("https://issuer.invalid", "expunge")).find("no token")


def mcp() -> None:
    """Make the server."""
    from expunge.integrations.mcp import make_server

    with expunge.open("sqlite:///used.db") as store:
        make_server(store)


def pandas() -> None:
    """Make a data frame of a memory."""
    Memory.fit(KEYS, KEYS[:, 0], sigma=2.0, nu=0.4).to_frame("pandas")


def parquet() -> None:
    """Read a table."""
    from expunge.tables import read_table

    path = Path("keys.parquet")
    if find_spec("polars"):
        import polars

        polars.DataFrame({"k0": [0.0, 1.0], "k1": [1.0, 0.0]}).write_parquet(path)
    else:
        path.touch()
    read_table(path)


def pgvector() -> None:
    """Ask a server that is not there for a table of vectors."""
    try:
        mirrored("postgresql://127.0.0.1:1/nothing#pgvector:notes")
    except StoreError:
        return
    raise SystemExit("a server answered at port 1")


def plots() -> None:
    """Draw a figure."""
    from expunge.audit.context_selection.selection_figures import draw_comparison

    one = {"mean": 0.5, "low": 0.4, "high": 0.6}
    draw_comparison({"table": {"arms": {"cover": one, "uniform": one}}}, {"table": "a table"}, Path("figure.png"))


def postgres() -> None:
    """Ask a server that is not there: the driver says so, and not that it is missing."""
    try:
        expunge.open("postgresql://127.0.0.1:1/nothing").close()
    except StoreError:
        return
    raise SystemExit("a server answered at port 1")


def qdrant() -> None:
    """Delete a copy from a shard of Qdrant's engine."""
    mirrored("qdrant:///qdrant")


def references() -> None:
    """Solve with the solvers that we are judged by."""
    from expunge.solver.backends import solve_reference

    for backend in ("clarabel", "piqp"):
        solve_reference(KEYS, cap=0.1, sigma=2.0, backend=backend)


def rescue() -> None:
    """Solve with the solvers that a memory turns to when its own did not pass the check."""
    from expunge.solver.backends import RESCUES, solve_reference

    for backend in RESCUES:
        solve_reference(KEYS, cap=0.1, sigma=2.0, backend=backend)


def service() -> None:
    """Put the service together over a store."""
    from expunge.service import require

    require()
    from expunge.service.app import create_app
    from expunge.service.settings import Settings

    create_app(Settings("sqlite:///used.db")).openapi()


def sklearn() -> None:
    """Fit the estimator, and let it unlearn a sample."""
    from expunge.integrations.sklearn import SupportVectorMemory

    SupportVectorMemory(nu=0.4).fit(KEYS).remove([7])


def timestamp() -> None:
    """Ask an authority that is not there: the library made the request."""
    from expunge.witnessing.timestamp_request import request_timestamp

    with expunge.open("sqlite:///used.db") as store:
        try:
            request_timestamp(store.checkpoint().to_bytes(), "http://127.0.0.1:1", timeout=1.0)
        except StoreError:
            return
    raise SystemExit("an authority answered at port 1")


def torch() -> None:
    """Weigh keys with the trainable gate, and send a gradient through it."""
    from expunge.torch import SupportVectorGate

    pytorch = import_module("torch")
    keys = pytorch.tensor(KEYS, dtype=pytorch.float32, requires_grad=True)
    SupportVectorGate(cap=0.25, sigma=2.0)(keys).square().sum().backward()


def vault() -> None:
    """Ask for a key in Vault, on a port where nothing listens."""
    os.environ |= {"VAULT_ADDR": "http://127.0.0.1:1", "VAULT_TOKEN": "none"}
    unanswered("hv:none/1")


USES: dict[str, Callable[[], None]] = {
    use.__name__: use
    for use in (
        base,
        audit,
        aws,
        certificate,
        chroma,
        clinical,
        cluster,
        cose,
        embeddings,
        hsm,
        lancedb,
        langgraph,
        mcp,
        oidc,
        pandas,
        parquet,
        pgvector,
        plots,
        postgres,
        qdrant,
        references,
        rescue,
        service,
        sklearn,
        timestamp,
        torch,
        vault,
    )
}


def main() -> None:
    """Use one, in a folder that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            USES[sys.argv[1]]()
        except MissingExtra as missing:
            print(missing)
            raise SystemExit(3) from None
        finally:
            os.chdir("/")


if __name__ == "__main__":
    main()
