"""A service behind HTTP that keeps posted rows, and ignores a request whose key it has seen."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class RowsService(ThreadingHTTPServer):
    """Keeps rows of two kinds by the last part of the URL: ``clicks`` as they come, ``last`` by user."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._seen: dict[str, Any] = {}
        self._lock = threading.Lock()

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
        self.server.take(self.path, self.headers["Idempotency-Key"], rows)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass
