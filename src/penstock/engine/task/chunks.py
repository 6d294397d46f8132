"""Runs whole chunks through a task's operators: each step processes all of a chunk before the next one does.

A step reads the output of the steps above it from their collectors, merged in processing order. Results that are not
merged with others on their way may be passed down in pieces, so that a large output need not fit into memory at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.columns.batch import Batch, merge
from penstock.engine.task.steps import Gathered, Inlet, Inputs, Outputs, Own, Step, Write
from penstock.engine.task.wiring import Wiring
from penstock.ops.core.arrivals import Arrivals
from penstock.ops.core.context import Context
from penstock.ops.core.operator import TwoSided
from penstock.state.clock import StreamTime

_BURST = 32_768
"""How many results that one record releases at once are passed down together."""


class _InPieces(Gathered):
    """The output of a step that is merged with no other: each piece is passed down as soon as the next one exists."""

    sends_at_once = True

    def __init__(self, send: Callable[[Gathered], None]):
        super().__init__()
        self._send = send

    def emit(self, batch: Batch | None, branch: int | None = None) -> None:
        if batch is None:
            return
        for first in range(0, len(batch), _BURST):
            if self.pieces:
                self._send(self)
                self.pieces.clear()
            piece = batch if len(batch) <= _BURST else batch.slice(first, min(first + _BURST, len(batch)))
            super().emit(piece, branch)


@dataclass
class _Way:
    """The progress of one chunk through the steps.

    Attributes:
        write: takes results that reach the sinks before the chunk is finished.
    """

    own: Own
    write: Write
    inputs: Inputs = field(default_factory=dict)
    turn: int = 0
    """The number of the next step."""
    given: dict[int, Gathered] = field(default_factory=dict)
    """The output of the steps, by step number."""
    outputs: Outputs = field(default_factory=dict)

    def coming(self, inlets: Sequence[Inlet]) -> Batch | None:
        """Return the input of some inlets, as one batch in processing order."""
        batches = []
        for inlet in inlets:
            batch = self.given[inlet.above].batch(inlet.branch)
            if batch is not None and len(batch := inlet.taken(batch)):
                batches.append(batch)
        if not batches:
            return None
        return batches[0] if len(batches) == 1 else merge(batches)


class Chunks:
    """Runs chunks through the steps of a task.

    Args:
        clock: the task's stream time.
        came: called with each batch that reaches a step.
    """

    def __init__(
        self,
        wiring: Wiring,
        context: Context,
        clock: StreamTime,
        came: Callable[[Step, Batch], None],
    ):
        self._steps = wiring.steps
        self._context = context
        self._clock = clock
        self._came = came
        self._is_hosting = bool(wiring.hosted)
        self._own_sources = wiring.own_sources
        self._sources = 1 + max((n for n, step in enumerate(self._steps) if step.part.kind == "source"), default=-1)
        self._groups = wiring.groups
        self.way: _Way | None = None
        """The chunk that goes around a cycle and has not passed all steps yet."""

    def take(self, inputs: Inputs, own: Own, write: Write) -> None:
        """Run a chunk through all steps, with the records that steps send on their own."""
        self._context.chunk.begin()
        way = _Way(own, write, inputs)
        self._go_on(way, len(self._steps))
        self._context.chunk.end()
        write(way.outputs)

    def lap(self, inputs: Inputs, own: Own, until: int, is_last: bool) -> Outputs:
        """Run a chunk that goes around a cycle up to step number `until`. Return what has reached the sinks.

        Args:
            inputs: the records that have come by now, for sources whose turn comes before that step.
            is_last: whether this is the chunk's last lap. All steps here may have had their turn before it.
        """
        if self.way is None:
            self._context.chunk.begin()
            self.way = _Way(own, lambda outputs: None)
        way = self.way
        way.inputs.update(inputs)
        self._go_on(way, until)
        if is_last:
            self._context.chunk.end()
            self.way = None
        return way.outputs

    def forget(self) -> None:
        """Forget the running chunk."""
        self.way = None

    def _go_on(self, way: _Way, until: int) -> None:
        while way.turn < until:
            if way.turn == self._sources and self._is_hosting:
                self._note_arrivals(way)
            self._take_turn(way, way.turn)
            way.turn += 1

    def _take_turn(self, way: _Way, number: int) -> None:
        """Run a step on the input that has reached it."""
        step = self._steps[number]
        out = _InPieces(lambda piece: self._aside(way, number, piece)) if step.alone else Gathered()
        way.given[number] = out
        if isinstance(step.operator, TwoSided):
            sides = [way.coming([inlet]) for inlet in step.inlets]
            for batch in sides:
                if batch is not None:
                    self._came(step, batch)
            if any(batch is not None for batch in sides):
                step.operator.step_both(sides[0], sides[1] if len(sides) > 1 else None, out)
        else:
            batch = way.inputs.get(step.part.name) if step.part.kind == "source" else way.coming(step.inlets)
            if batch is not None:
                self._came(step, batch)
                step.operator.step(batch, out)
        if number in way.own:
            way.own[number](out)
        if number in self._groups:
            group, members = self._groups[number]
            group.finish([way.given[member] for member in members])
        if step.part.kind == "sink" and (result := out.batch()) is not None:
            way.outputs.setdefault(step.part.name, []).append(result)

    def _aside(self, way: _Way, number: int, piece: Gathered) -> None:
        """Run a piece of a step's output down to the end, while the other steps wait."""
        aside = _Way({}, way.write, given={number: piece})
        for below in self._steps[number].alone:
            self._take_turn(aside, below)
        way.write(aside.outputs)

    def _note_arrivals(self, way: _Way) -> None:
        """Note the records that came out of the sources, for operators that ask for stream time."""
        came = [batch for n in self._own_sources if (batch := way.given[n].batch()) is not None]
        self._context.chunk.arrivals = Arrivals.of(came, self._clock)
