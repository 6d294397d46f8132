"""Connects a sub-topology's operators: a chunk enters at the sources, and the output for the sinks comes out.

Records go in one of two ways: in whole chunks (``chunks.py``), or depth first (``depth_first.py``) where the order is
visible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.columns.batch import Batch
from penstock.engine.shared.cycles import NO_CYCLE, Cycle
from penstock.engine.task.chunks import Chunks
from penstock.engine.task.depth_first import DepthFirst
from penstock.engine.task.runs import runs
from penstock.engine.task.steps import Inputs, Outputs, Own, Step, Write
from penstock.engine.task.wiring import wire
from penstock.ops.core.context import Context
from penstock.ops.core.failures import Known
from penstock.ops.core.lacking import Lacking
from penstock.ops.core.operator import Operator
from penstock.ops.processors.hosting import Hosting
from penstock.plan.named_fields import named_fields
from penstock.plan.passes.makers import makers, places, source_types
from penstock.plan.passes.partitioning import named
from penstock.plan.physical import SubTopology
from penstock.plan.timed_nodes import timed_nodes
from penstock.plan.topology import Topology
from penstock.processor import STREAM_TIME
from penstock.state.task_state import TASK_TIME, TaskState


class Flow:
    """Runs chunks through the operators of one task.

    Args:
        is_first: whether it is the first task of its sub-topology, which counts the drops of global tables.
        cycle: the cycle that the sub-topology is part of.
    """

    def __init__(
        self,
        topology: Topology,
        sub: SubTopology,
        state: TaskState,
        context: Context,
        caching: bool,
        is_first: bool = True,
        cycle: Cycle = NO_CYCLE,
    ):
        self._cycle = cycle
        self._state = state
        self._context = context
        parts = (*sub.parts, *sub.global_parts)
        context.facts = replace(
            context.facts,
            known=Known(makers(sub), source_types(parts), places(parts)),
            looked_up=frozenset(topology.facts.looked_up),
            looked_up_as_of=frozenset(topology.facts.looked_up_as_of),
            joined_completely=frozenset(topology.facts.looked_up_as_of & topology.facts.joined_completely),
        )
        elsewhere = {part.name for part in sub.global_parts} - (sub.counted if is_first else set())
        wiring = wire(topology, sub, cycle, state, context, elsewhere, caching)
        self._steps, self._hosted = wiring.steps, wiring.hosted
        self._sharing = wiring.sharing
        self.watching: Callable[[str, Batch], None] | None = None
        """If set, called with each batch that reaches a step."""
        self._lacking = {
            step.part.name: Lacking(named(step.part.node), paths)
            for step in self._steps
            if step.part.kind == "processor" and (paths := named_fields(step.part.node))
        }
        """The steps that read fields by name, until each field was found or told of."""
        self._counted = {step.part.name for step in self._steps} - elsewhere
        hosting = [s.operator for s in self._steps if isinstance(s.operator, Hosting)]
        self._views = [one.views for one in hosting]
        self._sharing_hosts = [one for one in hosting if one.node in self._sharing.parts]
        self._end_of_chunk = self._of_those_with("end_of_chunk")
        self._punctuations = self._of_those_with("punctuate")
        self._held_back = {n: s.operator.flush for n, s in enumerate(self._steps) if s.operator.flushes}
        self._released = self._of_those_with("release")
        shared = wiring, context, state.clock(TASK_TIME), self._came
        self._chunks = Chunks(*shared)
        self._depth_first = DepthFirst(*shared, topology.facts) if self._sharing.depth_first else None

    def _of_those_with(self, verb: str) -> Own:
        """Return the steps whose operators override a method, to be called without input."""
        operators = enumerate(step.operator for step in self._steps)
        does_nothing = getattr(Operator, verb)
        return {n: getattr(one, verb) for n, one in operators if getattr(type(one), verb) is not does_nothing}

    def step(self, inputs: Inputs, write: Write) -> None:
        """Run a chunk through.

        Args:
            write: takes the output, in pieces.
        """
        if not self._sharing.is_there:
            self._chunks.take(inputs, self._end_of_chunk, write)
            return
        singly = any(one.next_at(STREAM_TIME) is not None for one in self._sharing_hosts)
        deep = self._depth_first
        for run in runs(self._sharing, inputs, singly):
            if deep is not None and (singly or not self._sharing.depth_first.isdisjoint(run)):
                [(source, record)] = run.items()
                deep.take(source, record)
                self._context.look(0)
            else:
                self._write_what_went_down(write)
                self._chunks.take(run, self._end_of_chunk, write)
        self._write_what_went_down(write)

    def _write_what_went_down(self, write: Write) -> None:
        """Write the output of records that went depth first."""
        if self._depth_first is not None and (outputs := self._depth_first.take_outputs()):
            write(outputs)

    def _run(self, own: Own, write: Write) -> None:
        """Run down the records that steps send on their own."""
        if not own:
            return
        if self._depth_first is None:
            self._chunks.take({}, own, write)
        else:
            self._depth_first.give(own)
            self._write_what_went_down(write)

    @property
    def is_on_its_way(self) -> bool:
        """Whether a chunk goes around a cycle and has not passed all steps yet."""
        return self._chunks.way is not None

    def lap(self, inputs: Inputs, number: int) -> Outputs:
        """Run a chunk around a cycle, up to the end of a lap.

        Args:
            inputs: the records that have come by now, for sources that have their turn in this lap.

        Returns:
            the records that continue around the cycle; after the last lap also all other output.
        """
        is_last = number == self._cycle.last_lap
        until = sum(step.lap <= number for step in self._steps)
        outputs = self._chunks.lap(inputs, self._end_of_chunk, until, is_last)
        if is_last:
            return outputs
        sent = [step.part for step in self._steps if step.part.kind == "sink"]
        names = {part.name for part in sent if self._cycle.topics.intersection(part.topics)}
        return {name: outputs.pop(name) for name in names & outputs.keys()}

    # --- processors ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Create the processors, if there are any; otherwise the first chunk does."""
        for one in self._hosted:
            one.start()

    def punctuate(self, write: Write) -> None:
        """Call the punctuations that are due by the wall clock."""
        if self._depth_first is not None:
            self._depth_first.punctuate()
            self._write_what_went_down(write)
        else:
            self._run(self._punctuations, write)

    def restart(self) -> None:
        """Create the processors again, because their work was rolled back. A running chunk is forgotten."""
        self._chunks.forget()
        for one in self._hosted:
            one.restart()
        if self._depth_first is not None:
            self._depth_first.take_outputs()

    def close(self) -> None:
        """Close the processors."""
        for one in self._hosted:
            one.close()

    # --- what is held back, and time -----------------------------------------------------------------------------

    def release(self, write: Write) -> None:
        """Send the results that the operators hold back until the commit, and that no further record can change."""
        self._run(self._released, write)

    def flush(self, write: Write) -> None:
        """Send what the operators held back until the commit, and commit what processors have left open."""
        self._run(self._held_back, write)
        for views in self._views:
            views.commit_transactions()

    def advance_time(self, advances: dict[str, int], write: Write) -> None:
        """Advance time without records, for some suppressions and for the steps that must keep up with them.

        Args:
            advances: their names, and by how many milliseconds.
        """
        nodes = {step.part.name: step.part.node for step in self._steps}
        for name, duration in advances.items():
            for timed in timed_nodes(nodes[name]) if duration else ():
                self._state.clock(timed).go_on(duration)
        self._run({n: s.operator.advance_time for n, s in enumerate(self._steps) if s.part.name in advances}, write)

    def _came(self, step: Step, batch: Batch) -> None:
        """Count the records that reached a step."""
        if step.part.name not in self._counted:
            return
        self._context.commit.processed[step.part.name] += len(batch)
        if step.part.kind == "source":
            self._context.see_latency(step.part.name, batch.timestamp)
        elif self._context.is_traced:
            for store in step.part.stores:
                self._context.see_latency(store, batch.timestamp, "state")
        if (lacking := self._lacking.get(step.part.name)) is not None:
            lacking.look(batch.value)
            if lacking.is_done:
                del self._lacking[step.part.name]
        if self.watching is not None:
            self.watching(step.part.name, batch)
