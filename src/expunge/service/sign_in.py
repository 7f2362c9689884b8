"""People sign in to the page at an OpenID Connect provider: the authorization code flow, with PKCE.

`/login` leads to the provider, and `/login/callback` gives the page the token that came, behind the `#` of the address:
no server sees it there, and the page takes it out at once. Between the two a cookie keeps the state and the verifier
for ten minutes.
"""

from __future__ import annotations

import hmac
import os
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import FastAPI, Request
from starlette.responses import RedirectResponse, Response

from expunge.errors import InputError, StoreError
from expunge.service.auth import context_of
from expunge.service.openid import OpenIdProvider, get_json

__all__ = ["SECRET", "add_sign_in"]

SECRET = "EXPUNGE_OIDC_CLIENT_SECRET"  # noqa: S105 — the variable's name
_COOKIE, _SECONDS = "expunge-login", 600


def add_sign_in(app: FastAPI, provider: OpenIdProvider) -> None:
    """Routes of the sign-in."""
    from authlib.common.security import generate_token
    from authlib.oauth2.rfc7636 import create_s256_code_challenge

    client_id = provider.settings.client_id or ""

    @app.get("/login", include_in_schema=False)
    async def login(request: Request) -> Response:
        """To the provider."""
        metadata = await context_of(request).executor.read(provider.metadata)
        state, verifier = generate_token(48), generate_token(64)
        asked = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": _callback(request),
            "scope": "openid " + " ".join(f"expunge:{scope}" for scope in ("read", "write", "erase", "audit", "admin")),
            "state": state,
            "code_challenge": create_s256_code_challenge(verifier),
            "code_challenge_method": "S256",
        }
        answer = RedirectResponse(f"{metadata['authorization_endpoint']}?{urlencode(asked)}", status_code=302)
        answer.set_cookie(
            *(_COOKIE, f"{state}.{verifier}"),
            max_age=_SECONDS,
            path=request.url_for("login").path,
            httponly=True,
            secure=request.url.scheme == "https",
            samesite="lax",
        )
        return answer

    @app.get("/login/callback", include_in_schema=False)
    async def callback(request: Request) -> Response:
        """From the provider, to the page."""
        state, _, verifier = request.cookies.get(_COOKIE, "").partition(".")
        given = request.query_params.get("state", "")
        if not (state and hmac.compare_digest(state.encode(), given.encode())):
            raise InputError("this sign-in was not begun here, or is too old: begin again", code="unauthenticated")
        code = request.query_params.get("code")
        if code is None:
            raise InputError("the provider did not sign anybody in", code="unauthenticated")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": _callback(request),
            "client_id": client_id,
            "code_verifier": verifier,
        }
        text = await context_of(request).executor.read(_exchange, provider, form)
        path = request.url_for("login").path.removesuffix("login")
        answer = RedirectResponse(f"{path}#token={quote(text)}", status_code=303)
        answer.delete_cookie(_COOKIE, path=request.url_for("login").path)
        return answer


def _exchange(provider: OpenIdProvider, form: dict[str, str]) -> str:
    """The token that a code is exchanged for: the access token, or the ID token where that one is for this service."""
    secret = os.environ.get(SECRET)
    if secret:
        form = form | {"client_secret": secret}
    try:
        found: dict[str, Any] = get_json(provider.metadata()["token_endpoint"], form)
        given = [found.get(kind) for kind in ("access_token", "id_token")]
    except (OSError, ValueError, KeyError, AttributeError) as problem:
        raise StoreError(f"the OpenID provider gave no token ({type(problem).__name__})") from None
    for text in given:
        if isinstance(text, str) and provider.find(text) is not None:
            return text
    raise InputError("the provider signed this person in, and gave them no scope here", code="unauthenticated")


def _callback(request: Request) -> str:
    return str(request.url_for("callback"))
