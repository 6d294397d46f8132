"""Records through a task's operators depth first, as ``forward`` takes them in Kafka Streams.

This is how records go where a processor shares a store with a step of the DSL, for there it shows who comes first: each
record, and each result of each step, goes down to the end before the next one comes, child by child. Elsewhere a chunk
goes through one step after the other (``flow.py``), with the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from penstock.batch import NO_RECORD, Batch, Routed, merge
from penstock.engine.task.steps import Outputs, Own, Result, Step
from penstock.ops.core.context import Context
from penstock.ops.core.operator import Operator, TwoSided
from penstock.ops.foreign_key.announce import Announce
from penstock.ops.foreign_key.foreign_table_join import ForeignTableJoin
from penstock.ops.foreign_key.subscription_send import SubscriptionSend
from penstock.ops.processors.arrivals import Arrivals
from penstock.ops.processors.depth_first import DepthFirstProcess
from penstock.ops.processors.transform_values import TransformValues
from penstock.ops.processors.views import RecordView
from penstock.ops.stateless.split import Branch
from penstock.plan.passes.stores import TableFacts
from penstock.processor import STREAM_TIME, WALL_CLOCK_TIME, PunctuationType
from penstock.state.clock import StreamTime

_AT_LAST = SubscriptionSend | ForeignTableJoin | Announce
"""The steps that are told of all that a record did to the tables of a foreign-key join, when it has done it; what they
send goes into topics."""
_CALLED_HERE = DepthFirstProcess | TransformValues
"""The operators whose punctuations are called one by one, between those of others."""


class _Child(NamedTuple):
    """A step that gets what another one gives."""

    number: int
    branch: int | None
    is_right: bool
    """Whether that is the second of the two steps that it hears of."""


class DepthFirst:
    """Takes records through the steps of a task, one after the other.

    Args:
        steps: in topological order.
        below: for each step the numbers of those behind it, in the order in which a record goes down to them.
        own_sources: the names of the sources whose records move the task's stream time.
        views: the stores of processors, by their names.
        came: is told of what reaches a step.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        below: Sequence[Sequence[int]],
        own_sources: set[str],
        context: Context,
        clock: StreamTime,
        views: Mapping[str, RecordView],
        facts: TableFacts,
        came: Callable[[Step, Batch], None],
    ):
        self._steps = steps
        self._numbers = {step.part.name: number for number, step in enumerate(steps)}
        self._children = [list(_children(steps, number, below[number])) for number in range(len(steps))]
        self._own_sources = own_sources
        self._context = context
        self._clock = clock
        self._views = [*views.values()]
        self._touched = [_touched(step, views, facts) for step in steps]
        self._keeps_notes = any(step.part.node in facts.silent for step in steps)
        stores = [_stores(step, facts) for step in steps]
        self._is_seen_behind = [_is_seen_behind(stores, number, below) for number in range(len(steps))]
        self._came = came
        self._outputs: Outputs = {}
        self._at_last: dict[int, list[Batch]] = {}
        self._processors = [s.operator for s in steps if isinstance(s.operator, DepthFirstProcess)]
        self._called = [step.operator for step in steps if isinstance(step.operator, _CALLED_HERE)]
        self._ending = [number for number, step in enumerate(steps) if _ends_chunks(step.operator)]
        for number, step in enumerate(steps):
            if isinstance(step.operator, DepthFirstProcess):
                step.operator.down = self._down_from(number)

    def take(self, source: str, record: Batch) -> None:
        """Take one record through, and call the punctuations that are due then."""
        number = self._numbers[source]
        step = self._steps[number]
        with self._open():
            self._came(step, record)
            came = step.operator.step(record)
            assert isinstance(came, Batch)
            is_own = source in self._own_sources
            if is_own:
                self._context.chunk.arrivals = Arrivals.of([came] if len(came) else [], self._clock)
            self._down(number, came)
            if is_own:
                self._call_due(STREAM_TIME, int(record.position[0]), self._clock.now)
            self._finish()

    def give(self, own: Own) -> None:
        """Take down what the steps send on of themselves."""
        with self._open():
            for number, step in enumerate(self._steps):
                if number not in self._ending:
                    self._down(number, own(step))
            self._finish()

    def punctuate(self) -> None:
        """Call the punctuations that are due by the wall clock."""
        with self._open():
            self._call_due(WALL_CLOCK_TIME, NO_RECORD, self._context.facts.wall_clock_ms())
            self._finish()

    def take_outputs(self) -> Outputs:
        """What has reached the sinks since the last call."""
        outputs, self._outputs = self._outputs, {}
        return outputs

    # --- on the way ----------------------------------------------------------------------------------------------

    @contextmanager
    def _open(self) -> Iterator[None]:
        """While one record, or what the steps send of themselves, is on its way."""
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

    def _down_from(self, number: int) -> Callable[[Batch], None]:
        return lambda result: self._down(number, result)

    def _down(self, number: int, result: Result) -> None:
        """Take what a step gives to those behind it: each record to all of them before the next."""
        if isinstance(result, Batch):
            for row in range(len(result)):
                one = result if len(result) == 1 else result.slice(row, row + 1)
                for child in self._children[number]:
                    self._to(child, one)
        elif result is not None:
            for child in self._children[number]:
                operator = self._steps[child.number].operator
                assert isinstance(operator, Branch)
                self._to(child, result[operator.index])

    def _to(self, child: _Child, batch: Batch) -> None:
        """Take one record to a step, and what it gives further down."""
        number, branch, is_right = child
        if isinstance(batch, Routed):
            batch = batch.only_to(branch or 0)
        if not len(batch):
            return
        if branch is not None:
            batch = batch.on_branch(branch)
        step = self._steps[number]
        self._came(step, batch)
        operator = step.operator
        if isinstance(operator, DepthFirstProcess):
            operator.receive(batch)
        elif step.part.kind == "sink":
            given = operator.step(batch)
            if isinstance(given, Batch) and len(given):
                self._outputs.setdefault(step.part.name, []).append(given)
        elif isinstance(operator, _AT_LAST):
            self._at_last.setdefault(number, []).append(batch)
        else:
            self._begin_step(number)
            for result in self._results(number, batch, is_right):
                for view in self._touched[number]:
                    view.sync()
                self._down(number, result)

    def _finish(self) -> None:
        """Have those work that wait until the record has done all else."""
        for number in sorted({*self._at_last, *self._ending}):
            operator, waiting = self._steps[number].operator, self._at_last.pop(number, [])
            if waiting:
                self._down(number, operator.step(merge(waiting)))
            self._down(number, operator.end_of_chunk())

    def _begin_step(self, number: int) -> None:
        """Have a step find in its stores what others wrote."""
        chunk = self._context.chunk
        if not self._keeps_notes:
            chunk.written.clear()
        for store in self._steps[number].part.stores if chunk.puts else ():
            chunk.write_put_off(store)
        for view in self._touched[number]:
            view.sync()

    def _results(self, number: int, record: Batch, is_right: bool) -> Iterator[Result]:
        operator = self._steps[number].operator
        if isinstance(operator, TwoSided):
            yield operator.step_both(None, record) if is_right else operator.step_both(record, None)
        elif self._is_seen_behind[number] and not self._keeps_notes:  # notes have all that a step writes
            yield from operator.step_singly(record)
        else:
            yield operator.step(record)

    # --- punctuations --------------------------------------------------------------------------------------------

    def _call_due(self, type_: PunctuationType, position: int, now: int) -> None:
        """Call all punctuations whose time has come, the earliest first."""
        while self._called:
            due = [(at, number) for number, one in enumerate(self._called) if (at := one.next_at(type_)) is not None]
            at, number = min(due, default=(now + 1, 0))
            if at > now:
                return
            self._called[number].call_next(type_, position, now)


def _children(steps: Sequence[Step], number: int, below: Sequence[int]) -> Iterator[_Child]:
    for branch, child in enumerate(below):
        is_right = steps[child].above.index(number) == 1
        yield _Child(child, branch if len(below) > 1 else None, is_right)


def _is_seen_behind(stores: Sequence[set[str]], number: int, below: Sequence[Sequence[int]]) -> bool:
    """Whether a step behind another one uses its store, and so can tell when each of its results is written."""
    found, open_ = set[int](), [number]
    while open_:
        new = [child for child in below[open_.pop()] if child not in found]
        found.update(new)
        open_ += new
    return any(stores[number] & stores[one] for one in found)


def _stores(step: Step, facts: TableFacts) -> set[str]:
    """The names of the stores that a step uses."""
    own = facts.stores.get(step.part.node)
    return {*step.part.stores, *(() if own is None else (own.name,))}


def _touched(step: Step, views: Mapping[str, RecordView], facts: TableFacts) -> list[RecordView]:
    """The views of the stores that a step of the DSL reads or writes."""
    if isinstance(step.operator, DepthFirstProcess):
        return []
    return [views[name] for name in sorted(_stores(step, facts)) if name in views]


def _ends_chunks(operator: Operator) -> bool:
    """Whether there may be something that it sends when a chunk ends."""
    return not isinstance(operator, _CALLED_HERE) and type(operator).end_of_chunk is not Operator.end_of_chunk
