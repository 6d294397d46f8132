"""Cuts chunks into runs, where processors share stores.

Within a run the records reach only one of the steps that share a store. A record that reaches several is a run of its
own, and goes through them depth first (``depth_first.py``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.engine.shared.sharing import Sharing
from penstock.engine.task.steps import Inputs


def runs(sharing: Sharing, inputs: Inputs, singly: bool) -> Iterator[Inputs]:
    """Yield the runs of a chunk, in order.

    Args:
        singly: cut after each record, whatever it reaches.
    """
    if not inputs:
        yield inputs
        return
    names = list(inputs)
    sources = np.repeat(np.arange(len(names)), [len(inputs[name]) for name in names])
    rows = np.concatenate([np.arange(len(inputs[name])) for name in names])
    order = np.argsort(np.concatenate([inputs[name].position for name in names]), kind="stable")
    sources, rows = sources[order], rows[order]
    bounds = list(range(len(sources))) if singly else _bounds(sharing, names, sources)
    for first, end in zip(bounds, [*bounds[1:], len(rows)], strict=True):
        run: Inputs = {}
        for number in np.unique(sources[first:end]).tolist():
            here = rows[first:end][sources[first:end] == number]
            run[names[number]] = inputs[names[number]].take(here)
        yield run


def _bounds(sharing: Sharing, names: list[str], sources: np.ndarray) -> list[int]:
    """Return the numbers of the records at which runs begin."""
    bounds: list[int] = []
    together: set[str] = set()
    stretches = [0, *(np.flatnonzero(np.diff(sources)) + 1).tolist()]
    for first, end in zip(stretches, [*stretches[1:], len(sources)], strict=True):
        name = names[int(sources[first])]
        if name in sharing.depth_first:
            bounds += range(first, end)
            together = {name}
        elif not bounds or sharing.meets(together | {name}):
            bounds.append(first)
            together = {name}
        else:
            together.add(name)
    return bounds
