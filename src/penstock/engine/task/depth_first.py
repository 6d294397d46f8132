"""Runs records through a task's operators depth first, like ``forward`` in Kafka Streams.

This is used where a processor shares a store with a step of the DSL, because there the order is visible. Each record,
and each result of each step, goes down to the end before the next one, child by child. Elsewhere a chunk goes through
one step after the other (``chunks.py``), with the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from penstock.columns.batch import NO_RECORD, Batch, merge
from penstock.engine.task.steps import Gathered, Inlet, Outputs, Own, Step
from penstock.engine.task.wiring import Wiring
from penstock.ops.core.arrivals import Arrivals
from penstock.ops.core.context import Context
from penstock.ops.core.operator import Collector, Operator, TwoSided
from penstock.ops.foreign_key.announce import Announce
from penstock.ops.foreign_key.foreign_table_join import ForeignTableJoin
from penstock.ops.foreign_key.subscription_send import SubscriptionSend
from penstock.ops.processors.depth_first import DepthFirstProcess
from penstock.ops.processors.transform_values import TransformValues
from penstock.ops.processors.views import RecordView
from penstock.plan.passes.stores import TableFacts
from penstock.processor import STREAM_TIME, WALL_CLOCK_TIME, PunctuationType
from penstock.state.clock import StreamTime

_AT_LAST = SubscriptionSend | ForeignTableJoin | Announce
"""Steps that see all changes a record made to the tables of a foreign-key join, after the record is done. Their output
goes into topics.
"""
_CALLED_HERE = DepthFirstProcess | TransformValues
"""Operators whose punctuations are called one by one, interleaved with those of others."""


class _Child(NamedTuple):
    """A step that receives another step's output."""

    number: int
    inlet: Inlet
    """The inlet through which it receives it."""
    is_right: bool
    """Whether the other step is its second input."""


class _Down(Collector):
    """Passes a step's output to its children: each record goes down to the end before the next.

    Args:
        children: those steps.
        views: the views of the stores that the step uses.
        to: runs one record through a child, and its output further down.
    """

    def __init__(
        self,
        children: Sequence[_Child],
        views: Sequence[RecordView],
        is_seen: bool,
        to: Callable[[_Child, Batch], None],
    ):
        self._children = children
        self._views = views
        self.is_seen = is_seen
        self._to = to

    def emit(self, batch: Batch | None, branch: int | None = None) -> None:
        if batch is None or not len(batch):
            return
        self.sync()
        children = [child for child in self._children if branch is None or child.inlet.branch == branch]
        for row in range(len(batch)):
            one = batch if len(batch) == 1 else batch.slice(row, row + 1)
            for child in children:
                self._to(child, one)

    def sync(self) -> None:
        """Make writes visible in the step's stores, in both directions."""
        for view in self._views:
            view.sync()


class DepthFirst:
    """Runs records through the steps of a task, one after the other.

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
        facts: TableFacts,
    ):
        self._steps = steps = wiring.steps
        self._numbers = {step.part.name: number for number, step in enumerate(steps)}
        self._own_sources = wiring.own_sources
        self._context = context
        self._clock = clock
        self._views = [*wiring.views.values()]
        self._keeps_notes = any(step.part.node in facts.silent for step in steps)
        self._outs = [self._out(wiring, number, facts) for number in range(len(steps))]
        self._came = came
        self._outputs: Outputs = {}
        self._at_last: dict[int, list[Batch]] = {}
        self._processors = [s.operator for s in steps if isinstance(s.operator, DepthFirstProcess)]
        self._called = [step.operator for step in steps if isinstance(step.operator, _CALLED_HERE)]
        self._ending = [number for number, step in enumerate(steps) if _ends_chunks(step.operator)]
        for step, out in zip(steps, self._outs, strict=True):
            if isinstance(step.operator, DepthFirstProcess):
                step.operator.down = out

    def _out(self, wiring: Wiring, number: int, facts: TableFacts) -> _Down:
        stores = [_stores(step, facts) for step in wiring.steps]
        is_seen = not self._keeps_notes and _is_seen_behind(stores, number, wiring.below)  # notes have all its writes
        is_processor = isinstance(wiring.steps[number].operator, DepthFirstProcess)
        names = [] if is_processor else sorted(stores[number] & wiring.views.keys())
        views = [wiring.views[name] for name in names]
        return _Down(list(_children(wiring.steps, number, wiring.below[number])), views, is_seen, self._to)

    def take(self, source: str, record: Batch) -> None:
        """Run one record through, and call the punctuations that are then due."""
        number = self._numbers[source]
        step = self._steps[number]
        with self._open():
            self._came(step, record)
            read = Gathered()
            step.operator.step(record, read)
            came, is_own = read.batch(), number in self._own_sources
            if is_own:
                self._context.chunk.arrivals = Arrivals.of([] if came is None else [came], self._clock)
            self._outs[number].emit(came)
            if is_own:
                self._call_due(STREAM_TIME, int(record.position[0]), self._clock.now)
            self._finish()

    def give(self, own: Own) -> None:
        """Run down the records that steps send on their own."""
        with self._open():
            for number, send in own.items():
                if number not in self._ending:
                    send(self._outs[number])
            self._finish()

    def punctuate(self) -> None:
        """Call the punctuations that are due by the wall clock."""
        with self._open():
            self._call_due(WALL_CLOCK_TIME, NO_RECORD, self._context.facts.wall_clock_ms())
            self._finish()

    def take_outputs(self) -> Outputs:
        """Return what has reached the sinks since the last call."""
        outputs, self._outputs = self._outputs, {}
        return outputs

    # --- on the way ----------------------------------------------------------------------------------------------

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Context in which one record, or a step's own output, is running."""
        chunk = self._context.chunk
        chunk.begin()
        chunk.is_depth_first = True
        for processor in self._processors:
            processor.is_depth_first = True
        try:
            for view in self._views:
                view.hold()
            yield
            for view in self._views:
                view.release()
            chunk.end()
        except BaseException:
            for view in self._views:
                view.abandon()
            self._outputs, self._at_last = {}, {}
            raise
        finally:
            chunk.is_depth_first = False
            for processor in self._processors:
                processor.is_depth_first, processor.failure = False, None

    def _to(self, child: _Child, batch: Batch) -> None:
        """Run one record through a step, and its output further down."""
        batch = child.inlet.taken(batch)
        if not len(batch):
            return
        step = self._steps[child.number]
        self._came(step, batch)
        operator = step.operator
        if isinstance(operator, DepthFirstProcess):
            operator.receive(batch)
        elif step.part.kind == "sink":
            sent = Gathered()
            operator.step(batch, sent)
            if (result := sent.batch()) is not None:
                self._outputs.setdefault(step.part.name, []).append(result)
        elif isinstance(operator, _AT_LAST):
            self._at_last.setdefault(child.number, []).append(batch)
        else:
            self._put_off_no_more(step)
            out = self._outs[child.number]
            out.sync()
            if isinstance(operator, TwoSided):
                operator.step_both(None if child.is_right else batch, batch if child.is_right else None, out)
            else:
                operator.step(batch, out)
            out.sync()  # it may have written without sending anything

    def _finish(self) -> None:
        """Run the steps that wait until the record is otherwise done."""
        for number in sorted({*self._at_last, *self._ending}):
            operator, waiting = self._steps[number].operator, self._at_last.pop(number, [])
            if waiting:
                operator.step(merge(waiting), self._outs[number])
            operator.end_of_chunk(self._outs[number])

    def _put_off_no_more(self, step: Step) -> None:
        """Write what other steps have put off, so that this step finds it in its stores."""
        chunk = self._context.chunk
        if not self._keeps_notes:
            chunk.written.clear()
        for store in step.part.stores if chunk.puts else ():
            chunk.write_put_off(store)

    # --- punctuations --------------------------------------------------------------------------------------------

    def _call_due(self, type_: PunctuationType, position: int, now: int) -> None:
        """Call all due punctuations, earliest first."""
        while self._called:
            due = [(at, number) for number, one in enumerate(self._called) if (at := one.next_at(type_)) is not None]
            at, number = min(due, default=(now + 1, 0))
            if at > now:
                return
            self._called[number].call_next(type_, position, now)


def _children(steps: Sequence[Step], number: int, below: Sequence[int]) -> Iterator[_Child]:
    for child in below:
        side, inlet = next((i, inlet) for i, inlet in enumerate(steps[child].inlets) if inlet.above == number)
        yield _Child(child, inlet, is_right=side == 1)


def _is_seen_behind(stores: Sequence[set[str]], number: int, below: Sequence[Sequence[int]]) -> bool:
    """Return whether a step below another uses its store, and so sees when each of its results is written."""
    found, open_ = set[int](), [number]
    while open_:
        new = [child for child in below[open_.pop()] if child not in found]
        found.update(new)
        open_ += new
    return any(stores[number] & stores[one] for one in found)


def _stores(step: Step, facts: TableFacts) -> set[str]:
    """Return the names of the stores that a step uses."""
    own = facts.stores.get(step.part.node)
    return {*step.part.stores, *(() if own is None else (own.name,))}


def _ends_chunks(operator: Operator) -> bool:
    """Return whether an operator may send something when a chunk ends."""
    return not isinstance(operator, _CALLED_HERE) and type(operator).end_of_chunk is not Operator.end_of_chunk
