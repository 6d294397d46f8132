"""Steps without state: each record is processed by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.plan.awaiting import Awaiting
from penstock.plan.functions import Maker, UserFunction
from penstock.plan.node import UNTRACED, Node
from penstock.plan.nodes.mapped import MapsRecords, MapsValues
from penstock.plan.timestamps import Extractor
from penstock.plan.used_columns import BOTH, KEY, NEITHER, VALUE, Columns
from penstock.serdes import Serde
from penstock.serdes.formats.base import Format


@dataclass(frozen=True, eq=False, kw_only=True)
class Filter(Node):
    predicate: UserFunction
    negate: bool = False

    makes_one: ClassVar[bool] = True

    @property
    def function(self) -> UserFunction:
        return self.predicate


@dataclass(frozen=True, eq=False, kw_only=True)
class Map(MapsRecords, Node):
    mapper: UserFunction
    key: Serde
    value: Serde

    method: ClassVar[str] = "map"
    changes_key: ClassVar[bool] = True
    makes_one: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = NEITHER


@dataclass(frozen=True, eq=False, kw_only=True)
class MapValues(MapsValues, Node):
    mapper: UserFunction
    value: Serde

    makes_one: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = KEY


@dataclass(frozen=True, eq=False, kw_only=True)
class FilterAsync(Filter):
    how: Awaiting = field(metadata=UNTRACED)

    is_in_kafka_streams: ClassVar[bool] = False


@dataclass(frozen=True, eq=False, kw_only=True)
class MapValuesAsync(MapValues):
    how: Awaiting = field(metadata=UNTRACED)

    is_in_kafka_streams: ClassVar[bool] = False


@dataclass(frozen=True, eq=False, kw_only=True)
class FlatMap(MapsRecords, Node):
    mapper: UserFunction
    key: Serde
    value: Serde

    method: ClassVar[str] = "flat_map"
    changes_key: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = NEITHER


@dataclass(frozen=True, eq=False, kw_only=True)
class FlatMapValues(MapsValues, Node):
    mapper: UserFunction
    value: Serde

    keeps_columns: ClassVar[Columns] = KEY


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectKey(Node):
    mapper: UserFunction
    key: Serde

    method: ClassVar[str] = "select_key"
    changes_key: ClassVar[bool] = True
    makes_one: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = VALUE

    @property
    def function(self) -> UserFunction:
        return self.mapper

    @property
    def makes_key(self) -> Maker:
        return Maker(self.mapper, self.key)


@dataclass(frozen=True, eq=False, kw_only=True)
class Peek(Node):
    """``peek`` and ``foreach``: call a function for its effect."""

    action: UserFunction

    makes_one: ClassVar[bool] = True

    @property
    def function(self) -> UserFunction:
        return self.action


@dataclass(frozen=True, eq=False, kw_only=True)
class Merge(Node):
    pass


@dataclass(frozen=True, eq=False, kw_only=True)
class Split(Node):
    """Sends each record to the first branch whose predicate is true; a branch without a predicate takes the rest.

    ``predicates`` grows while the user adds branches, and is complete when the topology is built.
    """

    predicates: list[UserFunction | None] = field(default_factory=list)

    @property
    def reads_columns(self) -> Columns:
        return BOTH


@dataclass(frozen=True, eq=False, kw_only=True)
class Branch(Node):
    index: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Unwrap(Node):
    """Takes the rows out of their envelopes."""

    format: Format
    value: Serde
    row_time: Extractor | None = None
    """The source of the times of rows, where one envelope has several."""

    is_in_kafka_streams: ClassVar[bool] = False
    unpacks: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = KEY


@dataclass(frozen=True, eq=False, kw_only=True)
class UnwrapRecord(Unwrap):
    """Takes the keys out of their envelopes, too."""

    key: Serde

    method: ClassVar[str] = "format="
    changes_key: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = NEITHER
