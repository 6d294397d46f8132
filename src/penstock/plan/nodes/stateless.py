"""Steps that keep nothing: each record by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.plan.functions import UserFunction
from penstock.plan.node import Node
from penstock.serdes import Serde


@dataclass(frozen=True, eq=False, kw_only=True)
class Filter(Node):
    predicate: UserFunction
    negate: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Map(Node):
    mapper: UserFunction
    key: Serde
    value: Serde

    changes_key: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class MapValues(Node):
    mapper: UserFunction
    value: Serde


@dataclass(frozen=True, eq=False, kw_only=True)
class FlatMap(Node):
    mapper: UserFunction
    key: Serde
    value: Serde

    changes_key: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class FlatMapValues(Node):
    mapper: UserFunction
    value: Serde


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectKey(Node):
    mapper: UserFunction
    key: Serde

    changes_key: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class Peek(Node):
    """``peek`` and ``foreach``: call a function for its effect."""

    action: UserFunction


@dataclass(frozen=True, eq=False, kw_only=True)
class Merge(Node):
    pass


@dataclass(frozen=True, eq=False, kw_only=True)
class Split(Node):
    """Sends each record to the first branch whose predicate holds; a branch without a predicate takes the rest.

    ``predicates`` grows while the user adds branches, and is complete when the topology is built.
    """

    predicates: list[UserFunction | None] = field(default_factory=list)


@dataclass(frozen=True, eq=False, kw_only=True)
class Branch(Node):
    index: int
