"""Tokens over HTTP: none is made that may do more than its maker."""

from __future__ import annotations

from service.service_client import ServiceClient


def test_tokens_are_made_listed_and_revoked(service: ServiceClient) -> None:
    body = {"scopes": ["read", "audit"], "memory": "icu", "note": "executor", "seconds": 600}
    made = service.request("POST", "/v1/tokens", body, status=201)
    headers = {"Authorization": f"Bearer {made['token']}"}
    about = service.client.get("/v1", headers=headers).json()["token"]
    assert about == {"id": made["id"], "scopes": ["audit", "read"], "memory": "icu", "expires": made["expires"]}
    listed = service.request("GET", "/v1/tokens", status=200)["items"]
    assert {name: value for name, value in made.items() if name != "token"} in listed
    assert made["token"] not in str(listed)
    assert service.request("DELETE", f"/v1/tokens/{made['id']}", status=200)["revoked"] is not None
    assert service.client.get("/v1", headers=headers).status_code == 401
    assert service.request("DELETE", "/v1/tokens/ffffffffffff").status_code == 404


def test_a_token_gives_no_scope_that_it_has_not(service: ServiceClient) -> None:
    admin = service.request("POST", "/v1/tokens", {"scopes": ["admin"]}, scopes=("admin",), status=201)
    count = len(service.context.tokens.all())
    for scopes in (["read"], ["admin", "erase"]):
        refused = service.request("POST", "/v1/tokens", {"scopes": scopes}, scopes=("admin",), status=403)
        assert refused["code"] == "forbidden"
    # One of one memory makes none at all.
    assert (
        service.request("POST", "/v1/tokens", {"scopes": ["admin"]}, scopes=("admin",), memory="icu").status_code == 403
    )
    assert len(service.context.tokens.all()) == count + 1
    assert admin["scopes"] == ["admin"]
