"""What all steps of a topology have, and the stores that some of them want.

A node states facts: what it needs, what it makes, whether it changes keys. Decisions taken from the facts of several
nodes (where a table must have a store, who sends old values, what is a sub-topology) are taken in ``passes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.serdes import Serde


@dataclass(frozen=True, eq=False, kw_only=True)
class StoreSpec:
    """A state store that a step wants: its name and kind, and how its results are emitted."""

    name: str
    named_by_user: bool
    kind: str = "persistent"
    retention: int | None = None
    caching: bool = True
    key: Serde | None = None
    value: Serde | None = None
    history_retention: int | None = None
    segment_interval: int | None = None
    shape: str | None = None
    """``key_value``, ``timestamped_key_value``, ``window``, ``timestamped_window``, ``session`` or ``versioned``; None
    of stores that a step made by itself, which decides."""
    max_entries: int | None = None
    """How many entries it may have before it forgets those that were not used for longest; None for any number."""
    window_size: int | None = None
    retain_duplicates: bool = False
    logging: bool = True
    supplier: Any = None
    """What makes stores of a user's own; None for Penstock's."""

    @property
    def is_timestamped(self) -> bool:
        """Whether processors see its values with timestamps, as they do those of tables."""
        return self.shape is None or self.shape.startswith("timestamped")

    @property
    def types(self) -> tuple[Serde, Serde]:
        """Of keys and values, which are known when the topology is built."""
        assert self.key is not None
        assert self.value is not None
        return self.key, self.value

    @property
    def in_memory(self) -> bool:
        return self.kind in ("in_memory", "versioned_in_memory")

    @property
    def is_versioned(self) -> bool:
        return self.history_retention is not None


UNTRACED = {"untraced": True}
"""The metadata of a field of a node that does not tell where its stores stand: one that came with a later release."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """One step. Parents come first, and nodes are compared by identity."""

    name: str
    parents: tuple[Node, ...] = ()
    where: str = ""
    """The user's file and line."""

    changes_key: ClassVar[bool] = False
    is_table: ClassVar[bool] = False
    inherits_versions: ClassVar[bool] = False
    """Whether a table that is not materialized anew is versioned if the one in front of it is (KIP-914)."""

    collapses_updates: ClassVar[bool] = False
    """Whether it holds a table's updates back and sends on only some of them, which versioned tables do not allow."""

    @property
    def parent(self) -> Node:
        return self.parents[0]

    @property
    def joined(self) -> tuple[Node, ...]:
        """The steps whose equal keys must lie in the same partition; none for steps that do not join."""
        return ()

    @property
    def takes_null_keys(self) -> bool:
        """Whether records without a key mean something to it, so that repartitions before it let them through."""
        return False
