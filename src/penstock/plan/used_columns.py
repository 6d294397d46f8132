"""The columns of records that a function uses; unused columns are not decoded."""

from __future__ import annotations

from penstock.plan.expressions.typed import Construction, Evaluation
from penstock.plan.fields import Field
from penstock.plan.functions import UserFunction

Columns = frozenset[str]
KEY: Columns = frozenset(("key",))
VALUE: Columns = frozenset(("value",))
BOTH: Columns = KEY | VALUE
FIELDS: Columns = frozenset(("fields",))
"""The plain fields of values, and nothing else of these."""
NEITHER: Columns = frozenset()


def columns_of(function: UserFunction | Field | None) -> Columns:
    """The columns that are decoded for a function of (value) or (key, value)."""
    if function is None or isinstance(function, Field) or function.columnar:
        return NEITHER
    if isinstance(function.call, Evaluation | Construction) and function.call.is_flat:
        return FIELDS
    return VALUE if function.arity == 1 else BOTH


def columns_of_joiner(joiner: UserFunction) -> Columns:
    """The columns that are decoded for a function of two values, or of a key and two values."""
    return VALUE if joiner.arity == 2 else BOTH
