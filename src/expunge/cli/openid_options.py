"""Options that name an OpenID Connect provider, for the commands that serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.service.openid import OpenId

__all__ = ["OidcAudienceOption", "OidcClaimOption", "OidcIssuerOption", "openid_of"]

OidcIssuerOption = Annotated[
    str | None,
    typer.Option("--oidc-issuer", metavar="URL", help="OpenID provider whose signed tokens count beside the store's."),
]
OidcAudienceOption = Annotated[
    str | None, typer.Option("--oidc-audience", metavar="TEXT", help="What these tokens name as their audience.")
]
OidcClaimOption = Annotated[
    str, typer.Option("--oidc-claim", metavar="NAME", help="Their claim with words such as expunge:read.")
]


def openid_of(
    issuer: str | None, audience: str | None, claim: str = "scope", client: str | None = None
) -> OpenId | None:
    """The provider that the options name, or None."""
    if issuer is None:
        if audience is not None or client is not None:
            raise InputError("an OpenID provider is named by --oidc-issuer")
        return None
    from expunge.service.openid import OpenId

    return OpenId(issuer, audience or client or "", claim, client)
