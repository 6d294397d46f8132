"""The types with which a topic is read as a table, and how the table is kept: given in a ``Consumed``, in a
``Materialized`` or by keywords."""

from __future__ import annotations

from typing import Any

from penstock.dsl.consumed import Consumed
from penstock.dsl.materialized import Materialized, kept_as
from penstock.errors import TopologyError
from penstock.plan.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.plan.functions import caller
from penstock.plan.options import in_place_of
from penstock.serdes import Serde


def kept_where(
    method: str, key: Any, value: Any, materialized: Materialized | None, store: str | Materialized | None
) -> tuple[Any, Any, Materialized | None]:
    """Return the types of a table, and how it is kept. A ``Materialized`` may come after the topic or after the
    ``Consumed``, where Kafka Streams has it."""
    materialized, key = in_place_of(Materialized, key, materialized, method, "materialized")
    return key, *kept_as(method, value, materialized, store)


def table_types(method: str, read: Consumed[Any, Any], kept: Materialized | None) -> tuple[Serde, Serde]:
    """The types with which a topic is read as a table: the given ones, else those of its ``Materialized``, else the
    defaults."""
    kept = kept or Materialized()
    return (
        _type(method, "key", read.key, kept.key, DEFAULT_KEY),
        _type(method, "value", read.value, kept.value, DEFAULT_VALUE),
    )


def _type(method: str, what: str, read: Serde | None, kept: Serde | None, default: Serde) -> Serde:
    if read is not None and kept is not None and kept != read:
        raise TopologyError(
            f"{method} at {caller()}: {what}= is {read.name}, but the Materialized says {kept.name}: a table is kept "
            "as it is read, so give the type once"
        )
    return read or kept or default
