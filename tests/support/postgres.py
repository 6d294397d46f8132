"""A PostgreSQL server for tests: the one of the system's packages, in a temporary folder, never as root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock.testing.broker import free_ports
from support.folders import MEMORY

USER, PASSWORD = "penstock", "dragon/fish word"
"""The password is written in one way in a URL, and in another one in a connection string."""

_PLACES = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/postgresql@*/bin")
_SECONDS = 60.0
_STARTS = 5
"""How often a server is started at a free port, which another process may take meanwhile."""


def programs() -> Path | None:
    """Return the folder with PostgreSQL's programs; None where it is not installed."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = [path for place in _PLACES for path in Path("/").glob(place) if (path / "initdb").exists()]
    return max(found, default=None)


class PostgresServer:
    """A server with one user, who needs a password.

    Args:
        bin_folder: where PostgreSQL's programs are.
    """

    def __init__(self, bin_folder: Path):
        self._programs = bin_folder
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-", dir=MEMORY or "/tmp"))
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            nobody = pwd.getpwnam("nobody")
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self.port = 0
        self._make()

    def _make(self) -> None:
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)  # in a folder of the server's user
        command = [self._programs / "initdb", "-D", self._data, "-U", USER, "--auth=scram-sha-256", "-E", "UTF8"]
        command += ["--locale=C", "--no-sync", f"--pwfile={secret}"]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder, **self._as)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def start(self) -> None:
        """Start it, at the same port as before."""
        for _ in range(_STARTS):
            self.port = self.port or free_ports(1)[0]
            settings = {
                "port": self.port,
                "listen_addresses": "127.0.0.1",
                "unix_socket_directories": "",
                "fsync": "off",
            }
            command = [self._programs / "postgres", "-D", self._data]
            command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            with open(self._folder / "log", "ab") as log:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder, **self._as
                )
            if self._is_up():
                return
            self.port = 0
        raise AssertionError((self._folder / "log").read_text()[-2_000:])

    def _is_up(self) -> bool:
        import psycopg

        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                return False
            try:
                psycopg.connect(self.url("postgres")).close()
                return True
            except psycopg.OperationalError:
                time.sleep(0.02)
        return False

    def stop(self) -> None:
        """End it at once, as a crash does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    def start_if_stopped(self) -> None:
        """Start it, unless it runs."""
        if self._process is None:
            self.start()

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str) -> str:
        """Return the URL of a database, with the password."""
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """Make a database of a name of its own, and return its URL."""
        name = f"db_{uuid.uuid4().hex[:12]}"
        self.ask(self.url("postgres"), f"create database {name}")
        return self.url(name)

    def ask(self, url: str, question: str) -> list[Any]:
        """Return the rows that a statement gives; none for one that gives none."""
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute(question)
            return found.fetchall() if found.description else []

    @contextmanager
    def locked(self, url: str, table: str) -> Iterator[None]:
        """Hold a table, so that nobody can write into it."""
        import psycopg

        with psycopg.connect(url) as connection:
            connection.execute(f"lock table {table}")
            yield

    def copy_of(self, url: str) -> str:
        """Copy a database that nobody uses, and return the URL of the copy."""
        name = f"db_{uuid.uuid4().hex[:12]}"
        self.ask(self.url("postgres"), f"create database {name} template {url.rpartition('/')[2]}")
        return self.url(name)
