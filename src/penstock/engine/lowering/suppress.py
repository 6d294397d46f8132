"""Suppressions (KIP-328)."""

from __future__ import annotations

from penstock.engine.lowering.lowering import Lowering
from penstock.ops.core.operator import Operator
from penstock.plan import nodes
from penstock.plan.buffering import SHUT_DOWN, SPILL_TO_DISK
from penstock.state.kinds.buffer import TimeOrderedBuffer


def suppress(node: nodes.Suppress, at: Lowering) -> Operator:
    from penstock.ops.suppress.operator import Suppress  # imports Numba, which others do not need
    from penstock.ops.suppress.rules import FOREVER, Limits

    config, limits = node.suppressed.buffer, Limits()
    if config.when_full != SPILL_TO_DISK:
        records, nbytes = (FOREVER if limit is None else limit for limit in (config.record_limit, config.byte_limit))
        limits = Limits(records, nbytes, config.when_full == SHUT_DOWN)
    if node.store.headers:
        limits = limits._replace(with_headers=True)
    key, value = node.store.types
    return Suppress(
        at.name,
        at.context,
        at.store(node.store, TimeOrderedBuffer),
        at.state.clock(at.name),
        until_close=node.until_close,
        limits=limits,
        sends_old=at.sends_old,
        key=key,
        value=value,
    )
