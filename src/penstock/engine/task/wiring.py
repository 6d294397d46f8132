"""Builds the steps of a task, orders and connects them, once for each start."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.lowering.lower import lower
from penstock.engine.lowering.lowering import Lowering
from penstock.engine.shared.cycles import Cycle
from penstock.engine.shared.groups import groups_of
from penstock.engine.shared.reach import parts_below
from penstock.engine.shared.sharing import Sharing
from penstock.engine.task.steps import Inlet, Step
from penstock.ops.core.context import Context
from penstock.ops.core.operator import Operator
from penstock.ops.processors.group import Group, Member
from penstock.ops.processors.hosting import Hosting
from penstock.ops.processors.views import RecordView, Views
from penstock.ops.stateless.split import Branch
from penstock.plan import nodes
from penstock.plan.passes.decoding import decoded_columns
from penstock.plan.passes.makers import made_types
from penstock.plan.physical import Part, SubTopology
from penstock.plan.topology import Topology
from penstock.state.task_state import TaskState


@dataclass(frozen=True)
class Wiring:
    """The steps of a task and their connections."""

    steps: list[Step]
    """Each after the steps whose results it reads, or whose tables it looks up."""
    below: list[list[int]]
    """For each step the numbers of those below it, in the order in which a record goes down its branches."""
    groups: dict[int, tuple[Group, list[int]]]
    """The processors that run as one, with the numbers of their steps, keyed by the last of these."""
    sharing: Sharing
    """Which steps share stores, and so which records go depth first."""
    views: dict[str, RecordView]
    """The record views of the stores that processors have."""
    own_sources: list[int]
    """The sources whose records advance the task's stream time."""
    hosted: list[Hosting]
    """The operators that host user objects which must be started and closed."""


def wire(
    topology: Topology,
    sub: SubTopology,
    cycle: Cycle,
    state: TaskState,
    context: Context,
    elsewhere: set[str],
    caching: bool,
) -> Wiring:
    """Build the steps of a task.

    Args:
        cycle: the cycle that the sub-topology is part of.
        elsewhere: the steps of global tables whose records another task counts.
    """
    decodes = decoded_columns(sub)
    groups, sharing = _gaits(sub)
    parts = _in_order(sub.working_parts, groups)
    parts.sort(key=lambda part: cycle.turn_of(part.name))
    numbers = {part.name: number for number, part in enumerate(parts)}
    below = _below(sub, numbers)
    reached = parts_below(parts)
    uncounted = context.uncounted()
    made = made_types(topology.sub_topologies)
    wiring = Wiring([], below, {}, sharing, {}, [numbers[one.name] for one in sub.parts if one.kind == "source"], [])
    for number, part in enumerate(parts):
        operator = lower(
            Lowering(
                part,
                topology.facts,
                decodes.get(part.name, ()),
                state,
                uncounted if part.name in elsewhere else context,
                caching,
                made=made,
                children=tuple(parts[child].name for child in below[number]),
                number=number,
                views=wiring.views,
                gait=_gait(part, groups, sharing),
                hosted=wiring.hosted,
            )
        )
        inlets = tuple(_inlet(below, numbers[name], number, operator) for name in part.predecessors)
        wiring.steps.append(
            Step(
                part,
                operator,
                inlets,
                alone=_alone(part, parts, reached[part.name]) if cycle.lap is None else (),
                lap=cycle.turn_of(part.name),
            )
        )
    wiring.groups.update(_joined(wiring, group, context) for group in groups)
    return wiring


def _inlet(below: list[list[int]], above: int, number: int, operator: Operator) -> Inlet:
    turn = below[above].index(number)
    branch = operator.index if isinstance(operator, Branch) else turn
    return Inlet(above, branch, turn if len(below[above]) > 1 else None)


def _joined(wiring: Wiring, group: frozenset[str], context: Context) -> tuple[int, tuple[Group, list[int]]]:
    """Return the number of the last step of a group, and the group with the numbers of all its steps."""
    steps = [(number, step.operator) for number, step in enumerate(wiring.steps) if step.part.name in group]
    members = {number: operator for number, operator in steps if isinstance(operator, Member)}
    made = Group(context, list(members.values()), Views.union(member.views for member in members.values()))
    for number, member in members.items():
        member.joins(made, {i: members[child] for i, child in enumerate(wiring.below[number]) if child in members})
    return max(members), (made, list(members))


def _gaits(sub: SubTopology) -> tuple[list[frozenset[str]], Sharing]:
    """Return the groups of processors, and the sharing of stores apart from them.

    Where records go depth first there are no groups: all processors see there what they see in Kafka Streams.
    """
    groups = groups_of(sub)
    sharing = Sharing(sub, groups)
    return ([], Sharing(sub, [])) if sharing.depth_first else (groups, sharing)


def _gait(part: Part, groups: list[frozenset[str]], sharing: Sharing) -> str:
    """Return how the records of a processor go, see ``Lowering``."""
    if sharing.depth_first:
        return "depth first"
    return "group" if any(part.name in group for group in groups) else ""


def _below(sub: SubTopology, number: dict[str, int]) -> list[list[int]]:
    """Return, for each part, the numbers of those below it, in the order in which each record goes down its
    branches.
    """
    below: list[list[int]] = [[] for _ in number]
    for part in sub.working_parts:
        for name in part.predecessors:
            below[number[name]].append(number[part.name])
    return below


def _alone(part: Part, parts: list[Part], below: set[str]) -> tuple[int, ...]:
    """Return the steps below a step with large outputs, if those may be passed down in pieces; else none.

    Large outputs come from suppressions, windows that emit on close, and sliding windows. They may go in pieces if they
    are merged with no others, and no step below looks up tables.
    """
    if any(len(other.predecessors) > 1 for other in parts if other.name in below):
        return ()
    reached = {part.name} | below
    theirs = {topic for other in parts if other.kind == "sink" and other.name in reached for topic in other.topics}
    others = {topic for other in parts if other.kind == "sink" and other.name not in reached for topic in other.topics}
    is_seen = any(reached & set(other.reads) for other in parts)
    is_timed = any(other.node.hosts for other in parts if other.name in reached)
    gives = isinstance(part.node, nodes.SlidingAggregate) or part.node.hold is not None
    is_alone = gives and not is_seen and not is_timed and not theirs & others
    return tuple(number for number, other in enumerate(parts) if other.name in below) if is_alone else ()


def _in_order(parts: tuple[Part, ...], groups: list[frozenset[str]]) -> list[Part]:
    """Return the parts in topological order.

    Sources come first, every table before the joins that look it up, and the processors of a group after all their
    inputs, without others in between.
    """
    by_name = {part.name: part for part in parts}
    together = {name: [part for part in parts if part.name in group] for group in groups for name in group}
    ordered = {part.name: part for part in parts if part.kind == "source"}

    def add(part: Part) -> None:
        members = together.get(part.name, [part])
        if part.name not in ordered:
            for name in (name for one in members for name in (*one.reads, *one.predecessors)):
                if by_name[name] not in members:
                    add(by_name[name])
            ordered.update((one.name, one) for one in members)

    for part in parts:
        add(part)
    return list(ordered.values())
