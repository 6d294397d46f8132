"""An object store for tests: a server of S3 in a process of its own, on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any

import boto3
import pytest

KEYS = {"AWS_ACCESS_KEY_ID": "AKIATESTS", "AWS_SECRET_ACCESS_KEY": "wJalrSecret", "AWS_REGION": "us-east-1"}


class S3Server:
    """Begins with the context and ends with it.

    Attributes:
        environment: how the store's tools find it, and the keys.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.environment: dict[str, str] = {}

    def __enter__(self) -> S3Server:
        script = Path(__file__).with_name("s3_server.py")
        own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([sys.executable, str(script)], env=own, **pipes)  # type: ignore[call-overload]
        endpoint = self._line()
        self.environment = {**KEYS, "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def tell(self, **wishes: Any) -> None:
        """Have it fail, be late, or forget what it can do; see ``s3_server.Door``."""
        assert self._process is not None
        assert self._process.stdin is not None
        print(json.dumps(wishes), file=self._process.stdin, flush=True)
        assert self._line() == "done"

    def be_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have this process, and those that it starts, find the server and its keys."""
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)

    def bucket(self) -> str:
        """The URL of a folder in a new bucket."""
        name = f"bucket-{uuid.uuid4().hex}"
        self._client().create_bucket(Bucket=name)
        return f"s3://{name}/app"

    def parts(self, url: str, name: str) -> int:
        """In how many requests a file was put."""
        bucket, _, folder = url.removeprefix("s3://").partition("/")
        tag = self._client().head_object(Bucket=bucket, Key=f"{folder}/{name}")["ETag"].strip('"')
        return int(tag.partition("-")[2] or 1)

    def _client(self) -> Any:
        own = {"aws_access_key_id": KEYS["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": KEYS["AWS_SECRET_ACCESS_KEY"]}
        where = {"endpoint_url": self.environment["AWS_ENDPOINT_URL"], "region_name": KEYS["AWS_REGION"]}
        return boto3.client("s3", **own, **where)

    def _line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()
