"""A sub-topology's operators, wired up: a chunk goes in at the sources and what reaches the sinks comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from penstock.batch import Batch, Routed, merge
from penstock.engine.shared.circles import NO_CIRCLE, Circle
from penstock.engine.task.depth_first import DepthFirst
from penstock.engine.task.runs import Runs
from penstock.engine.task.steps import Inputs, Outputs, Own, Result, Step
from penstock.engine.task.wiring import Wiring, wire
from penstock.ops.core.context import Context
from penstock.ops.core.failures import Known
from penstock.ops.core.operator import Operator, TwoSided
from penstock.ops.processors.arrivals import Arrivals
from penstock.ops.processors.group import Group, Member
from penstock.ops.processors.operator import Process
from penstock.ops.processors.transform_values import TransformValues
from penstock.ops.processors.views import Views
from penstock.ops.stateless.split import Branch
from penstock.plan.passes.makers import makers, source_types
from penstock.plan.physical import SubTopology
from penstock.plan.timed_nodes import timed_nodes
from penstock.plan.topology import Topology
from penstock.state.task_state import TASK_TIME, TaskState

_PUNCTUATED = Process | TransformValues
"""The operators in which the user's functions are called because time has come."""

_BURST = 32_768
"""How many results that come at once, because a record lets go of many, go down together."""


@dataclass
class _Way:
    """The way of one chunk through the steps."""

    own: Own
    inputs: Inputs = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    """What came of the steps that have had their turn, each at its number."""
    outputs: Outputs = field(default_factory=dict)
    further: list[tuple[Step, Iterator[Result]]] = field(default_factory=list)
    """The steps whose results go down in pieces, with those behind the first."""


class _Together(NamedTuple):
    """Processors that work as one, and the numbers of their steps."""

    group: Group
    steps: list[int]


class Flow:
    """Runs chunks through the operators of one task, in topological order.

    Args:
        is_first: whether it is the first task of its sub-topology, which counts the drops of global tables.
        circle: the circle that the sub-topology is part of.
    """

    def __init__(
        self,
        topology: Topology,
        sub: SubTopology,
        state: TaskState,
        context: Context,
        caching: bool,
        is_first: bool = True,
        circle: Circle = NO_CIRCLE,
    ):
        self._circle = circle
        self._on_its_way: _Way | None = None
        """The chunk that goes around the circle."""
        self._state = state
        self._context = context
        context.facts = replace(
            context.facts,
            known=Known(makers(sub), source_types((*sub.parts, *sub.global_parts))),
            looked_up=frozenset(topology.facts.looked_up),
            looked_up_as_of=frozenset(topology.facts.looked_up_as_of),
            joined_completely=frozenset(topology.facts.looked_up_as_of & topology.facts.joined_completely),
        )
        elsewhere = {part.name for part in sub.global_parts} - (sub.counted if is_first else set())
        wiring = wire(topology, sub, circle, state, context, elsewhere, caching)
        self._steps, self._hosted = wiring.steps, wiring.hosted
        self._sharing, self._runs = wiring.sharing, Runs(wiring.sharing)
        self.watching: Callable[[str, Batch], None] | None = None
        """Is shown what reaches each step, where somebody wants to see it."""
        self._counted = {step.part.name for step in self._steps} - elsewhere
        self._processors = [step.operator for step in self._steps if isinstance(step.operator, _PUNCTUATED)]
        self._sources = 1 + max((i for i, step in enumerate(self._steps) if step.part.kind == "source"), default=-1)
        self._own_sources = {part.name for part in sub.parts if part.kind == "source"}
        self._groups = dict(self._grouped(wiring))
        self._depth_first: DepthFirst | None = None
        if self._sharing.depth_first:
            self._depth_first = DepthFirst(
                self._steps,
                wiring.below,
                self._own_sources,
                context,
                state.clock(TASK_TIME),
                views=wiring.views,
                facts=topology.facts,
                came=self._came,
            )

    def step(self, inputs: Inputs) -> Iterator[Outputs]:
        """Run a chunk through. What comes out may come in pieces."""
        singly = any(one.has_stream_time_punctuations for one in self._processors if one.node in self._sharing.parts)
        deep = self._depth_first
        for run in self._runs.of(inputs, singly):
            if deep is not None and (singly or not self._sharing.depth_first.isdisjoint(run)):
                [(source, record)] = run.items()
                deep.take(source, record)
            else:
                yield from self._went_down()
                yield from self._run(run, _end_of_chunk)
        yield from self._went_down()

    def _went_down(self) -> Iterator[Outputs]:
        """What has come out of records that went depth first."""
        if self._depth_first is not None and (outputs := self._depth_first.take_outputs()):
            yield outputs

    def _of_themselves(self, own: Own) -> Iterator[Outputs]:
        """What the steps send on of themselves, and what becomes of it."""
        if self._depth_first is None:
            return self._run({}, own)
        self._depth_first.give(own)
        return self._went_down()

    @property
    def is_on_its_way(self) -> bool:
        """Whether a chunk goes around a circle, and has not come through all steps yet."""
        return self._on_its_way is not None

    def lap(self, inputs: Inputs, number: int) -> Outputs:
        """Have a chunk go on around a circle, up to the end of a lap.

        Args:
            inputs: what has come by now, for sources that have their turn in this lap.

        Returns:
            what goes around the circle further; after the last lap also all else that has come out.
        """
        if self._on_its_way is None:
            self._context.chunk.begin()
            self._on_its_way = _Way(_end_of_chunk)
        way = self._on_its_way
        way.inputs.update(inputs)
        while len(way.results) < len(self._steps) and self._steps[len(way.results)].lap <= number:
            self._take_turn(way)
        sent = [step.part for step in self._steps if step.part.kind == "sink"]
        names = {part.name for part in sent if self._circle.topics.intersection(part.topics)}
        if number < self._circle.last_lap:
            return {name: way.outputs.pop(name) for name in names & way.outputs.keys()}
        self._on_its_way = None
        self._context.chunk.end()
        return way.outputs

    def _grouped(self, wiring: Wiring) -> Iterator[tuple[int, _Together]]:
        """Each group by the number of its last step."""
        for group in wiring.groups:
            steps = [number for number, step in enumerate(self._steps) if step.part.name in group]
            members = {
                number: operator for number in steps if isinstance(operator := self._steps[number].operator, Member)
            }
            views = Views.union(member.views for member in members.values())
            made = Group(self._context, list(members.values()), views)
            for number, member in members.items():
                inner = {i: members[child] for i, child in enumerate(wiring.below[number]) if child in members}
                member.joins(made, inner)
            yield steps[-1], _Together(made, steps)

    # --- processors ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Make the processors, if there are any; else the first chunk does."""
        for one in self._hosted:
            one.start()

    def punctuate(self) -> Iterator[Outputs]:
        """Call the punctuations that are due by the wall clock."""
        if not self._processors:
            return iter(())
        if self._depth_first is not None:
            self._depth_first.punctuate()
            return self._went_down()
        return self._run({}, lambda step: step.operator.punctuate() if isinstance(step.operator, _PUNCTUATED) else None)

    def restart(self) -> None:
        """Make the processors anew: what they have done was rolled back. What was on its way is forgotten."""
        self._on_its_way = None
        for one in self._hosted:
            one.restart()
        if self._depth_first is not None:
            self._depth_first.take_outputs()

    def close(self) -> None:
        """End the lives of the processors."""
        for one in self._hosted:
            one.close()

    # --- what is held back, and time -----------------------------------------------------------------------------

    @property
    def flushes(self) -> bool:
        """Whether anything is held back until the commit."""
        return any(step.operator.flushes for step in self._steps)

    def flush(self) -> Iterator[Outputs]:
        """What the operators held back until the commit."""
        return self._of_themselves(lambda step: step.operator.flush())

    def advance_time(self, advances: dict[str, int]) -> Iterator[Outputs]:
        """Let time go on without records: for some suppressions, and for what has to keep up with them.

        Args:
            advances: their names, and by how many milliseconds.
        """
        nodes = {step.part.name: step.part.node for step in self._steps}
        for name, duration in advances.items():
            for timed in timed_nodes(nodes[name]) if duration else ():
                self._state.clock(timed).go_on(duration)
        return self._of_themselves(lambda step: step.operator.advance_time() if step.part.name in advances else None)

    def _run(self, inputs: dict[str, Batch], own: Own) -> Iterator[Outputs]:
        """Go through the steps once, and then once for each piece of what comes in pieces.

        Args:
            own: what a step sends on of itself, besides what becomes of the records that reach it.
        """
        self._context.chunk.begin()
        way = _Way(own, inputs)
        for _ in self._steps:
            self._take_turn(way)
        self._context.chunk.end()
        yield way.outputs
        for step, pieces in reversed(way.further):
            for piece in pieces:
                yield from self._run({}, _only(step, piece))

    def _take_turn(self, way: _Way) -> None:
        """Have the next step work on a chunk."""
        number = len(way.results)
        step = self._steps[number]
        if number == self._sources and self._hosted:
            self._note_arrivals(way.results)
        pieces = self._results(step, way.inputs, way.results)
        result = _joined(next(pieces, None), way.own(step))
        way.results.append(result)
        if (together := self._groups.get(number)) is not None:
            for member, forwarded in zip(together.steps, together.group.finish(), strict=True):
                way.results[member] = forwarded
        if step.part.kind == "sink" and isinstance(result, Batch) and len(result):
            way.outputs.setdefault(step.part.name, []).append(result)
        if step.in_pieces:
            way.further.append((step, pieces))

    def _note_arrivals(self, results: list[Result]) -> None:
        """The records that came out of the sources, for those who ask for stream time."""
        sources = zip(self._steps, results, strict=False)
        came = [r for step, r in sources if isinstance(r, Batch) and len(r) and step.part.name in self._own_sources]
        self._context.chunk.arrivals = Arrivals.of(came, self._state.clock(TASK_TIME))

    def _results(self, step: Step, inputs: dict[str, Batch], above: list[Result]) -> Iterator[Result]:
        """What becomes of the records that reach a step: all at once, or in pieces."""
        operator = step.operator
        if isinstance(operator, TwoSided):
            sides = zip(step.above, step.branches, strict=True)
            both = [_incoming(operator, [above[a]], (branch,)) for a, branch in sides]
            self._came(step, *both)
            yield operator.step_both(*both)
            return
        if step.part.kind == "source":
            batch = inputs.get(step.part.name)
        else:
            batch = _incoming(operator, [above[a] for a in step.above], step.branches)
        self._came(step, batch)
        if batch is not None and step.in_pieces:
            yield from _bursts(operator.step_in_pieces(batch))
        elif batch is not None:
            yield operator.step(batch)

    def _came(self, step: Step, *batches: Batch | None) -> None:
        """Note how many records reached a step."""
        if step.part.name in self._counted:
            for batch in batches:
                if batch is not None:
                    self._context.commit.processed[step.part.name] += len(batch)
                    if step.part.kind == "source":
                        self._context.see_latency(step.part.name, batch.timestamp)
                    elif self._context.is_traced:
                        for store in step.part.stores:
                            self._context.see_latency(store, batch.timestamp, "state")
                    if self.watching is not None:
                        self.watching(step.part.name, batch)


def _bursts(pieces: Iterable[Result]) -> Iterator[Result]:
    """Results, large pieces of them cut into smaller ones."""
    for piece in pieces:
        if not isinstance(piece, Batch) or len(piece) <= _BURST:
            yield piece
        else:
            for first in range(0, len(piece), _BURST):
                yield piece.slice(first, min(first + _BURST, len(piece)))


def _end_of_chunk(step: Step) -> Result:
    return step.operator.end_of_chunk()


def _only(one: Step, piece: Result) -> Own:
    """A piece of what one step gives, and nothing of the others."""
    return lambda step: piece if step is one else None


def _incoming(
    operator: Operator, above: list[Batch | tuple[Batch, ...] | None], branches: tuple[int | None, ...]
) -> Batch | None:
    """What comes from the steps above, as one batch in processing order."""
    batches = []
    for result, branch in zip(above, branches, strict=True):
        batch = result[operator.index] if isinstance(result, tuple) and isinstance(operator, Branch) else result
        if isinstance(batch, Routed):
            batch = batch.only_to(branch or 0)
        if isinstance(batch, Batch) and len(batch):
            batches.append(batch if branch is None else batch.on_branch(branch))
    if not batches:
        return None
    return batches[0] if len(batches) == 1 else merge(batches)


def _joined(result: Result, own: Result) -> Result:
    """What becomes of records, and what a step sends on of itself."""
    if not isinstance(own, Batch) or not len(own):
        return result
    if isinstance(result, Batch) and len(result):
        return merge([result, own])
    return own
