"""Suppressions (KIP-328)."""

from __future__ import annotations

from penstock.engine.lowering.lowering import Lowering
from penstock.ops.core.operator import Operator
from penstock.ops.suppress.operator import Suppress
from penstock.ops.suppress.timing import UNLIMITED, Limits
from penstock.plan import nodes
from penstock.plan.buffering import SHUT_DOWN, SPILL_TO_DISK
from penstock.state.kinds.buffer import TimeOrderedBuffer


def suppress(node: nodes.Suppress, at: Lowering) -> Operator:
    config = node.suppressed.buffer
    limits = Limits()
    if config.when_full != SPILL_TO_DISK:
        records, nbytes = config.record_limit, config.byte_limit
        limits = Limits(UNLIMITED if records is None else records, UNLIMITED if nbytes is None else nbytes)
    buffer = at.store(node.store, TimeOrderedBuffer)
    final = node.suppressed.time_ms is None
    shuts_down = config.when_full == SHUT_DOWN
    clock = at.state.clock(at.name)
    key, value = node.store.types
    return Suppress(
        at.name,
        at.context,
        buffer,
        clock,
        until_close=final,
        limits=limits,
        shuts_down=shuts_down,
        sends_old=at.sends_old,
        key=key,
        value=value,
    )
