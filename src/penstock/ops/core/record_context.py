"""What functions that ask for it are told of the record that they work on."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np

from penstock.batch import Batch, pairs_of
from penstock.ops.core.notes import Place, TaskFacts
from penstock.processor import RecordContext


def record_contexts(facts: TaskFacts, batch: Batch) -> list[RecordContext]:
    """The context of each record of a batch."""
    topics, partitions, offsets = zip(*places_of(facts, batch), strict=True) if len(batch) else ((), (), ())
    return list(map(RecordContext, topics, partitions, offsets, batch.timestamp.tolist(), headers_of(batch)))


def headers_of(batch: Batch) -> Any:
    """The headers of each record of a batch."""
    return repeat((), len(batch)) if batch.headers is None else map(pairs_of, batch.headers.to_pylist())


def places_of(facts: TaskFacts, batch: Batch) -> list[Place]:
    """Where each record of a batch came from; for what no record caused, nowhere."""
    positions = batch.position
    if len(positions) < 2 or (np.diff(positions) >= 0).all():
        return facts.places(positions)
    order = np.argsort(positions, kind="stable")
    found: list[Place] = [NOWHERE] * len(positions)
    for row, place in zip(order.tolist(), facts.places(positions[order]), strict=True):
        found[row] = place
    return found


NOWHERE: Place = (None, -1, -1)
