"""Chunks cut into runs, where processors share stores.

Within a run the records reach only one of the steps that share a store; a record that reaches several is a run of its
own, and goes through them depth first (``depth_first.py``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.engine.shared.sharing import Sharing
from penstock.engine.task.steps import Inputs


class Runs:
    """Cuts the chunks of a sub-topology."""

    def __init__(self, sharing: Sharing):
        self._sharing = sharing

    def of(self, inputs: Inputs, singly: bool = False) -> Iterator[Inputs]:
        """A chunk's runs, in order.

        Args:
            singly: cut behind each record, whatever it reaches.
        """
        if not self._sharing.is_there or not inputs:
            yield inputs
            return
        names = list(inputs)
        sources = np.repeat(np.arange(len(names)), [len(inputs[name]) for name in names])
        rows = np.concatenate([np.arange(len(inputs[name])) for name in names])
        order = np.argsort(np.concatenate([inputs[name].position for name in names]), kind="stable")
        sources, rows = sources[order], rows[order]
        bounds = self._bounds(names, sources, singly)
        for first, end in zip(bounds, [*bounds[1:], len(rows)], strict=True):
            run: Inputs = {}
            for number in np.unique(sources[first:end]).tolist():
                here = rows[first:end][sources[first:end] == number]
                run[names[number]] = inputs[names[number]].take(here)
            yield run

    def _bounds(self, names: list[str], sources: np.ndarray, singly: bool) -> list[int]:
        """The numbers of the records with which runs begin."""
        if singly:
            return list(range(len(sources)))
        bounds: list[int] = []
        together: set[str] = set()
        stretches = [0, *(np.flatnonzero(np.diff(sources)) + 1).tolist()]
        for first, end in zip(stretches, [*stretches[1:], len(sources)], strict=True):
            name = names[int(sources[first])]
            if name in self._sharing.depth_first:
                bounds += range(first, end)
                together = {name}
            elif not bounds or self._sharing.meets(together | {name}):
                bounds.append(first)
                together = {name}
            else:
                together.add(name)
        return bounds
