"""Stores as users write them: of before KIP-892, and with transactions and offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock import AbstractTransactionalStore, BufferedTransaction, KeyValueStore


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
