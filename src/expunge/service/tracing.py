"""Optional OpenTelemetry: a span a request, if the API is installed. Without it, or without an exporter, nothing.

Attributes are those of the log: route, method, status, token's name, memory's UUID. No content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

try:
    from opentelemetry import propagate, trace
except ImportError:
    trace = None  # type: ignore[assignment]

__all__ = ["span"]

Tell = Callable[[Mapping[str, str | int | None]], None]


@contextmanager
def span(name: str, headers: Mapping[str, str]) -> Iterator[Tell]:
    """A span that continues the caller's trace; call what it gives with what became known on the way."""
    if trace is None:
        yield lambda about: None
        return
    tracer: Any = trace.get_tracer("expunge.service")
    with tracer.start_as_current_span(
        name,
        context=propagate.extract(headers),
        kind=trace.SpanKind.SERVER,
        # A message may quote content.
        record_exception=False,
        set_status_on_exception=False,
    ) as current:

        def tell(about: Mapping[str, str | int | None]) -> None:
            current.set_attributes({word: fact for word, fact in about.items() if fact is not None})
            if "http.route" in about:
                current.update_name(f"{about['http.request.method']} {about['http.route']}")

        yield tell
