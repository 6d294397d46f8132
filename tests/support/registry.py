"""A small schema registry over HTTP, as Confluent's answers: subjects with versions, ids, and a password."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

JsonDict = dict[str, Any]


class Registry(ThreadingHTTPServer):
    """It listens on localhost; what it is asked for is in ``requests``.

    Args:
        user: ``user:password`` that it wants; empty for anybody.
    """

    daemon_threads = True

    def __init__(self, user: str = ""):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.user = user
        self.schemas: list[JsonDict] = []
        """By their ids, from 1 on."""
        self.subjects: dict[str, list[int]] = {}
        self.frozen: set[str] = set()
        """Subjects with which no further schema is compatible."""
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def register(self, subject: str, schema: JsonDict) -> int:
        """The id of a schema under a subject."""
        if schema not in self.schemas:
            self.schemas.append(schema)
        number = self.schemas.index(schema) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def version(self, subject: str, version: int) -> JsonDict:
        number = self.subjects[subject][version - 1]
        return {"subject": subject, "version": version, "id": number, **self.schemas[number - 1]}


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        schema = {name: body[name] for name in ("schema", "schemaType", "references") if body.get(name)}
        if schema.get("schemaType") != "PROTOBUF":
            schema["schema"] = json.dumps(json.loads(schema["schema"]))  # however its text is set
        self._answer(lambda path: self._post(path, schema))

    def _answer(self, answer: Any) -> None:
        path = self.path.partition("?")[0]
        self.server.requests.append(f"{self.command} {path}")
        expected = "Basic " + base64.b64encode(self.server.user.encode()).decode()
        is_known = not self.server.user or self.headers["Authorization"] == expected
        status, content = answer(path) if is_known else (401, {"error_code": 401, "message": "Unauthorized"})
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _get(self, path: str) -> tuple[int, JsonDict]:
        if by_id := re.fullmatch(r"/schemas/ids/(\d+)", path):
            number = int(by_id[1])
            schemas = self.server.schemas[number - 1 : number]
            return (200, schemas[0]) if schemas else (404, {"error_code": 40403, "message": "Schema not found"})
        found = re.fullmatch(r"/subjects/([^/]+)/versions/(\w+)", path)
        if found is None:
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        subject, version = found.groups()
        count = len(self.server.subjects.get(subject, ()))
        wanted = count if version == "latest" else int(version)
        if not 0 < wanted <= count:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        return 200, self.server.version(subject, wanted)

    def _post(self, path: str, schema: JsonDict) -> tuple[int, JsonDict]:
        found = re.fullmatch(r"/subjects/([^/]+)(/versions)?", path)
        assert found is not None, path
        subject, registers = found.groups()
        known = self.server.subjects.get(subject, [])
        numbers = [number for number in known if self.server.schemas[number - 1] == schema]
        if numbers:
            return 200, self.server.version(subject, known.index(numbers[0]) + 1)
        if not registers:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        if subject in self.server.frozen:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
        return 200, {"id": self.server.register(subject, schema)}

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def running(user: str = "") -> Iterator[Registry]:
    """A registry while it is needed."""
    with Registry(user) as registry:
        thread = Thread(target=registry.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield registry
        finally:
            registry.shutdown()
            thread.join()
