"""A headless Chromium, spoken to by the DevTools protocol over a pipe: needs no other package."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell")
PROGRAM = next((found for name in NAMES if (found := shutil.which(name))), None)
WHY_NOT = "there is no Chromium (Debian: apt-get install chromium)"


class Browser:
    """One page at a time. What the browser complains about is in `complaints`."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self._number = 0
        self._rest = b""
        self._events: list[Mapping[str, Any]] = []
        self._folder = tempfile.mkdtemp(prefix="hvd-browser-")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def give() -> None:  # as descriptors 3 and 4
            first, second = os.dup(to_read), os.dup(to_write)
            os.dup2(first, 3)
            os.dup2(second, 4)

        command = [
            str(PROGRAM), "--headless=new", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
            f"--user-data-dir={self._folder}", "--remote-debugging-pipe",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=give, start_new_session=True,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The processes of a browser are a group of their own.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._folder, ignore_errors=True)

    def show(self, page: Path, width: int, dark: bool) -> None:
        """Loads the page and waits until it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self._events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._hear()

    def value(self, expression: str) -> Any:
        """What it is in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, path: Path, height: int | None = None) -> None:
        """The whole page, or its beginning."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {
            "x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1,
        }  # fmt: skip
        taken = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def call(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        return self._ask(method, self._session, **parameters)

    def _ask(self, method: str, session: str = "", **parameters: Any) -> Mapping[str, Any]:
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        if session:
            asked["sessionId"] = session
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == self._number:
                assert "error" not in heard, heard
                found: Mapping[str, Any] = heard["result"]
                return found

    def _hear(self) -> Mapping[str, Any]:
        """The next message: an answer, or an event, which is kept."""
        while b"\0" not in self._rest:
            data = os.read(self._read, 1 << 20)
            assert data, "the browser has gone"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        heard: Mapping[str, Any] = json.loads(message)
        if "method" in heard:
            self._events.append(heard)
            self._complain(heard["method"], heard["params"])
        return heard

    def _complain(self, method: str, told: Mapping[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str(told["args"]))
        elif method == "Log.entryAdded":
            self.complaints.append(str(told["entry"]["text"]))
        elif method == "Network.requestWillBeSent":
            url = str(told["request"]["url"])
            if not url.startswith("file:"):
                self.complaints.append(f"it asks for {url}")
