"""Users' processors and transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.engine.lowering.lowering import Lowering
from penstock.ops.processors.context import Surroundings, TaskProcessorContext
from penstock.ops.processors.depth_first import DepthFirstContext, DepthFirstProcess
from penstock.ops.processors.group import Member, MemberContext
from penstock.ops.processors.operator import Process
from penstock.ops.processors.transform_values import TransformValues
from penstock.ops.processors.views import RecordView, Views
from penstock.ops.tables.table import TableWriter
from penstock.plan import nodes
from penstock.plan.node import ROWS, Node, StoreSpec
from penstock.plan.passes.stores import TableFacts
from penstock.state.records import record_view
from penstock.state.records import view as records
from penstock.state.store import StateStore
from penstock.state.task_state import TASK_TIME
from penstock.values.window_ends import Sized, WindowEnds

_PROCESSES: dict[str, tuple[type[Process], type[TaskProcessorContext]]] = {
    "": (Process, TaskProcessorContext),
    "group": (Member, MemberContext),
    "depth first": (DepthFirstProcess, DepthFirstContext),
}


def process(node: nodes.Process, at: Lowering) -> Process:
    views = _views(node, at)
    kind, context = _PROCESSES[at.gait]
    made = kind(
        at.name,
        at.context,
        node.supplier,
        (node.key, node.value),
        views,
        _contexts(at, views, context),
        number=at.number,
        keeps_keys=not node.changes_key,
    )
    at.hosted.append(made)
    return made


def global_store(node: nodes.GlobalStore, at: Lowering) -> Process:
    views = Views({node.store.name: _view(at, node.store.name)}, {})
    types = node.key, node.value
    made = Process(at.name, at.context, node.supplier, types, views, _contexts(at, views), number=at.number)
    at.hosted.append(made)
    return made


def transform_values(node: nodes.TableTransformValues, at: Lowering) -> TransformValues:
    return transformer(node, at, at.sends_old, at.table_store(), is_step=True)


def transformer(
    node: nodes.TableTransformValues, at: Lowering, sends_old: bool, store: TableWriter | None, is_step: bool = False
) -> TransformValues:
    """Return a new transformer: as in Kafka Streams, each lookup of the table's values has its own."""
    views = _views(node, at)
    made = TransformValues(
        node.name, at.context, node.supplier, node.value, sends_old, store, views, _contexts(at, views), is_step
    )
    at.hosted.append(made)
    return made


def _contexts(
    at: Lowering, views: Views, kind: type[TaskProcessorContext] = TaskProcessorContext
) -> Callable[[], TaskProcessorContext]:
    """Return a function that makes the contexts of new processors."""
    clock = at.state.clock
    clock(TASK_TIME)  # exists from the first commit on, as a sign that processors were started
    around = Surroundings(at.state.app_configs, at.state.folder_of_processors)

    def new_context() -> TaskProcessorContext:
        return kind(at.name, at.context, views.by_name, at.children, clock, clock(TASK_TIME), around)

    return new_context


def _views(node: Node, at: Lowering) -> Views:
    return Views(
        {name: _view(at, name) for name in node.store_names},
        {name: _view(at, name) for name in _global_stores(at)},
    )


def _view(at: Lowering, name: str) -> RecordView:
    """Return the record view of a store, which all processors of the task share."""
    if name not in at.views:
        at.views[name] = new_view(at.facts, at.state.stores[name])
    return at.views[name]


def new_view(facts: TableFacts, store: StateStore) -> records.RecordView[Any]:
    """Return a new record view of a store."""
    spec = facts.named()[store.name]
    ends = _window_ends(facts, spec)
    headers = None if spec.headers is None else spec.headers == ROWS
    return record_view(store, *spec.types, timestamped=spec.is_timestamped, window_size=ends, headers=headers)


def _window_ends(facts: TableFacts, spec: StoreSpec) -> WindowEnds:
    """Return where a store's windows end: as described, or as given by the step that fills it."""
    if spec.window_size is not None:
        return Sized(spec.window_size)
    filled = (node.keeps.window_ends for node, other in facts.stores.items() if other is spec)
    return max(filled, key=lambda ends: ends.longest, default=Sized(0))


def _global_stores(at: Lowering) -> list[str]:
    stores = at.facts.stores.items()
    return [spec.name for node, spec in stores if node.is_global and spec.name in at.state.stores]
