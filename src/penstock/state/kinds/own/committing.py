"""How each medium of a user's store commits and rolls back."""

from __future__ import annotations

from typing import Any

from penstock.state.interface import ChangelogOffsets
from penstock.state.kinds.own.errors import told
from penstock.state.wrappers import InTransactions


class Committing:
    """Commits and rolls back the current transaction of a user's store."""

    _store: InTransactions[Any]

    def commit(self, changelog_offsets: ChangelogOffsets) -> None:
        with told(self._store, "commit"):
            self._store.commit(changelog_offsets)

    def rollback(self) -> None:
        with told(self._store, "close of a transaction"):
            self._store.rollback()
