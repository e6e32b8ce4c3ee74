"""A headless Chromium that shows one page at a time, over its own pipe: no port, no driver, no other package."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testkit.waiting import stretched

__all__ = ["Browser", "BrowserError"]

_SECONDS = 30.0
"""Deadline of each answer."""
_FLAGS = (
    "--headless",
    "--no-sandbox",  # tests run as root; the pages are our own
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--remote-debugging-pipe",
)


class BrowserError(Exception):
    """Chromium is missing, has ended, or answered with an error."""


class Browser:
    """Chromium while the context is open. `problems` are the errors of the console, `requests` the URLs that pages
    loaded.
    """

    def __init__(self, profile: Path) -> None:
        self._profile = profile
        self._number = 0
        self._session = ""
        self._rest = b""
        self._loaded = False
        self.problems: list[str] = []
        self.requests: list[str] = []

    def __enter__(self) -> Self:
        program = shutil.which("chromium")
        if program is None:
            raise BrowserError("chromium is not installed: `apt-get install chromium`")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # Chromium reads commands from descriptor 3, and writes answers to 4.
        launch = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        command = ["bash", "-c", launch, program, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        self._process = subprocess.Popen(
            command, pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime", "Network"):
            self._call(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(stretched(10))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def show(self, page: Path | str, *, width: int = 1000, dark: bool = False, media: str = "screen") -> float:
        """Open a file, or a URL, at this width; returns the seconds until it was loaded."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._call("Emulation.setEmulatedMedia", media=media, features=scheme)
        phone = width < 600
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=phone)
        self._loaded = False
        began = time.monotonic()
        url = page if isinstance(page, str) else page.absolute().as_uri()
        self._call("Page.navigate", url=url)
        while not self._loaded:
            self._handle(self._message(began + _SECONDS, f"{url} to load"))
        return time.monotonic() - began

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise BrowserError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self._call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)

    def enter(self, selector: str, words: str) -> None:
        """Type words, and a space, into the field that a CSS selector names."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        self._call("Input.insertText", text=words)
        self.press(" ", 32)

    def screenshot(self, path: Path, *, most: int = 3000) -> None:
        """The whole page, or its first `most` pixels, as a PNG file."""
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], most), "scale": 1}
        found = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(found["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _SECONDS
        while True:
            found = self._message(deadline, f"the answer to {method}")
            if found.get("id") == self._number:
                if "error" in found:
                    raise BrowserError(f"{method}: {found['error']}")
                result: dict[str, Any] = found["result"]
                return result
            self._handle(found)

    def _message(self, deadline: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise BrowserError(f"Chromium has not sent {what} within {_SECONDS:.0f} s")
            received = os.read(self._read, 1 << 16)
            if not received:
                raise BrowserError("Chromium has ended")
            self._rest += received
        first, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message

    def _handle(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Log.entryAdded":
                self.problems.append(str(parameters["entry"]["text"]))
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.problems.append(json.dumps(parameters))
            case "Network.requestWillBeSent":
                self.requests.append(str(parameters["request"]["url"]))
