"""The common part of all aggregating steps: their functions, and the names that they use up."""

from __future__ import annotations

import dis
from types import FunctionType
from typing import Any

from penstock.dsl.graph import Graph
from penstock.dsl.materialized import Materialized
from penstock.dsl.results import aggregated_type
from penstock.errors import TopologyError
from penstock.plan import names, nodes
from penstock.plan.functions import UserFunction, called, user_function
from penstock.plan.returns import check_returns
from penstock.serdes import Serde

REDUCER = ("aggregate", "value")
AGGREGATOR = ("key", "value", "aggregate")
NO_KEY = "a reducer gets no key; aggregate(...) does, and a third argument called context is that of the record"
_INITIAL = "the initializer comes first: a function without arguments that gives the first aggregate, such as lambda: 0"
MERGER = ("key", "one", "other")
_NO_WORK = {"RESUME", "COPY_FREE_VARS", "CACHE"}
_LOADS = {"LOAD_GLOBAL", "LOAD_DEREF", "LOAD_FAST", "LOAD_NAME", "LOAD_FAST_BORROW"}
"""Python's instructions that load a variable."""


def reduction_of(reducer: Any) -> nodes.Aggregation:
    """The aggregation of a ``reduce`` call."""
    return nodes.Aggregation(kind="reduce", add=reducer_of(reducer))


def reducer_of(function: Any, what: str = "reducer") -> UserFunction:
    """A function of (aggregate, value) that returns the new aggregate."""
    return check_returns(user_function(function, "reduce", REDUCER, hint=NO_KEY, context=True), "reduce", what)


def aggregator_of(function: Any, method: str, what: str = "aggregator", initializer: Any = None) -> UserFunction:
    """A function of (key, value, aggregate) that returns the new aggregate."""
    return check_returns(user_function(function, method, AGGREGATOR, context=True), method, what, initializer)


def merger_of(function: Any) -> UserFunction:
    """A function of (key, one aggregate, other aggregate) that returns the merged session's aggregate."""
    return check_returns(user_function(function, "aggregate", MERGER, context=True), "aggregate", "merger")


def initializer_of(function: Any) -> UserFunction:
    """A function without arguments that returns the initial aggregate of a key.

    Raises:
        TopologyError: it is not such a function, or it always returns the same mutable object.
    """
    initialize = user_function(function, "aggregate", (), hint=_INITIAL)
    if _only_returns_a_variable(function) and type(shared := function()).__hash__ is None:
        raise TopologyError(
            f"aggregate at {initialize.where}: the initializer {called(function)} gives the same "
            f"{type(shared).__name__} each time, which the aggregates of all keys would share; have it make a new one, "
            f"such as lambda: {shared!r}"
        )
    return initialize


def _only_returns_a_variable(function: Any) -> bool:
    """Whether a function does nothing but return a variable, so that a call has no effect."""
    if not isinstance(function, FunctionType):
        return False
    names = [one.opname for one in dis.get_instructions(function) if one.opname not in _NO_WORK]
    return len(names) == 2 and names[0] in _LOADS and names[1] == "RETURN_VALUE"


def aggregation_of(
    initializer: Any, adder: Any, value: Any, subtractor: Any = None, merger: Any = None
) -> tuple[nodes.Aggregation, Serde]:
    """The aggregation of an ``aggregate`` call, and the type of its results."""
    initialize = initializer_of(initializer)
    add = aggregator_of(adder, "aggregate", initializer=initializer)
    subtract = None if subtractor is None else user_function(subtractor, "aggregate", AGGREGATOR, context=True)
    merge = None if merger is None else merger_of(merger)
    aggregation = nodes.Aggregation(
        kind="aggregate", add=add, initialize=initialize.call, subtract=subtract, merge=merge
    )
    return aggregation, aggregated_type(value, [add], initialize, is_cogroup=False)


def burn_count_name(graph: Graph, given: Materialized | None) -> None:
    """Use up the extra number that Kafka Streams takes for a ``count`` with an unnamed ``Materialized``."""
    if given is not None and given.store is None:
        graph.names.store(names.STREAM_AGGREGATE)
