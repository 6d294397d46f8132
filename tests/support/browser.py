"""A headless Chromium, by its own protocol over a pipe: no driver, no port, nothing to install beside the browser."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PATIENCE = 60.0


def chromium() -> str | None:
    """The browser of this machine; None where there is none."""
    return os.environ.get("CHROMIUM") or next((path for name in _NAMES if (path := shutil.which(name))), None)


class Browser:
    """One window with one page."""

    def __init__(self, width: int = 1280, height: int = 900):
        program = chromium()
        assert program is not None
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-browser-", ignore_cleanup_errors=True)
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        switches = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
        switches += (
            "--disable-quic",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        )
        own = (f"--user-data-dir={self._folder.name}", f"--window-size={width},{height}", "--remote-debugging-pipe")
        # the protocol wants the pipe at 3 and 4, which a shell puts there without threads getting in its way
        line = f'exec 3<&{to_read} 4>&{to_write}; exec "$0" "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", line, program, *switches, *own, "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._rest, self._number, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        pages = self.call("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in pages if one["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._to)
        os.close(self._from)
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """What a method of the protocol answers."""
        self._number += 1
        own = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": params, **own}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            found = self._next()
            if found.get("id") == self._number:
                if "navigated" in str(found.get("error", "")):  # the page changed meanwhile: ask the new one
                    return self.call(method, **params)
                assert "error" not in found, found["error"]
                return dict(found["result"])
            self.events.append(found)
        raise AssertionError(f"the browser does not answer {method}")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._from, 1 << 16)
            assert data, "the browser has ended"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def size(self, width: int, height: int, mobile: bool = False, dark: bool | None = None) -> None:
        """What the window is like from now on."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        if dark is not None:
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Show a page."""
        self.call("Page.navigate", url=url)

    def value(self, script: str) -> Any:
        """What an expression of JavaScript is, or comes to."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script: str, what: str = "", seconds: float = _PATIENCE) -> Any:
        """The expression's value once it is true, or has something in it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := self.value(script):
                return found
            time.sleep(0.05)
        raise AssertionError(f"not seen: {what or script}; the page says {self.text('body')[:2000]!r}")

    def text(self, selector: str) -> str:
        """The text that is shown in an element."""
        return str(self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        """Click an element."""
        self.wait(f"!!document.querySelector({json.dumps(selector)})", selector)
        self.value(f"document.querySelector({json.dumps(selector)}).click()")

    def picture(self, file: Path, whole: bool = False) -> None:
        """Write what is shown into a file: a PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))

    def complaints(self) -> list[str]:
        """Errors that the page has told the browser."""
        found = [event["params"] for event in self.events if event.get("method") == "Log.entryAdded"]
        thrown = [event["params"] for event in self.events if event.get("method") == "Runtime.exceptionThrown"]
        return [one["entry"]["text"] for one in found if one["entry"]["level"] == "error"] + [
            str(one) for one in thrown
        ]
