"""What is outside of a program with all ready sinks, and can be full, slow, away, or older than it was."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock import Topology
from support.disks import Disk
from support.every_sink import COUNT, IN_FILES, EverySink, in_files, rows_of
from support.postgres import PostgresServer
from support.rows_service import RowsService

KINDS = (*IN_FILES, "http", "postgres")

_TABLES = ("clicks", "last")


class Outside:
    """Files in a folder, a service and a database.

    Args:
        disk: that of the folder, if it has one of its own.
    """

    def __init__(self, folder: Path, postgres: PostgresServer, disk: Disk | None = None):
        self._folder = folder
        self._postgres = postgres
        self._disk = disk
        self._url = postgres.database()
        self._service = RowsService()
        self._serve()

    def _serve(self) -> None:
        threading.Thread(target=self._service.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def sinks(self) -> EverySink:
        return EverySink(self._folder, self._service.url, self._url)

    def topology(self, topic: str, **options: Any) -> Topology:
        """A program with all sinks, and these options of ``to_sink``."""
        return self.sinks.topology(topic, **options)

    def close(self) -> None:
        self._postgres.start_if_stopped()
        self._service.shutdown()
        self._service.server_close()

    # --- what it has -------------------------------------------------------------------------------------------------

    def rows(self) -> dict[str, list[Any]]:
        """What all sinks have, by kind and table."""
        found: dict[str, list[Any]] = self.sinks.rows()
        found |= {f"http {table}": rows for table, rows in self._service.rows().items()}
        for table, order in zip(_TABLES, ("n", '"user" collate "C"'), strict=True):
            found[f"postgres {table}"] = self._ask(f'select "user", n from {table} order by {order}')
        return found

    def has_all(self, count: int) -> bool:
        """Whether all sinks have each of so many clicks once."""
        return self.rows() == wanted(count)

    def _ask(self, question: str) -> list[Any]:
        return self._postgres.ask(self._url, question)

    # --- what becomes of it ------------------------------------------------------------------------------------------

    @contextmanager
    def full(self) -> Iterator[None]:
        """Nothing can be written. Triggers say what PostgreSQL says of a full disk."""
        assert self._disk is not None
        self._disk.fill()
        self._service.answer = 507
        with self._with_triggers("raise exception 'No space left on device' using errcode = '53100'; return null"):
            yield
        self._service.answer = 204
        self._disk.make_room()

    @contextmanager
    def slow(self) -> Iterator[None]:
        """What is written takes its time."""
        assert self._disk is not None
        self._disk.be_slow(stands=0.4, works=0.1)
        self._service.seconds = 0.2
        with self._with_triggers("perform pg_sleep(0.2); return null"):
            yield
        self._service.seconds = 0.0
        self._disk.be_as_ever()

    @contextmanager
    def _with_triggers(self, body: str) -> Iterator[None]:
        self._ask(f"create function told() returns trigger language plpgsql as $$ begin {body}; end $$")
        for table in _TABLES:
            self._ask(f"create trigger told after insert on {table} execute function told()")
        yield
        self._ask("drop function told cascade")

    @contextmanager
    def away(self) -> Iterator[None]:
        """The service and the database are away."""
        self._postgres.stop()
        self._service.shutdown()
        self._service.server_close()
        yield
        self._postgres.start_if_stopped()
        self._service = RowsService(self._service.server_port, self._service)
        self._serve()

    def copy(self) -> None:
        """Make a copy of all but the service, which has no number."""
        shutil.copytree(self._folder, self._copy)
        self._older = self._postgres.copy_of(self._url)

    def restore(self) -> None:
        """Have that copy instead."""
        shutil.rmtree(self._folder)
        shutil.copytree(self._copy, self._folder)
        self._url = self._older

    @property
    def _copy(self) -> Path:
        return self._folder.with_name("copy")


def wanted(count: int = COUNT) -> dict[str, list[Any]]:
    """What all sinks have to have of so many clicks."""
    others = {f"{kind} {table}": rows for kind in ("http", "postgres") for table, rows in rows_of(count).items()}
    return in_files(count) | others
