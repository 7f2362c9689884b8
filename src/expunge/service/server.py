"""Run the service: one process, or several workers on one port, until a signal ends it.

On SIGTERM and SIGINT it takes no new connections, finishes the requests in flight, and stops jobs between two steps. A
worker that dies is replaced; what it was doing is either committed or has no effect.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack

from expunge.service.address import Address
from expunge.service.log_format import configure_logging
from expunge.service.metrics import MULTIPROCESS
from expunge.service.settings import VARIABLE, Settings
from expunge.store import Store

__all__ = ["add_demo_memory", "serve"]

# Seconds that requests in flight have to finish when the service stops, and that a connection is kept without any:
# longer than clients keep theirs, so that none sends a request into a connection that is being closed.
_SHUTDOWN_SECONDS = 30
_IDLE_SECONDS = 75


def serve(settings: Settings, address: Address, workers: int = 1) -> None:
    """Serve until a signal comes."""
    import uvicorn

    configure_logging()
    os.environ[VARIABLE] = settings.to_text()
    with ExitStack() as stack:
        if workers > 1 and MULTIPROCESS not in os.environ:
            os.environ[MULTIPROCESS] = stack.enter_context(tempfile.TemporaryDirectory(prefix="expunge-metrics-"))
        uvicorn.run(
            "expunge.service.app:from_environment",
            factory=True,
            host=address.host,
            port=address.port,
            workers=workers,
            ssl_certfile=None if address.certificate is None else str(address.certificate),
            ssl_keyfile=None if address.private_key is None else str(address.private_key),
            # Another loop may read into a buffer of its own, which keeps the last requests.
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=list(settings.trusted_proxies),
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )


def add_demo_memory(store: Store) -> None:
    """Add ``icu-plane`` to the demo's store: two coordinates per key, so that the map can draw the boundary itself."""
    if "icu-plane" in store:
        return
    from expunge.datasets import icu_hours

    hours = icu_hours()
    columns = [hours.key_names.index(channel) for channel in ("hr", "rr")]
    store.create("icu-plane", **hours.arguments | {"keys": hours.keys[:, columns], "sigma": 1.5, "nu": 0.1})
