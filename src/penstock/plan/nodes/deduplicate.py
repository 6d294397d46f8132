"""The steps of the three deduplications (KIP-655)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.plan.fields import Field
from penstock.plan.functions import UserFunction
from penstock.plan.kept import Kept, KeptIds
from penstock.plan.node import Node, StoreSpec
from penstock.plan.used_columns import NEITHER, Columns
from penstock.serdes import Serde
from penstock.serdes.pair import PairSerde


@dataclass(frozen=True, eq=False, kw_only=True)
class Deduplicate(Node):
    """Leaves out the records whose id was forwarded within the interval: the key, or the key with a selected id.

    With ``dropped_to``, a topic, a second branch sends the duplicates there.
    """

    interval: int
    id_selector: UserFunction | Field | None
    key: Serde
    id: Serde | None
    store: StoreSpec
    dropped_to: str | None = None

    store_advice: ClassVar[str] = 'with_store_name("...") of Deduplicated'
    caches_updates: ClassVar[bool] = False

    @property
    def function(self) -> UserFunction | Field | None:
        return self.id_selector

    @property
    def keeps(self) -> Kept:
        return KeptIds(interval_ms=self.interval, are_pairs=self.id_selector is not None)

    @property
    def partition_key(self) -> Serde:
        return self.key


@dataclass(frozen=True, eq=False, kw_only=True)
class KeyById(Node):
    """Uses the id of each record as its key, for a repartition, and packs key and value together as its value."""

    id_selector: UserFunction | Field
    key: Serde
    id: Serde
    value: PairSerde

    method: ClassVar[str] = "deduplicate"
    changes_key: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = NEITHER

    @property
    def function(self) -> UserFunction | Field:
        return self.id_selector


@dataclass(frozen=True, eq=False, kw_only=True)
class RestoreKey(Node):
    """Unpacks keys and values from the pairs that ``KeyById`` made."""

    key: Serde
    value: Serde

    method: ClassVar[str] = "deduplicate"
    changes_key: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = NEITHER
    unpacks: ClassVar[bool] = True
