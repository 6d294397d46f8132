"""Versioned tables in foreign-key joins (KIP-914)."""

from __future__ import annotations

from penstock.columns.batch import Changes
from penstock.ops.core.context import Context


def only_latest(node: str, context: Context, batch: Changes, is_versioned: bool) -> Changes:
    """Return the changes of a versioned table that are the latest of their keys; the others are dropped."""
    if batch.latest is None or not is_versioned:
        return batch
    context.drop(node, batch.position[~batch.latest], "out-of-order")
    return batch.only_latest()
