"""Steps from stream to table, on tables, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.plan.functions import UserFunction
from penstock.plan.node import Node, StoreSpec
from penstock.plan.nodes.mapped import MapsRecords, MapsValues
from penstock.plan.used_columns import KEY, NEITHER, Columns
from penstock.serdes import Serde


@dataclass(frozen=True, eq=False, kw_only=True)
class ToTable(Node):
    store: StoreSpec

    is_table: ClassVar[bool] = True
    store_when_asked: ClassVar[bool] = True
    caches_last_update: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class TableFilter(Node):
    predicate: UserFunction
    negate: bool = False
    store: StoreSpec | None = None
    materialized: bool = False
    """Whether it was given a ``Materialized``, even one that names no store."""

    is_table: ClassVar[bool] = True
    inherits_versions: ClassVar[bool] = True
    asks_old_if_kept: ClassVar[bool] = True
    makes_one: ClassVar[bool] = True

    @property
    def function(self) -> UserFunction:
        return self.predicate

    @property
    def asks_old_of(self) -> tuple[Node, ...]:
        return (self.parent,)


@dataclass(frozen=True, eq=False, kw_only=True)
class TableMapValues(MapsValues, Node):
    mapper: UserFunction
    value: Serde
    store: StoreSpec | None = None
    materialized: bool = False
    """Whether it was given a ``Materialized``, even one that names no store."""

    is_table: ClassVar[bool] = True
    inherits_versions: ClassVar[bool] = True
    makes_one: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = KEY


@dataclass(frozen=True, eq=False, kw_only=True)
class ToStream(Node):
    makes_one: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class TableGroupBy(MapsRecords, Node):
    """Turns each change of a table into a removal from its old group and an addition to its new one."""

    mapper: UserFunction
    key: Serde
    value: Serde

    changes_key: ClassVar[bool] = True
    is_table: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = NEITHER

    @property
    def asks_old_of(self) -> tuple[Node, ...]:
        return (self.parent,)
