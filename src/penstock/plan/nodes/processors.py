"""Steps in which a user's processors and transformers work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.plan.node import Node
from penstock.plan.nodes.tables import TableMapValues
from penstock.plan.processors import ProcessorFunction
from penstock.serdes import Serde


@dataclass(frozen=True, eq=False, kw_only=True)
class Process(Node):
    """Calls a processor of the user's with each record; what it forwards goes on (KIP-820)."""

    supplier: ProcessorFunction
    key: Serde
    value: Serde
    store_names: list[str] = field(default_factory=list)
    """The stores that it is connected to: those that were added, and tables'. It grows while the user connects more,
    and is complete when the topology is built."""

    changes_key: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessValues(Process):
    """Calls a processor that leaves keys as they are."""

    changes_key: ClassVar[bool] = False


@dataclass(frozen=True, eq=False, kw_only=True)
class TableTransformValues(TableMapValues):
    """New values from a transformer of the user's, which may have stores; deletions are transformed as well."""

    supplier: ProcessorFunction
    store_names: list[str] = field(default_factory=list)


HOSTING = Process | TableTransformValues
"""The steps in which a processor or a transformer of the user's works."""


def connected_stores(node: Node) -> list[str]:
    """The names of the stores that a processor is connected to."""
    return node.store_names if isinstance(node, HOSTING) else []
