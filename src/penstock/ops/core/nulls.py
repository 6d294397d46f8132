"""Records that lack a key or a value, where an operator needs one."""

from __future__ import annotations

from penstock.columns.batch import Batch
from penstock.ops.core.context import Context


def drop_nulls(node: str, context: Context, batch: Batch, *columns: str) -> Batch:
    """Return the batch without the records in which one of these columns is null; they are counted as dropped."""
    for name in columns:
        missing = getattr(batch, name).null_mask()
        if missing is not None:
            context.drop(node, batch.position[missing], f"null-{name}")
            batch = batch.keep(~missing)
    return batch


def complete(node: str, context: Context, batch: Batch, *columns: str) -> Batch:
    """Return the batch without the records whose key or value does not encode, and without those that ``drop_nulls``
    drops."""
    return drop_nulls(node, context, context.encoded(node, batch, "key", "value"), *columns)
