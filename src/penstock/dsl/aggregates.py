"""``aggregate`` with aggregates by name: ``aggregate(orders=Count(), total=Sum("amount"))``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, get_type_hints

from penstock.dsl.materialized import materialized_of
from penstock.errors import TopologyError
from penstock.messages import nearest, show
from penstock.plan import names, nodes
from penstock.plan.aggregates.folding import optional
from penstock.plan.aggregates.named import NamedAggregate
from penstock.plan.aggregates.reading import shown_type
from penstock.plan.aggregates.together import Narrowing, Together
from penstock.plan.functions import UserFunction, caller
from penstock.serdes import Serde, of

OPTIONS = ("value", "store", "materialized", "name")
"""The arguments of ``aggregate`` that are no aggregates."""


def or_by_name(aggregate: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method ``aggregate`` that takes aggregates by name as well; the class makes a table of them."""

    @wraps(aggregate)
    def either(self: Any, /, *arguments: Any, **named: Any) -> Any:
        if any(map(_is_aggregate, (*arguments, *named.values()))):
            return _by_name(self, arguments, named)
        return aggregate(self, *arguments, **named)

    return either


def _is_aggregate(given: Any) -> bool:
    return isinstance(given, NamedAggregate) or (isinstance(given, type) and issubclass(given, NamedAggregate))


def _by_name(grouped: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return the table of the aggregates of a grouped stream or table."""
    options = {key: one for key, one in named.items() if key in OPTIONS}
    chosen = {key: one for key, one in named.items() if key not in OPTIONS}
    _check(arguments, options, chosen)
    given = materialized_of(options.get("materialized"), options.get("store"))
    if given is not None and given.value is not None:
        raise TopologyError(
            f"aggregate at {caller()}: its aggregates say what is kept, so the Materialized takes no type of values; "
            "for a class of your own as the result write value="
        )
    into = options.get("value")
    value, retracts = grouped._aggregated
    together = together_of(value, chosen, retracts)
    narrowing = None if into is None and together.fields == together.results else _narrowing(together, into)
    table = grouped._aggregate(
        names.STREAM_AGGREGATE if not retracts else names.TABLE_AGGREGATE,
        _aggregation(together, caller()),
        given,
        together.serde,
        options.get("name"),
    )
    return table if narrowing is None else _narrowed(table, narrowing, options.get("name"))


def _check(arguments: tuple[Any, ...], options: dict[str, Any], chosen: dict[str, Any]) -> None:
    """Refuse a call that mixes aggregates by name with others, or that has no names for them."""
    begin = f"aggregate at {caller()}"
    if arguments:
        raise TopologyError(f"{begin}: each aggregate has a name, such as orders=Count(); got {show(arguments[0])}")
    for name, one in options.items():
        if _is_aggregate(one):
            raise TopologyError(f"{begin}: {name}= is an argument of aggregate itself; give {one!r} another name")
    for name, one in chosen.items():
        if isinstance(one, type) and _is_aggregate(one):
            raise TopologyError(f"{begin}: {name}= takes an aggregate, not its class; write {one.__name__}()")
        if not _is_aggregate(one):
            raise TopologyError(
                f"{begin}: {name}= takes an aggregate such as Count() or Sum('amount') beside the others; got "
                f"{show(one)} of type {type(one).__name__}{nearest(name, OPTIONS)}"
            )
        if name.startswith("_") or "__" in name or not name.isidentifier():
            raise TopologyError(
                f"{begin}: {name!r} is no name for a field; take letters, digits and single underscores between them"
            )


def together_of(value: Serde, chosen: dict[str, NamedAggregate], retracts: bool) -> Together:
    """Return the aggregates of values of a type.

    Raises:
        TopologyError: one of them does not fit the type, or a grouped table.
    """
    where = caller()
    bound = [one.bound(value, where, retracts) for one in chosen.values()]
    return Together(tuple(chosen), tuple(one for one, _ in bound), tuple(one for _, one in bound), retracts)


def _aggregation(together: Together, where: str) -> nodes.Aggregation:
    """Return aggregates by name as an aggregation with functions."""

    def function(call: Any) -> UserFunction:
        return UserFunction(call, 3, columnar=False, where=where, method="aggregate")

    return nodes.Aggregation(
        kind="aggregate",
        add=function(together.add),
        initialize=_nothing,
        subtract=function(together.subtract) if together.retracts else None,
        merge=function(together.merge),
        together=together,
    )


def _nothing() -> None:
    """Return what is kept before the first record."""


def _narrowing(together: Together, into: Any) -> Narrowing:
    """Return what makes results of what is kept.

    Raises:
        TopologyError: the class for them has other fields.
    """
    if into is None:
        return Narrowing(together.results, None)
    begin = f"aggregate at {caller()}: value={shown_type(into)}"
    hints = get_type_hints(into) if isinstance(into, type) and hasattr(into, "__annotations__") else {}
    named = dict(together.results)
    if set(hints) != set(named):
        raise TopologyError(
            f"{begin} must have the fields {', '.join(named)}, as the aggregates are named; it has "
            f"{', '.join(hints) or 'none'}"
        )
    for name, kind in named.items():
        if Any not in (kind, hints[name]) and optional(hints[name]) != optional(kind):
            raise TopologyError(
                f"{begin}: its field {name} is of type {shown_type(hints[name])}, and "
                f"{together.foldings[together.names.index(name)].called} gives {shown_type(kind)}"
            )
    return Narrowing(together.results, of(into, "value"), into)


def _narrowed(table: Any, narrowing: Narrowing, name: str | None) -> Any:
    """Return the table of results, made of the table of what is kept."""
    graph = table._graph
    node = nodes.TableMapValues(
        name=graph.names.suffixed(name, "-results", names.TABLE_MAP_VALUES),
        parents=(table._node,),
        where=caller(),
        mapper=UserFunction(narrowing, 1, columnar=False, where=caller()),
        value=narrowing.serde,
    )
    return type(table)(graph, graph.add(node), table._key, narrowing.serde)
