"""The input from which operators are built."""

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
from penstock.serdes import Serde
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.store import StateStore
from penstock.state.task_state import TaskState

Store = TypeVar("Store", bound=StateStore)


@dataclass(frozen=True)
class Lowering:
    """The input for one operator: its part, and the resources of its task."""

    part: Part
    facts: TableFacts
    decodes: tuple[str, ...]
    state: TaskState
    context: Context
    caching: bool
    made: tuple[Serde, ...] = ()
    """The types of the values that functions of the topology make."""
    children: tuple[str, ...] = ()
    """The names of the parts below it."""
    number: int = 0
    """The part's number among those of the task."""
    views: dict[str, RecordView] = field(default_factory=dict)
    """The record views of the task's stores that processors have asked for."""
    gait: str = ""
    """How a processor's records go: through a ``group`` as a whole, or ``depth first``."""
    hosted: list[Hosting] = field(default_factory=list)
    """The operators of the task that host user objects which must be started and closed."""

    @property
    def name(self) -> str:
        return self.part.name

    def caller(self, function: UserFunction) -> Caller:
        return Caller(self.part.name, function, self.context)

    @property
    def sends_old(self) -> bool:
        return self.part.node in self.facts.sends_old

    def store(self, spec: StoreSpec, kind: type[Store]) -> Store:
        """Return the store of a step, which has the kind that ``engine/shared/stores.py`` creates for the step."""
        store = self.state.stores[spec.name]
        assert isinstance(store, kind)
        return store

    def stores_of(self, table: Node) -> list[StateStore]:
        """Return the stores that are read to look up the values of a table."""
        return [self.state.stores[name] for name in self.facts.looked_up_stores(table)]

    def caches(self, table: Node) -> bool:
        """Return whether a table holds its updates back until the commit."""
        spec = self.facts.stores[table]
        return self.caching and spec.caching and not spec.is_versioned and table not in self.facts.uncached

    def tells_stored(self, table: Node) -> bool:
        """Return whether a table with a caching store sends every update, with the old values that a cache would
        send.
        """
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
