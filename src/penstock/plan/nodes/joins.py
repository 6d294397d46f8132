"""Joins by the same key; those by a foreign key are in ``foreign_key.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.plan.functions import UserFunction
from penstock.plan.node import Node, StoreSpec
from penstock.plan.windows import JoinWindows
from penstock.serdes import Serde

INNER = "inner"
LEFT = "left"
OUTER = "outer"


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamTableJoin(Node):
    """Looks each record's key up in a table; with a ``grace`` period, which needs a ``store``, records wait first."""

    table: Node
    joiner: UserFunction
    is_left: bool
    value: Serde
    grace: int | None = None
    store: StoreSpec | None = None

    @property
    def joined(self) -> tuple[Node, ...]:
        return self.parent, self.table

    @property
    def takes_null_keys(self) -> bool:
        return self.is_left


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalTableJoin(Node):
    """Looks a key that a function gives up in a global table."""

    table: Node
    key_selector: UserFunction
    table_key: Serde
    joiner: UserFunction
    is_left: bool
    value: Serde

    @property
    def takes_null_keys(self) -> bool:
        return self.is_left


@dataclass(frozen=True, eq=False, kw_only=True)
class TableJoin(Node):
    """Joins two tables, its parents, by their keys: each change of one side with what the other side has."""

    kind: str
    joiner: UserFunction
    this_name: str
    other_name: str
    value: Serde
    store: StoreSpec | None = None
    is_complete: bool = False
    """Whether results of the past are corrected (KIP-914)."""

    @property
    def joined(self) -> tuple[Node, ...]:
        return self.parents

    @property
    def materialized(self) -> bool:
        return self.store is not None

    @property
    def inherits_versions(self) -> bool:  # type: ignore[override]
        return self.is_complete

    is_table: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinWindow(Node):
    """Keeps one side of a stream-stream join in a store."""

    windows: JoinWindows
    value: Serde
    store: StoreSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamJoin(Node):
    """Joins two streams, its parents, in windows of time; ``store`` is where records without a partner wait."""

    kind: str
    joiner: UserFunction
    windows: JoinWindows
    left: JoinWindow
    right: JoinWindow
    this_name: str
    other_name: str
    key: Serde
    value: Serde
    store: StoreSpec | None = None

    @property
    def joined(self) -> tuple[Node, ...]:
        return self.parents

    @property
    def takes_null_keys(self) -> bool:
        return self.kind != INNER
