"""Joins by the same key; those by a foreign key are in ``foreign_key.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.plan.functions import Maker, UserFunction
from penstock.plan.kept import Kept, KeptSide, KeptUpdates, KeptWaiting
from penstock.plan.node import Node, Part, Stores, StoreSpec
from penstock.plan.used_columns import BOTH, KEY, NEITHER, Columns, columns_of_joiner
from penstock.plan.windows import JoinWindows
from penstock.serdes import Serde

INNER = "inner"
LEFT = "left"
OUTER = "outer"

_ASKED_FOR_OLD = {INNER: (False, False), LEFT: (True, False), OUTER: (True, True)}
"""The sides of a join of tables that must send old values to it."""
_STREAM_JOIN_ADVICE = 'stream_joined=StreamJoined.as_("...")'


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamTableJoin(Node):
    """Looks up each record's key in a table. With a ``grace`` period, which needs a ``store``, records wait first."""

    table: Node
    joiner: UserFunction
    is_left: bool
    value: Serde
    grace: int | None = None
    store: StoreSpec | None = None

    store_advice: ClassVar[str] = 'joined=Joined.as_("...")'
    keeps_input: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = KEY

    @property
    def joined(self) -> tuple[Node, ...]:
        return self.parent, self.table

    @property
    def takes_null_keys(self) -> bool:
        return self.is_left

    @property
    def looks_up(self) -> tuple[Node, ...]:
        return (self.table,)

    @property
    def looks_up_as_of(self) -> tuple[Node, ...]:
        return (self.table,)

    @property
    def reads_columns(self) -> Columns:
        return columns_of_joiner(self.joiner)

    @property
    def makes_value(self) -> Maker:
        return Maker(self.joiner, self.value)

    @property
    def keeps(self) -> Kept:
        if self.grace is None:
            return Kept()
        return KeptUpdates(wait_ms=self.grace, times_follow=True, is_numbered=True)

    def connected_stores(self, facts: Stores) -> tuple[str, ...]:
        return (*super().connected_stores(facts), *facts.looked_up_stores(self.table))

    def read_tables(self, facts: Stores) -> tuple[str, ...]:
        return tuple(table.name for table in facts.looked_up_tables(self.table))


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalTableJoin(Node):
    """Looks up a key, computed by a function, in a global table."""

    table: Node
    key_selector: UserFunction
    table_key: Serde
    joiner: UserFunction
    is_left: bool
    value: Serde

    keeps_columns: ClassVar[Columns] = KEY

    @property
    def takes_null_keys(self) -> bool:
        return self.is_left

    @property
    def looks_up(self) -> tuple[Node, ...]:
        return (self.table,)

    @property
    def looks_up_as_of(self) -> tuple[Node, ...]:
        return (self.table,)

    @property
    def reads_columns(self) -> Columns:
        return BOTH

    @property
    def makes_value(self) -> Maker:
        return Maker(self.joiner, self.value)

    def read_tables(self, facts: Stores) -> tuple[str, ...]:
        return tuple(table.name for table in facts.looked_up_tables(self.table))


@dataclass(frozen=True, eq=False, kw_only=True)
class TableJoin(Node):
    """Joins two tables, its parents, by their keys: each change of one side is joined with the other side's value."""

    kind: str
    joiner: UserFunction
    this_name: str
    other_name: str
    value: Serde
    store: StoreSpec | None = None
    is_complete: bool = False
    """Whether past results are corrected (KIP-914)."""

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
    keeps_columns: ClassVar[Columns] = KEY

    @property
    def joined_tables(self) -> tuple[Node, ...]:
        return self.parents

    @property
    def asks_old_of(self) -> tuple[Node, ...]:
        asked = zip(self.parents, _ASKED_FOR_OLD[self.kind], strict=True)
        return tuple(table for table, is_asked in asked if is_asked)

    @property
    def looks_up(self) -> tuple[Node, ...]:
        return self.parents

    @property
    def looks_up_as_of(self) -> tuple[Node, ...]:
        return self.parents if self.is_complete else ()

    @property
    def reads_columns(self) -> Columns:
        return NEITHER if self.joiner.columnar else columns_of_joiner(self.joiner)

    @property
    def makes_value(self) -> Maker:
        return Maker(self.joiner, self.value)

    def parts(self, above: tuple[str, ...], facts: Stores) -> list[Part]:
        (left, right), (this, other) = self.parents, (self.this_name, self.other_name)
        return [
            Part("processor", this, self, "this", (left.name,), facts.looked_up_stores(right)),
            Part("processor", other, self, "other", (right.name,), facts.looked_up_stores(left)),
            Part("processor", self.name, self, "merge", (this, other), self.connected_stores(facts)),
        ]


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinWindow(Node):
    """Keeps one side of a stream-stream join in a store."""

    windows: JoinWindows
    value: Serde
    store: StoreSpec

    store_advice: ClassVar[str] = _STREAM_JOIN_ADVICE

    @property
    def keeps(self) -> Kept:
        return KeptSide(window_size_ms=self.windows.size_ms, retention_ms=self.windows.retention_ms)


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamJoin(Node):
    """Joins two streams, its parents, in time windows; ``store`` holds records that wait for a partner."""

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

    store_advice: ClassVar[str] = _STREAM_JOIN_ADVICE
    keeps_input: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = KEY

    @property
    def joined(self) -> tuple[Node, ...]:
        return self.parents

    @property
    def takes_null_keys(self) -> bool:
        return self.kind != INNER

    @property
    def reads_columns(self) -> Columns:
        return NEITHER if self.joiner.columnar else columns_of_joiner(self.joiner)

    @property
    def makes_value(self) -> Maker:
        return Maker(self.joiner, self.value)

    @property
    def keeps(self) -> Kept:
        return KeptWaiting()

    @property
    def clocks(self) -> tuple[tuple[str, str], ...]:
        return ((f"join of {self.left.store.name} and {self.right.store.name}", self.name),)

    def parts(self, above: tuple[str, ...], facts: Stores) -> list[Part]:
        (left, right), (this, other) = (self.left, self.right), (self.this_name, self.other_name)
        waiting = self.connected_stores(facts)
        return [
            Part("processor", this, self, "this", (left.name,), (right.store.name, *waiting)),
            Part("processor", other, self, "other", (right.name,), (left.store.name, *waiting)),
            Part("processor", self.name, self, "merge", (this, other)),
        ]
