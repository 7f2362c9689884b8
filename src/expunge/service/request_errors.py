"""What only the service can answer. Statuses are in the one table, :mod:`expunge.error_codes`.

::

    InputError
    ├── Malformed             the body is not JSON
    ├── Unauthenticated       no token, or one that is unknown, expired or revoked
    ├── Forbidden             the token does not reach this far
    ├── NotFound              there is no such memory, entry, leaf, hold, job or page
    ├── MethodNotAllowed      the resource is there, the method is not
    ├── Taken                 the name is in use
    ├── TooLarge              the body exceeds the limit
    └── UnsupportedMediaType  the body is not declared as JSON

    StoreError
    └── Damaged               what is stored does not check out
"""

from __future__ import annotations

from expunge.errors import InputError, StoreError

__all__ = [
    "Damaged",
    "Forbidden",
    "Malformed",
    "MethodNotAllowed",
    "NotFound",
    "Taken",
    "TooLarge",
    "Unauthenticated",
    "UnsupportedMediaType",
]


class Malformed(InputError):
    """The body is not JSON."""


class Unauthenticated(InputError):
    """There is no token, or it is unknown, expired or revoked."""


class Forbidden(InputError):
    """The token does not reach this far."""


class NotFound(InputError):
    """There is no such thing here."""


class MethodNotAllowed(InputError):
    """The resource does not know this method."""


class Taken(InputError):
    """The name is in use."""


class TooLarge(InputError):
    """The body exceeds the limit."""


class UnsupportedMediaType(InputError):
    """The body is not declared as JSON."""


class Damaged(StoreError):
    """What is stored does not check out."""
