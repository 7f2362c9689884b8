"""The server over HTTP: who may speak to it, and from where.

A request passes two checks before the protocol sees it. Its ``Host`` has to be a name of this server, and its
``Origin``, where it has one, has to be the same place: a page of another site, or a foreign name that was made to point
here (DNS rebinding), gets no answer. Where tokens are asked for, it has to bring one, which is looked up each time.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Collection, Iterable
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from expunge.integrations.mcp.server import CALLER
from expunge.integrations.mcp.visibility import Caller

__all__ = ["FindCaller", "http_app"]

# From the text of a token to whom it stands for; None for one that is not good.
FindCaller = Callable[[str], Caller | None]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_BODY_BYTES = 4 << 20


def http_app(
    server: Server[Any], *, host: str = "", names: Iterable[str] = (), find_caller: FindCaller | None = None
) -> ASGIApp:
    """The server as an application, at ``/mcp``.

    Parameters
    ----------
    server : Server
        From `make_protocol_server`.
    host : str
        The name that the server listens at. Clients may call it by that, and by the address that they reached.
    names : iterable of str
        Other names of this server, such as that of a proxy in front of it; pages under them may call it, too.
    find_caller : callable, optional
        Looks up the token of each request. Without it, nobody is asked for a token.

    """
    app: ASGIApp = server.streamable_http_app(
        max_request_body_size=_BODY_BYTES,
        # `_PlaceCheck` is stricter, and holds on every address.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    if find_caller is not None:
        app = _TokenCheck(app, find_caller)
    return _PlaceCheck(app, host, names)


class _PlaceCheck:
    """Refuses a foreign Host, and a foreign Origin."""

    def __init__(self, app: ASGIApp, host: str, names: Iterable[str]) -> None:
        self._app = app
        self._names = frozenset(_name(name) for name in names)
        # 0.0.0.0 is where to listen, and no name.
        self._hosts = self._names | ({_name(host)} - {"", "0.0.0.0", "::"})  # noqa: S104

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "lifespan":
            if scope["type"] != "http":
                # The protocol has no web sockets.
                await send({"type": "websocket.close"})
                return
            headers = Headers(scope=scope)
            hosts, origins = headers.getlist("host"), headers.getlist("origin")
            known = self._known_names(scope)
            if len(hosts) != 1 or _host(hosts[0]) not in known:
                await _refuse(send, 421, "forbidden", "this server does not answer to this Host; see --allow-host")
                return
            if origins and (len(origins) != 1 or not self._same_place(origins[0], hosts[0])):
                await _refuse(send, 403, "forbidden", "this server does not answer pages of this Origin")
                return
        await self._app(scope, receive, send)

    def _known_names(self, scope: Scope) -> Collection[str]:
        """The names given, and the address at which the request came in, which no foreign name can be."""
        address = _name((scope.get("server") or ("", 0))[0])
        return self._hosts | {address} | (_LOOPBACK if _is_loopback(address) else frozenset())

    def _same_place(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or parts.path or parts.query or "@" in parts.netloc:
            return False
        return parts.netloc.lower() == host.lower() or _host(parts.netloc) in self._names


class _TokenCheck:
    """Refuses a request without a good token, and leaves the caller in the scope of the others."""

    def __init__(self, app: ASGIApp, find_caller: FindCaller) -> None:
        self._app = app
        self._find_caller = find_caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scheme, _, text = Headers(scope=scope).get("authorization", "").partition(" ")
        caller = None
        if scheme.lower() == "bearer":
            caller = await anyio.to_thread.run_sync(self._find_caller, text.strip())
        if caller is None:
            await _refuse(send, 401, "unauthenticated", "send a good token: Authorization: Bearer …")
            return
        # A session goes on with the token that began it: the protocol's own check of that looks here.
        access = AccessToken(token=caller.name, client_id=caller.name, scopes=sorted(caller.scopes))
        scope[CALLER], scope["user"] = caller, AuthenticatedUser(access)
        await self._app(scope, receive, send)


async def _refuse(send: Send, status: int, code: str, detail: str) -> None:
    body = json.dumps({"error": code, "error_description": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer error="invalid_token"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _host(place: str) -> str:
    """The name in ``name:port``; empty where it is none."""
    try:
        parts = urlsplit(f"//{place}")
        # It raises for what is no port.
        _ = parts.port
    except ValueError:
        return ""
    return "" if "@" in place or parts.path or parts.query or parts.fragment else _name(parts.hostname or "")


def _name(name: str) -> str:
    """A name as it is compared: in lower case, without the dot of the root; an address in its one form."""
    plain = name.strip("[]").rstrip(".").lower()
    try:
        address = ipaddress.ip_address(plain.partition("%")[0])
    except ValueError:
        return plain
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
