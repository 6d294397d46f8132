"""Which fold carries out an aggregation in sessions and in sliding windows."""

from __future__ import annotations

from typing import Any

from penstock.ops.core.notes import TaskFacts
from penstock.ops.core.record_context import Told
from penstock.ops.windows.sessions.fold import CountSessions, SessionFold, UserSessions
from penstock.ops.windows.sessions.named import NamedSessions
from penstock.plan.nodes import Aggregation
from penstock.serdes import INT, Serde


def session_fold_of(aggregation: Aggregation, serde: Serde, facts: TaskFacts) -> SessionFold:
    """Return the fold of an aggregation in sessions."""
    if aggregation.kind == "count":
        if serde == INT:
            return CountSessions()
        return UserSessions(serde, lambda: 0, lambda key, value, count: count + 1, lambda key, a, b: a + b, None)
    assert aggregation.add is not None
    told = Told(facts)
    added = told.function(aggregation.add)
    if aggregation.kind == "reduce":

        def add(key: Any, value: Any, aggregate: Any) -> Any:
            return value if aggregate is None else added(aggregate, value)

        return UserSessions(serde, lambda: None, add, lambda key, a, b: add(key, b, a), aggregation.add, told=told)
    assert aggregation.initialize is not None
    merge = _no_merger if aggregation.merge is None else told.function(aggregation.merge)
    functions = serde, aggregation.initialize, added, merge, aggregation.add, aggregation.merge, told
    if aggregation.together is not None:
        return NamedSessions(aggregation.together, *functions)
    return UserSessions(*functions)


def _no_merger(key: Any, one: Any, other: Any) -> Any:
    raise AssertionError("only sessions merge")
