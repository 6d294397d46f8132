"""A service behind HTTP that keeps posted rows, and ignores a request whose key it has seen."""

from __future__ import annotations

import json
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class RowsService(ThreadingHTTPServer):
    """Keeps rows of two kinds by the last part of the URL: ``clicks`` as they come, ``last`` by user.

    Attributes:
        answer: the status of its answers; it keeps nothing unless that is 204.
        seconds: how long each answer takes.
    """

    def __init__(self, port: int = 0, before: RowsService | None = None) -> None:
        """
        Args:
            before: a service whose rows it has.
        """
        super().__init__(("127.0.0.1", port), _Handler)
        self._seen: dict[str, Any] = before._seen if before else {}
        self._lock = threading.Lock()
        self.answer, self.seconds = 204, 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def take(self, path: str, key: str, rows: list[dict[str, Any]]) -> None:
        """Keep a request, unless its key was seen; then it has to be the same one."""
        with self._lock:
            first = self._seen.setdefault(key, (path, rows))
        assert first == (path, rows), f"two requests with key {key}"

    def rows(self) -> dict[str, list[Any]]:
        """What the service has."""
        requests = list(self._seen.values())
        clicks = [(row["user"], row["n"]) for path, rows in requests if path == "/clicks" for row in rows]
        last: dict[str, int] = {}
        for row in (row for path, rows in requests if path == "/last" for row in rows):
            last.pop(row["user"], None)
            if not row["is_deleted"]:
                last[row["user"]] = row["n"]
        return {"clicks": sorted(clicks, key=lambda row: row[1]), "last": sorted(last.items())}


class _Handler(BaseHTTPRequestHandler):
    server: RowsService

    def do_POST(self) -> None:
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(self.server.seconds)
        if self.server.answer == HTTPStatus.NO_CONTENT:
            self.server.take(self.path, self.headers["Idempotency-Key"], rows)
        self.send_response(self.server.answer)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass
