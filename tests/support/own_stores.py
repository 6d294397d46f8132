"""Stores as users write them: of before KIP-892, and with transactions and offsets."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock import (
    AbstractTransactionalStore,
    BufferedTransaction,
    KeyValueStore,
)


class DictStore(KeyValueStore[bytes, bytes]):
    """All rows in a dictionary; what it does for a commit is up to classes that extend it."""

    persistent = False
    is_open = False

    def __init__(self, name: str = "own"):
        self.name = name
        self.rows: dict[bytes, bytes] = {}

    def init(self, context: Any, root: Any) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False

    def put(self, key: bytes, value: bytes | None) -> None:
        self.rows = {k: v for k, v in {**self.rows, key: value}.items() if v is not None}

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def range(self, low: bytes | None = None, high: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        for key, value in sorted(self.rows.items()):
            if (low is None or key >= low) and (high is None or key <= high):
                yield key, value


class TransactionalDictStore(AbstractTransactionalStore, DictStore):
    """The same with transactions; ``offsets`` are those that it was last committed with."""

    is_open = AbstractTransactionalStore.is_open

    def __init__(self, name: str = "own"):
        super().__init__(name)
        self.offsets: dict[Any, int] = {}

    def create_transaction(self) -> BufferedTransaction:
        return BufferedTransaction(self, self.write)

    def write(self, changes: Any, changelog_offsets: Any) -> None:
        self.rows = {k: v for k, v in {**self.rows, **changes}.items() if v is not None}
        self.offsets = {**self.offsets, **changelog_offsets}


class OldStore(DictStore):
    """One of before KIP-892: it has ``flush``, and knows neither transactions nor offsets. Rows lie in a file."""

    persistent = True

    def init(self, context: Any, root: Any) -> None:
        super().init(context, root)
        self.path = context.state_dir / f"{self.name}.json"
        text = self.path.read_text() if self.path.exists() else "{}"
        self.rows = {bytes.fromhex(key): bytes.fromhex(value) for key, value in json.loads(text).items()}

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self.flush()  # so that a kill leaves half of a commit behind

    def flush(self) -> None:
        self.path.write_text(json.dumps({key.hex(): value.hex() for key, value in self.rows.items()}))


def _example() -> Any:
    path = Path(__file__).parents[2] / "examples" / "own_store" / "app.py"
    spec = importlib.util.spec_from_file_location("own_store_app", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SQLITE_EXAMPLE = _example()
SqliteStore = SQLITE_EXAMPLE.SqliteStore
"""One that keeps rows and offsets in a database of its own."""


class Supplier:
    """Gives new objects of a class, and remembers them."""

    def __init__(self, kind: Any, name: str = "own"):
        self.kind = kind
        self.name = name
        self.made: list[Any] = []

    def get(self) -> Any:
        self.made.append(self.kind(self.name))
        return self.made[-1]
