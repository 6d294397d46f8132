"""Steps that run a user's processors and transformers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.plan.functions import Maker
from penstock.plan.node import UNTRACED, Node, Stores
from penstock.plan.nodes.tables import TableMapValues
from penstock.plan.processors import ProcessorFunction
from penstock.plan.used_columns import BOTH, KEY, NEITHER, Columns
from penstock.serdes import Serde


@dataclass(frozen=True, eq=False, kw_only=True)
class Process(Node):
    """Calls a user's processor with each record, and emits the records that it forwards (KIP-820)."""

    supplier: ProcessorFunction
    key: Serde
    value: Serde
    store_names: list[str] = field(default_factory=list)
    """The stores that it is connected to: added ones, and those of tables. The list grows while the user connects more,
    and is complete when the topology is built."""
    is_by_hand: bool = field(default=False, metadata=UNTRACED)
    """Whether it was added by ``Topology.add_processor``."""

    method: ClassVar[str] = "process"
    changes_key: ClassVar[bool] = True
    hosts: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = NEITHER

    @property
    def makes_key(self) -> Maker | None:
        return Maker(self.supplier.function, self.key)

    @property
    def makes_value(self) -> Maker:
        return Maker(self.supplier.function, self.value)

    @property
    def reads_columns(self) -> Columns:
        return BOTH

    def connected_stores(self, facts: Stores) -> tuple[str, ...]:
        return tuple(self.store_names)

    def read_tables(self, facts: Stores) -> tuple[str, ...]:
        return named_global_tables(facts)


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessValues(Process):
    """Calls a processor that leaves keys as they are."""

    method: ClassVar[str] = "process_values"
    changes_key: ClassVar[bool] = False
    keeps_columns: ClassVar[Columns] = KEY

    @property
    def makes_key(self) -> None:
        return None


@dataclass(frozen=True, eq=False, kw_only=True)
class TableTransformValues(TableMapValues):
    """New values from a user's transformer, which may have stores; deletions are transformed as well."""

    supplier: ProcessorFunction
    store_names: list[str] = field(default_factory=list)

    hosts: ClassVar[bool] = True
    makes_one: ClassVar[bool] = False

    def connected_stores(self, facts: Stores) -> tuple[str, ...]:
        return (*super().connected_stores(facts), *self.store_names)

    def read_tables(self, facts: Stores) -> tuple[str, ...]:
        return named_global_tables(facts)


def named_global_tables(facts: Stores) -> tuple[str, ...]:
    """The global tables that processors may read without being connected to them: those that the user named."""
    return tuple(table.name for table, store in facts.stores.items() if table.is_global and store.named_by_user)
