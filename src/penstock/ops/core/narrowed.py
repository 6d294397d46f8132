"""Results of aggregates by name, made of what is kept of them, for whole columns."""

from __future__ import annotations

from penstock.columns.column import BytesColumn, Column, ValuesColumn
from penstock.columns.fields import FieldsColumn
from penstock.plan.aggregates.together import Narrowing
from penstock.serdes.structs import StructSerde


def narrowed(narrowing: Narrowing, kept: Column) -> Column | None:
    """Return the results as a column; None if they go one by one."""
    serde = narrowing.serde
    if not isinstance(serde, StructSerde):  # a class of the user's
        return None
    if isinstance(kept, FieldsColumn):
        return kept.narrowed(len(narrowing.results), serde)
    if isinstance(kept, BytesColumn):  # reading leaves out what is not in the results
        return ValuesColumn(serde.decode_all(kept.encoded()), serde)
    return None
