"""An S3 server: moto's, behind a door that can be told to fail, to be late, or to know nothing of conditional puts.

python s3_server.py                  prints its address; what it is told comes on standard input, a JSON line each
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class Door:
    """What every request goes through: one at a time, as if each were atomic."""

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._one_at_a_time = threading.Lock()
        self.failing = 0
        """How many of the next requests that write are answered with 503."""
        self.late = 0
        """How many of the next requests that write are carried out, and answered too late."""
        self.failing_reads = 0
        """How many of the next requests that read a file or list some are answered with 503."""
        self.late_reads = 0
        """How many of them are answered too late."""
        self.every = 0
        """Each so-manyth request of all is answered with 503, and the one before it late; none for 0."""
        self._count = 0
        self.seconds = 0.0
        self.is_conditional = True

    def tell(self, **wishes: Any) -> None:
        vars(self).update(wishes)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with self._one_at_a_time:
            self._count += 1
            if self._takes(environ, "failing") or (self.every and self._count % self.every == 0):
                start_response("503 Slow Down", [("Content-Length", "0")])
                return [b""]
            if not self.is_conditional:
                environ.pop("HTTP_IF_NONE_MATCH", None)
            is_late = self._takes(environ, "late") or (self.every and self._count % self.every == self.every - 1)
            answer = list(self._app(environ, start_response))
        if is_late:
            time.sleep(self.seconds)
        return answer

    def _takes(self, environ: dict[str, Any], wish: str) -> bool:
        """Whether a request is one of the next that fail, or are late; then there is one less."""
        method, is_of_file = environ["REQUEST_METHOD"], environ["PATH_INFO"].count("/") > 1
        name = wish if method == "PUT" and is_of_file else f"{wish}_reads" if method == "GET" else ""
        left = getattr(self, name) if name else 0
        if left > 0:
            setattr(self, name, left - 1)
        return bool(left > 0)


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *args: Any) -> None:
        pass


def main() -> None:
    door = Door()
    server = make_server("127.0.0.1", 0, door, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.port}", flush=True)
    for line in sys.stdin:
        door.tell(**json.loads(line))
        print("done", flush=True)


if __name__ == "__main__":
    main()
