"""The steps of the three deduplications (KIP-655)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.plan.fields import Field
from penstock.plan.functions import UserFunction
from penstock.plan.node import Node, StoreSpec
from penstock.serdes import Serde
from penstock.serdes.pair import PairSerde


@dataclass(frozen=True, eq=False, kw_only=True)
class Deduplicate(Node):
    """Leaves out the records whose id was forwarded within the interval: the key, or the key with a selected id.

    With ``dropped_to``, a topic, the duplicates go down a second branch that leads there.
    """

    interval: int
    id_selector: UserFunction | Field | None
    key: Serde
    id: Serde | None
    store: StoreSpec
    dropped_to: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class KeyById(Node):
    """Puts records under their ids, for a repartition; keys and values travel together as values."""

    id_selector: UserFunction | Field
    key: Serde
    id: Serde
    value: PairSerde

    changes_key: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class RestoreKey(Node):
    """Takes keys and values out of the pairs that ``KeyById`` made."""

    key: Serde
    value: Serde

    changes_key: ClassVar[bool] = True
