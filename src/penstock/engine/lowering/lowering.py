"""What operators are made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from penstock.ops.core.context import Context
from penstock.ops.core.functions import Caller
from penstock.ops.processors.hosting import Hosting
from penstock.ops.processors.views import RecordView
from penstock.ops.tables.table import TableStore, TableWriter
from penstock.ops.tables.versioned_table import VersionedTableStore
from penstock.plan.functions import UserFunction
from penstock.plan.node import Node, StoreSpec
from penstock.plan.passes.stores import TableFacts
from penstock.plan.physical import Part
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.store import StateStore
from penstock.state.task_state import TaskState

Store = TypeVar("Store", bound=StateStore)


@dataclass(frozen=True)
class Lowering:
    """What operators are made from: a part, and what its task has for it."""

    part: Part
    facts: TableFacts
    decodes: tuple[str, ...]
    state: TaskState
    context: Context
    caching: bool
    children: tuple[str, ...] = ()
    """The names of the parts behind it."""
    number: int = 0
    """The part's number among those of the task."""
    views: dict[str, RecordView] = field(default_factory=dict)
    """The record views of the task's stores, as far as a processor has asked for them."""
    gait: str = ""
    """How a processor's records go: those of a ``group`` through all of it, or ``depth first``."""
    hosted: list[Hosting] = field(default_factory=list)
    """The operators of the task that have something of the user's with a life of its own."""

    @property
    def name(self) -> str:
        return self.part.name

    def caller(self, function: UserFunction) -> Caller:
        return Caller(self.part.name, function, self.context)

    @property
    def sends_old(self) -> bool:
        return self.part.node in self.facts.sends_old

    def store(self, spec: StoreSpec, kind: type[Store]) -> Store:
        """The store of a step, which is of the kind that ``engine/shared/stores.py`` makes for the step."""
        store = self.state.stores[spec.name]
        assert isinstance(store, kind)
        return store

    def stores_of(self, table: Node) -> list[StateStore]:
        """The stores that are looked up to find the values of a table."""
        return [self.state.stores[name] for name in self.facts.looked_up_stores(table)]

    def caches(self, table: Node) -> bool:
        """Whether a table holds its updates back until the commit."""
        spec = self.facts.stores[table]
        return self.caching and spec.caching and not spec.is_versioned and table not in self.facts.uncached

    def tells_stored(self, table: Node) -> bool:
        """Whether a table sends every update on although its store caches, with the old values that a cache tells."""
        spec = self.facts.stores[table]
        return self.caching and spec.caching and not spec.is_versioned and table in self.facts.uncached

    def table_store(self) -> TableWriter | None:
        spec = self.facts.stores.get(self.part.node)
        if spec is None:
            return None
        store = self.state.stores[spec.name]
        if isinstance(store, VersionedStore):
            return VersionedTableStore(self.name, self.context, store, self.sends_old)
        node = self.part.node
        return TableStore(self.context, store, self.sends_old, self.caches(node), self.tells_stored(node))
