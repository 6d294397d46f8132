"""Files in an object store, through ``obstore``; creating at most once is the store's conditional put.

A file is put in one request, so a killed process leaves nothing unfinished. A request that the store does not answer,
or answers with 503, is repeated with growing pauses. A repeated request to create a file may find that the first one
succeeded: so the existing file's content is compared before another program is assumed to have created it.
"""

from __future__ import annotations

import logging
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError, StoreError
from penstock.figures.metrics import STORE_READ, STORE_REQUESTS, STORE_WRITTEN
from penstock.storage.base import FileRef, Storage, checksum, inside
from penstock.values.masking import masked

_log = logging.getLogger(__name__)

_REQUEST_SECONDS = 30.0
_PATIENCE_SECONDS = 120.0
"""How long a request is repeated."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_AT_ONCE = 1 << 30
"""Largest file that is put in one request; stores allow 5 GB, and larger files are uncommon."""

_STATUS = re.compile(r"status code: (\d{3})")
_PASSING = {408, 409, 425, 429}

T = TypeVar("T")


class ObjectStorage(Storage):
    """Files in an object store.

    Args:
        url: like ``s3://bucket/app``. Keys and the store's address come from the places that its own tools use:
            ``AWS_ACCESS_KEY_ID``, ``AWS_PROFILE``, ``AWS_ENDPOINT_URL``, the machine's role, and so on.
        seconds: how long one request may take.
        patience: how many seconds it is repeated while the store does not answer.
        what: names the storage in messages.
    """

    is_remote = True

    def __init__(
        self,
        url: str,
        seconds: float = _REQUEST_SECONDS,
        patience: float = _PATIENCE_SECONDS,
        what: str = "the checkpoint storage",
    ):
        shown = url.partition("://")[0] + "://..."  # the rest may contain keys
        try:
            import obstore
        except ImportError:
            raise ConfigError(f"{what} {shown} needs obstore: pip install 'penstock-streams[obstore]'") from None
        self._url = url
        self._what = what
        self._obstore = obstore
        self._patience = patience
        self._counts: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._refs: dict[str, FileRef] = {}
        """The references of files that were just written, until they are requested."""
        try:
            self._store = store_at(url, seconds)
        except (obstore.exceptions.BaseError, ValueError):  # its message contains the whole URL
            raise ConfigError(
                f"{what} {shown} is no URL that obstore can open; write it like "
                "s3://bucket/app, gs://bucket/app, az://container/app or file:///folder"
            ) from None

    @property
    def url(self) -> str:
        return self._url

    def check(self) -> None:
        """Raise ``ConfigError`` unless the store creates a file at most once: commits rely on it."""
        name = f"probe/{os.urandom(8).hex()}"
        try:
            is_able = self.create(name, b"1") and not self.create(name, b"2")
        except NotImplementedError:
            is_able = False
        self.delete(name)
        if not is_able:
            raise ConfigError(
                f"{self._what} {self.shown} creates a file that is there already once more: it knows no "
                "conditional puts (If-None-Match: *), and without them two programs could make the same commit. "
                "Nothing was started; use a store that has them (S3, GCS, Azure, R2, MinIO since 2024), or a folder"
            )

    def create(self, name: str, data: bytes) -> bool:
        path = inside(name)
        is_doubtful = False

        def put() -> bool:
            nonlocal is_doubtful
            self._count(STORE_WRITTEN, len(data))
            try:
                self._obstore.put(self._store, path, data, mode="create", use_multipart=False)
            except (FileExistsError, self._obstore.exceptions.AlreadyExistsError):
                there = self._there(path)
                return is_doubtful and there == data
            except self._obstore.exceptions.BaseError:
                is_doubtful = True
                raise
            return True

        return self._insistently(name, "write", put)

    def _there(self, path: str) -> bytes:
        """Return the existing file. Raise ``_ConflictError`` if it does not exist: two programs tried to create it at
        once.
        """
        self._count(STORE_REQUESTS, 1)
        try:
            return bytes(self._obstore.get(self._store, path).bytes())
        except (FileNotFoundError, self._obstore.exceptions.NotFoundError):
            raise _ConflictError from None

    @contextmanager
    def write(self, name: str, is_asked_for: bool = True) -> Iterator[Any]:
        with pa.BufferOutputStream() as file:
            yield file
            data = file.getvalue()
        if is_asked_for:
            self._refs[name] = self.put(name, data)
        else:
            self._put(name, data)

    def put(self, name: str, data: Any) -> FileRef:
        self._put(name, data)
        return FileRef(name, len(data), checksum(data))

    def _put(self, name: str, data: Any) -> None:
        place, is_large = inside(name), len(data) > _AT_ONCE
        given = np.frombuffer(data, np.uint8) if len(data) else b""  # obstore does not copy these

        def put() -> None:
            self._count(STORE_WRITTEN, len(data))
            self._obstore.put(self._store, place, given, use_multipart=is_large)

        self._insistently(name, "write", put)

    def read(self, name: str) -> Any:
        path = inside(name)
        return self._read(name, lambda: self._obstore.get(self._store, path).bytes())

    def read_part(self, name: str, at: int, size: int) -> Any:
        path = inside(name)
        return self._read(name, lambda: self._obstore.get_range(self._store, path, start=at, length=size))

    def _read(self, name: str, request: Callable[[], Any]) -> Any:
        data = pa.py_buffer(self._insistently(name, "read", request))
        self._count(STORE_READ, len(data))
        return data

    def ref(self, name: str) -> FileRef:
        return self._refs.pop(name, None) or super().ref(name)

    def list(self, prefix: str) -> list[str]:
        folder = inside(prefix) if prefix else None

        def listed() -> list[str]:
            return sorted(item["path"] for page in self._obstore.list(self._store, folder) for item in page)

        return self._insistently(prefix, "list", listed)

    def delete(self, name: str) -> None:
        path = inside(name)
        try:
            self._insistently(name, "remove", lambda: self._obstore.delete(self._store, path))
        except FileNotFoundError:
            pass

    def sweep(self) -> None:
        """Do nothing: each file is put in one request, so none is unfinished."""

    def take_counts(self) -> dict[str, int]:
        with self._counting:
            counts, self._counts = self._counts, Counter()
        return dict(counts)

    def _count(self, name: str, more: int) -> None:
        with self._counting:
            self._counts[name] += more

    def _insistently(self, name: str, action: str, request: Callable[[], T]) -> T:
        """Return the result of a request, repeated while the store has no answer. Its errors, and their causes, have no
        keys.
        """
        deadline, pause = time.monotonic() + self._patience, _FIRST_PAUSE
        answer = self._answer(name, action, request)
        while isinstance(answer, _Failure):
            if not answer.is_passing or time.monotonic() + pause > deadline:
                self._give_up(name, action, answer)
            _log.warning("cannot %s %s/%s yet: %s; it is tried again", action, self.shown, name, answer.said)
            time.sleep(random.uniform(pause / 2, pause))
            pause = min(2 * pause, _LONGEST_PAUSE)
            answer = self._answer(name, action, request)
        return answer

    def _answer(self, name: str, action: str, request: Callable[[], T]) -> T | _Failure:
        """Return the result of a request, or its failure."""
        self._count(STORE_REQUESTS, 1)
        known = self._obstore.exceptions
        try:
            return request()
        except _ConflictError:
            return _Failure("HTTP error: somebody else is creating it")
        except (FileNotFoundError, known.NotFoundError):
            if action == "write":
                return _Failure("its bucket or container is not there, make it first")
            error: Exception = FileNotFoundError(name)
        except NotImplementedError:
            error = NotImplementedError(name)
        except known.BaseError as told:
            return _Failure(masked(str(told).partition("\n")[0]))
        raise error  # raised without its cause, which may show keys

    def _give_up(self, name: str, action: str, failure: _Failure) -> NoReturn:
        if failure.status == 501:
            raise NotImplementedError(name)
        raise StoreError(
            f"cannot {action} {self.shown}/{name}: {failure.said}; everything committed before is safe. "
            "Start again when the store can be reached"
        )


class _ConflictError(Exception):
    """The store says that a file exists, and it does not."""


class _Failure:
    """A store's message in place of an answer."""

    def __init__(self, said: str):
        self.said = said
        found = _STATUS.search(said)
        self.status = int(found[1]) if found else 0

    @property
    def is_passing(self) -> bool:
        """Whether a retry may succeed."""
        if self.status:
            return self.status in _PASSING or (self.status >= 500 and self.status != 501)
        return "HTTP error" in self.said and "builder error" not in self.said


def store_at(url: str, seconds: float) -> Any:
    """Return the store of ``obstore``, without its own retries."""
    from obstore.store import from_url

    if not url.startswith(("s3://", "s3a://", "gs://", "az://", "abfs", "http")):  # a folder, or memory
        return from_url(url)
    limits: dict[str, Any] = {"timeout": f"{round(seconds * 1000)}ms"}
    if os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("true", "1"):
        limits["allow_http"] = True
    more = {} if (keys := _profile(url)) is None else {"credential_provider": keys}
    return from_url(url, client_options=limits, retry_config={"max_retries": 0}, **more)


def _profile(url: str) -> Any:
    """Return the keys of the profile in ``AWS_PROFILE``, or of the file of keys, if boto3 is installed to read them."""
    if not url.startswith("s3") or "AWS_ACCESS_KEY_ID" in os.environ:
        return None
    places = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"), "~/.aws/config"
    if "AWS_PROFILE" not in os.environ and not any(Path(place).expanduser().exists() for place in places):
        return None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        if "AWS_PROFILE" not in os.environ:
            return None
        raise ConfigError(
            "the keys of AWS_PROFILE are read by boto3, which is not installed: pip install boto3, or set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from None
    return Boto3CredentialProvider()
