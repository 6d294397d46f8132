"""Facts that several nodes share: those of steps that call a mapper, and of steps that aggregate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.plan.aggregation import Aggregation
from penstock.plan.functions import Maker, UserFunction
from penstock.plan.used_columns import Columns
from penstock.serdes import Serde

if TYPE_CHECKING:
    from penstock.plan.node import StoreSpec


class MapsValues:
    """A step whose mapper makes the values."""

    if TYPE_CHECKING:

        @property
        def mapper(self) -> UserFunction: ...

        @property
        def value(self) -> Serde: ...

    @property
    def function(self) -> UserFunction:
        return self.mapper

    @property
    def makes_value(self) -> Maker:
        return Maker(self.mapper, self.value)


class MapsRecords(MapsValues):
    """A step whose mapper makes keys and values."""

    if TYPE_CHECKING:

        @property
        def key(self) -> Serde: ...

    @property
    def makes_key(self) -> Maker:
        return Maker(self.mapper, self.key)


class Aggregates:
    """A step whose store holds the results of its aggregation."""

    if TYPE_CHECKING:

        @property
        def aggregation(self) -> Aggregation: ...

        @property
        def store(self) -> StoreSpec: ...

    @property
    def reads_columns(self) -> Columns:
        return self.aggregation.reads_columns

    @property
    def makes_value(self) -> Maker | None:
        return self.aggregation.maker(self.store.types[1])
