"""Makes the tasks of a test driver, with their state in memory, and runs many records through one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from penstock.columns.batch import Batch, Changes
from penstock.columns.column import null_column
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.stores import stores_of
from penstock.engine.task.flow import Flow
from penstock.engine.task.steps import Outputs
from penstock.ops.core.context import Context
from penstock.ops.core.notes import CommitNotes, TaskFacts
from penstock.plan.physical import Part, SubTopology
from penstock.plan.topology import Topology
from penstock.query.commits import StoreShape
from penstock.query.position import Position
from penstock.query.stores import AnyView, view_of
from penstock.query.versions import Live
from penstock.settings import Settings
from penstock.state.task_context import TaskContext
from penstock.state.task_state import TaskState


def open_task(
    topology: Topology, sub: SubTopology, settings: Settings, facts: TaskFacts
) -> tuple[Flow, TaskState, Context]:
    """Return a task of a sub-topology, named by its facts, with empty stores."""
    place = TaskContext(facts.application_id, facts.task, settings.app_configs())
    state = TaskState(facts.task, stores_of(sub, topology.facts), settings.state, context=place)
    state.open("", -1, -1, lambda commit: [])
    context = Context(facts, CommitNotes(dropped_positions=[]))
    caching, is_first = settings.statestore_cache_max_bytes > 0, TaskId.parse(facts.task).partition == 0
    return Flow(topology, sub, state, context, caching, is_first), state, context


def outputs_of(flow: Flow, part: Part, batch: Batch, sinks: Mapping[str, Part]) -> list[tuple[str, Batch]]:
    """Process records that a source reads, and commit. Return what goes into which topic."""
    if part.node.carries_changes and not isinstance(batch, Changes):
        batch = batch.as_changes(batch.value, batch.timestamp, null_column(len(batch), batch.value.serde))
    pieces: list[Outputs] = []
    flow.step({part.name: batch}, pieces.append)
    flow.flush(pieces.append)
    sent = chain.from_iterable(piece.items() for piece in pieces)
    return [(sinks[name].topics[0], one) for name, batches in sent for one in batches]


def view_over(
    states: Iterable[TaskState], name: str, shape: StoreShape, offsets: Mapping[tuple[str, int], int]
) -> AnyView:
    """Return a store of all tasks, for reading.

    Args:
        offsets: the offset of the last record that was read, by topic and partition.
    """
    stores = {state.task: state.stores[name] for state in states if name in state.stores}
    if shape.format.is_everywhere:
        stores = dict(list(stores.items())[:1])
    position = Position.empty()
    for (topic, partition), offset in offsets.items():
        position = position.with_component(topic, partition, offset)
    return view_of(Live(stores, dict.fromkeys(stores, position)), shape)
