"""Tokens of an OpenID Connect provider: signed JWTs that stand beside the store's own tokens.

A token has to be signed by a key that the provider publishes now, with an asymmetric algorithm, name the provider as
its issuer and this service in its audience, and not be over. One claim of it, ``scope`` unless another is named, says
what it may: the words ``expunge:read``, ``expunge:write``, ``expunge:erase``, ``expunge:audit``, ``expunge:admin``, as
one text or as a list. The claim ``expunge_memory`` may bind it to one memory. Its name, in logs and as the actor of
edits, is a hash of issuer and subject: a person's name at the provider gets into no log and no ledger.

Who is signed out at the provider is so here when the token ends: give tokens short lives. Keys are fetched when they
are first needed, every ten minutes, and, at most once in ten seconds, where a token names one that is not known.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit

from expunge.errors import InputError, MissingExtra, StoreError
from expunge.service.tokens import SCOPES, Token

__all__ = ["OpenId", "OpenIdProvider", "get_json", "require_openid"]

ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
_PREFIX = "expunge:"
_LEEWAY = 30
_KEPT_SECONDS, _RETRY_SECONDS, _TIMEOUT = 600.0, 10.0, 10.0
_LARGEST = 1 << 20
_LONGEST_TOKEN = 16_384


@dataclass(frozen=True)
class OpenId:
    """A provider: its issuer, this service's audience, and the claim with scopes.

    With ``client_id`` people sign in to the page by `/login`; the client's secret, if it has one, is in
    ``$EXPUNGE_OIDC_CLIENT_SECRET``.
    """

    issuer: str
    audience: str
    claim: str = "scope"
    client_id: str | None = None

    def __post_init__(self) -> None:
        _check_address(self.issuer, "the issuer")
        if not self.audience:
            raise InputError("tokens of a provider need an audience: --oidc-audience")


class OpenIdProvider:
    """Finds what a provider's token may, by the provider's published keys."""

    def __init__(self, settings: OpenId, clock: Callable[[], float] = time.time) -> None:
        require_openid()
        from joserfc import jwk, jwt

        self.settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._jwk, self._jwt = jwk, jwt
        self._keys: Any = None
        self._metadata: dict[str, Any] = {}
        self._fetched = self._tried = float("-inf")

    def find(self, text: str) -> Token | None:
        """What a token may, or None where it is not good now. StoreError where the provider does not answer."""
        if text.count(".") != 2 or len(text) > _LONGEST_TOKEN:
            return None
        from joserfc.errors import InvalidKeyIdError, JoseError

        try:
            try:
                claims = self._decode(text)
            except InvalidKeyIdError:
                # It names a key that is not known: the provider may have a new one.
                self._fetch(newer=True)
                claims = self._decode(text)
            self._check(claims)
            return self._token(claims)
        except (JoseError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return None

    def metadata(self) -> dict[str, Any]:
        """What the provider says of itself: addresses for the sign-in of people."""
        self._fetch()
        return self._metadata

    def _decode(self, text: str) -> dict[str, Any]:
        self._fetch()
        return dict(self._jwt.decode(text, self._keys, algorithms=list(ALGORITHMS)).claims)

    def _check(self, claims: dict[str, Any]) -> None:
        now, audience = self._clock(), claims["aud"]
        named = [audience] if isinstance(audience, str) else audience
        if claims["iss"] != self.settings.issuer or self.settings.audience not in named:
            raise ValueError("the token is for somebody else")
        # Python takes True for 1.
        if any(type(claims.get(name, 0)) not in (int, float) for name in ("exp", "nbf", "iat")):
            raise ValueError("a time is no number")
        if not claims["exp"] + _LEEWAY > now or not claims.get("nbf", now) <= now + _LEEWAY:
            raise ValueError("the token is not good now")

    def _token(self, claims: dict[str, Any]) -> Token | None:
        stated = claims.get(self.settings.claim, ())
        words = set(stated.split() if isinstance(stated, str) else stated)
        scopes = frozenset(scope for scope in SCOPES if f"{_PREFIX}{scope}" in words)
        memory, subject = claims.get("expunge_memory"), claims["sub"]
        if not scopes or not isinstance(subject, str) or not (memory is None or isinstance(memory, str)):
            return None
        named = hashlib.sha256(f"expunge/openid/v1\n{self.settings.issuer}\n{subject}".encode()).hexdigest()
        return Token(
            name=f"oidc-{named[:24]}",
            scopes=scopes,
            memory=memory,
            note="",
            created=int(claims.get("iat", 0)),
            expires=int(claims["exp"]),
            revoked=None,
        )

    def _fetch(self, *, newer: bool = False) -> None:
        """Have keys that are not too old; with ``newer``, others than before, if that was not tried just now."""
        with self._lock:
            now = time.monotonic()
            if self._keys is not None and now - self._fetched < (_RETRY_SECONDS if newer else _KEPT_SECONDS):
                return
            if now - self._tried < _RETRY_SECONDS:
                if self._keys is None:
                    raise StoreError("the OpenID provider did not answer; try again in some seconds")
                return
            self._tried = now
            try:
                metadata = get_json(f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration")
                if metadata["issuer"] != self.settings.issuer:
                    raise ValueError("it names another issuer")
                _check_address(metadata["jwks_uri"], "the provider's jwks_uri")
                keys = self._jwk.KeySet.import_key_set(get_json(metadata["jwks_uri"]))
            except (OSError, ValueError, KeyError, TypeError) as problem:
                if self._keys is None:
                    raise StoreError(f"the OpenID provider could not be asked ({type(problem).__name__})") from None
                return
            self._keys, self._metadata, self._fetched = keys, metadata, now


def require_openid() -> None:
    """Raise MissingExtra unless the packages are installed."""
    if find_spec("authlib") is None or find_spec("joserfc") is None:
        raise MissingExtra("OpenID Connect needs the extra: pip install 'expunge[oidc]'")


def get_json(url: str, form: dict[str, str] | None = None, headers: dict[str, str] | None = None) -> Any:
    """The JSON at an address; with a form it is posted. OSError or ValueError where there is none."""
    data = None if form is None else urlencode(form).encode()
    request = urllib.request.Request(url, data, {"Accept": "application/json", **(headers or {})})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310 — its scheme was checked
            return json.loads(answer.read(_LARGEST))
    except URLError as problem:
        raise OSError(str(problem)) from None


def _check_address(url: Any, what: str) -> None:
    """Raise InputError unless an address is https, or http of this machine."""
    parts = urlsplit(url) if isinstance(url, str) else None
    here = parts is not None and parts.hostname in ("127.0.0.1", "::1", "localhost")
    if parts is None or not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and here)):
        raise InputError(f"{what} is an https address, not {str(url)[:80]!r}")
