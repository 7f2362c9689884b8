"""Tokens of an OpenID provider stand beside the store's own: for the API, the page, and MCP."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import pytest

from expunge import InputError, StoreError
from expunge.cli.commands.serve_notes import _caller
from expunge.service.openid import OpenId, OpenIdProvider
from expunge.service.settings import Settings
from service.openid_issuer import Issuer, running_issuer
from service.service_client import ServiceClient


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as running:
        yield running


@pytest.fixture
def service(folder: Path, issuer: Issuer) -> Iterator[ServiceClient]:
    openid = OpenId(issuer.url, "expunge", client_id="page")
    made = ServiceClient(Settings(url=f"sqlite:///{folder / 'ward.db'}", openid=openid, bad_tokens=0, prefix="/ward"))
    with made.client:
        yield made


def asked(service: ServiceClient, token: str, path: str = "/v1", method: str = "GET", **given: Any) -> Any:
    return service.client.request(method, path, headers={"Authorization": f"Bearer {token}"}, **given)


def test_a_providers_token_may_what_its_claim_says(service: ServiceClient, issuer: Issuer) -> None:
    about = asked(service, issuer.token()).json()["token"]
    assert about["scopes"] == ["audit", "read"]
    assert about["id"].startswith("oidc-")
    assert "person-1" not in json.dumps(about)
    assert asked(service, issuer.token(), "/v1/memories/icu/entries").status_code == 200
    body = {"id": "e1"}
    assert asked(service, issuer.token(), "/v1/memories/icu/delete", "POST", json=body).status_code == 403
    eraser = issuer.token(scope=["expunge:erase"], sub="person-2")
    done = asked(service, eraser, "/v1/memories/icu/delete", "POST", json=body).json()
    case = service.store.case_of(done["index"])
    assert case is not None
    assert case.actor == asked(service, eraser).json()["token"]["id"] != about["id"]
    # One memory alone, and the store's own tokens as ever.
    bound = issuer.token(expunge_memory="icu")
    assert asked(service, bound, "/v1/memories/other").status_code == 403
    assert asked(service, bound, "/v1/memories/icu").status_code == 200
    assert service.request("GET", "/v1").status_code == 200
    # Keys are fetched once.
    assert issuer.fetched == 1


def test_other_tokens_do_not_open(service: ServiceClient, issuer: Issuer) -> None:
    issuer.add_key("elliptic", "EC")
    good, now = issuer.token(), int(time.time())
    assert asked(service, issuer.token("elliptic", "ES256")).status_code == 200
    foreign = Issuer(url=issuer.url)
    foreign.add_key("one")
    header, payload, signature = good.split(".")
    plain = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    # The public key as a shared secret: the classic confusion of algorithms.
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    hashed = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"one"}').decode().rstrip("=")
    digest = hmac.digest(issuer.keys["one"].as_pem(private=False), f"{hashed}.{payload}".encode(), "sha256")
    confused = f"{hashed}.{payload}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
    changed = base64.urlsafe_b64encode(json.dumps(claims | {"sub": "x"}).encode()).decode().rstrip("=")
    bad = [
        *(issuer.token(aud="another"), issuer.token(aud=None), issuer.token(iss="http://127.0.0.1:1")),
        *(issuer.token(exp=now - 31), issuer.token(exp=None), issuer.token(exp=True), issuer.token(exp="never")),
        *(issuer.token(nbf=now + 120), issuer.token(sub=None), issuer.token(scope="read write"), issuer.token(scope=7)),
        *(
            foreign.token(),
            f"{plain}.{payload}.",
            f"{header}.{changed}.{signature}",
            confused,
            "a.b.c",
            ".." * 1,
            good + "x",
        ),
        issuer.token(expunge_memory=["icu"]),
    ]
    for token in bad:
        assert asked(service, token).status_code == 401, token
    assert asked(service, good).status_code == 200


def test_a_new_key_is_fetched_and_a_silent_provider_is_no_denial(
    service: ServiceClient, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked(service, issuer.token()).status_code == 200
    issuer.add_key("two")
    monkeypatch.setattr("expunge.service.openid._RETRY_SECONDS", 0.0)
    assert asked(service, issuer.token("two")).status_code == 200
    # While the provider does not answer, its keys stay good; a key that nobody knows is none.
    issuer.answers = False
    assert asked(service, issuer.token("two")).status_code == 200
    issuer.add_key("three")
    assert asked(service, issuer.token("three")).status_code == 401
    with pytest.raises(StoreError):
        OpenIdProvider(OpenId(issuer.url, "expunge")).find(issuer.token())


def test_a_person_signs_in_to_the_page(service: ServiceClient, issuer: Issuer) -> None:
    client = service.client
    began = client.get("/ward/login", follow_redirects=False)
    assert began.status_code == 302
    assert "httponly" in began.headers["set-cookie"].lower()
    back = httpx.get(began.headers["location"]).headers["location"]
    assert urlsplit(back).path == "/ward/login/callback"
    done = client.get(back, follow_redirects=False)
    assert done.status_code == 303
    path, _, token = done.headers["location"].partition("#token=")
    assert path == "/ward/"
    assert asked(service, unquote(token)).json()["token"]["scopes"] == ["audit", "read"]
    # Neither the code again, nor a state that was not begun in this browser.
    assert client.get(back, follow_redirects=False).status_code in (401, 503)
    client.cookies.clear()
    again = client.get("/ward/login", follow_redirects=False).headers["location"]
    back = httpx.get(again).headers["location"]
    client.cookies.clear()
    assert client.get(back, follow_redirects=False).status_code == 401


def test_mcp_takes_the_same_tokens(service: ServiceClient, issuer: Issuer) -> None:
    provider = OpenIdProvider(OpenId(issuer.url, "expunge"))
    tokens = service.context.tokens
    caller = _caller(tokens, provider, issuer.token(), "icu")
    assert caller is not None
    assert caller.scopes == {"read", "audit"}
    assert _caller(tokens, provider, issuer.token(expunge_memory="other"), "icu") is None
    assert _caller(tokens, provider, issuer.token(aud="another"), "icu") is None
    assert _caller(tokens, None, issuer.token(), "icu") is None


@pytest.mark.parametrize("url", ["http://issuer.example", "ftp://127.0.0.1", "issuer.example", ""])
def test_a_provider_is_asked_over_tls(url: str) -> None:
    with pytest.raises(InputError, match="https"):
        OpenId(url, "expunge")
