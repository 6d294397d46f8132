"""``dsl.store.format=HEADERS``: the stores of a topology's tables, windows and joins have headers (KIP-1285)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.plan.kept import Kept, KeptSessions, KeptSide, KeptSlidingWindows, KeptWindows
from penstock.plan.node import NONE_KEPT, ROWS, Node, StoreSpec
from penstock.plan.nodes import Suppress
from penstock.plan.rewriting import Rewriting

_HEADERS: dict[type[Kept], str] = {
    Kept: NONE_KEPT,
    KeptWindows: NONE_KEPT,
    KeptSlidingWindows: NONE_KEPT,
    KeptSessions: NONE_KEPT,
    KeptSide: ROWS,
}
"""By the content of a step's store: what Kafka Streams 4.4 puts beside its values. Tables put no headers."""


class WithHeaders(Rewriting):
    """Gives the stores of steps the format with headers; those that the user described keep theirs."""

    def changes(self, step: Node | StoreSpec) -> dict[str, Any]:
        if isinstance(step, StoreSpec) or step.store is None:
            return {}
        headers = _HEADERS.get(type(step.keeps))
        if isinstance(step, Suppress):
            headers = NONE_KEPT
        spec = step.store
        if headers == NONE_KEPT and spec.in_memory and not isinstance(step, Suppress):
            return {}  # the stores in memory of Kafka Streams' tables have one format
        is_described = spec.shape is not None or spec.supplier is not None
        is_described |= isinstance(step.keeps, KeptSide) and spec.named_by_user
        if headers is None or is_described or spec.is_versioned or spec.headers is not None:
            return {}
        return {"store": replace(spec, headers=headers)}
