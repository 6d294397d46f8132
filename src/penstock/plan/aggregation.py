"""Aggregations: functions that combine values into one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.plan.functions import Maker, UserFunction
from penstock.plan.used_columns import BOTH, NEITHER, VALUE, Columns
from penstock.serdes import Serde

if TYPE_CHECKING:
    from penstock.plan.aggregates.together import Together


@dataclass(frozen=True, eq=False, kw_only=True)
class Aggregation:
    """The functions of ``count``, ``reduce`` (starts with the first value) or ``aggregate`` (starts with an
    initializer).

    ``subtract`` removes a value again, for grouped tables; ``merge`` combines the aggregates of two sessions.
    """

    kind: str
    add: UserFunction | None = None
    initialize: Callable[[], Any] | None = None
    subtract: UserFunction | None = None
    merge: UserFunction | None = None
    together: Together | None = None
    """The aggregates by name that the functions belong to."""

    @property
    def reads_columns(self) -> Columns:
        """The columns that its functions use."""
        if self.together is not None:
            return self.together.reads_columns
        return {"count": NEITHER, "reduce": VALUE}.get(self.kind, BOTH)

    def maker(self, type_: Serde) -> Maker | None:
        """The function that makes its results, and their type; None for counts."""
        return None if self.add is None else Maker(self.add, type_)
