"""Firefox, driven by WebDriver BiDi: what the verifier that is one file is tried in besides Chromium.

Playwright drives a Firefox of its own alone; this one is the system's. Only what the tests need: open a file, evaluate,
and put files into an input.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

__all__ = ["Firefox", "firefox"]

NAMES = ("firefox-esr", "firefox")
PATIENCE = 60  # seconds
LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
# Nothing that Firefox would fetch for itself.
PREFERENCES = """
user_pref("app.normandy.enabled", false);
user_pref("app.update.auto", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "");
"""


class Firefox:
    """One tab."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._last = socket, 0
        self._call("session.new", capabilities={})
        self._tab = self._call("browsingContext.getTree")["contexts"][0]["context"]

    def open(self, file: Path) -> None:
        """Open a file, once it is loaded."""
        self._call("browsingContext.navigate", context=self._tab, url=file.as_uri(), wait="complete")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, or of its promise, as JSON has it."""
        found = self._call(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await ({expression})))()",
            target={"context": self._tab},
            awaitPromise=True,
        )
        if found["type"] != "success":
            raise AssertionError(found["exceptionDetails"]["text"])
        return json.loads(found["result"]["value"])

    def put_files(self, selector: str, *files: Path) -> None:
        """Choose files in an input, as a person does."""
        where = {"type": "css", "value": selector}
        node = self._call("browsingContext.locateNodes", context=self._tab, locator=where)["nodes"][0]
        names = [str(file) for file in files]
        self._call("input.setFiles", context=self._tab, element={"sharedId": node["sharedId"]}, files=names)

    def _call(self, method: str, **parameters: Any) -> Any:
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(timeout=PATIENCE))
            if answer.get("id") == self._last:
                if answer["type"] == "error":
                    raise AssertionError(f"{method}: {answer['error']}: {answer['message']}")
                return answer["result"]


@contextmanager
def firefox() -> Iterator[Firefox]:
    """A Firefox with an empty profile, which ends with the block."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        raise AssertionError("there is no Firefox: make browser installs it")
    with tempfile.TemporaryDirectory() as profile:
        Path(profile, "user.js").write_text(PREFERENCES, encoding="utf-8")
        command = [program, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"]
        log = Path(profile, "log.txt")
        with (
            log.open("w", encoding="utf-8") as written,
            subprocess.Popen(command, stdout=written, stderr=written) as process,  # noqa: S603 — our own command
        ):
            try:
                with connect(f"{_address(process, log)}/session", max_size=None, compression=None) as socket:
                    yield Firefox(socket)
            finally:
                process.terminate()
                process.wait(PATIENCE)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        if found := LISTENING.search(log.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"Firefox did not start: {log.read_text(encoding='utf-8')[-500:]}")
