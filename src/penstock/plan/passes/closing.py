"""The time after the end of a window from which no earlier step can change it."""

from __future__ import annotations

from penstock.errors import PenstockWarning, TopologyError
from penstock.plan.node import Node
from penstock.plan.windows import UnlimitedWindows
from penstock.usage.callers import caller, warn_caller


def window_wait(node: Node) -> int:
    """How far stream time must be past a window's end for a table's windows to be final, in milliseconds.

    It is the longest wait of the windowed aggregations before the table.

    Raises:
        TopologyError: one of the paths up leads to no windowed aggregation.
    """
    return _wait(node, ())


def _wait(node: Node, below: tuple[str, ...]) -> int:
    windows = node.windowed_by
    if windows is not None:
        if not windows.closes:
            raise TopologyError(
                f"until_window_closes needs windows that close, and the sessions of {node.name!r} at {node.where} do "
                "not: SessionWindows.inactivity_gap() has no grace period; use of_inactivity_gap_and_grace(gap, grace)"
            )
        if isinstance(windows, UnlimitedWindows):  # Kafka Streams allows it
            warn_caller(
                f"suppress at {caller()} never sends a result: the unlimited windows of {node.name!r} at {node.where} "
                "never close. Use Suppressed.until_time_limit(...), or windows that end",
                PenstockWarning,
            )
        return windows.final_after_ms
    way = (node.name, *below)
    if not node.parents:
        raise TopologyError(
            f"until_window_closes needs windows, and {way[-1]!r} has none: {' -> '.join(way)}. Suppress the result of "
            "a windowed aggregation, or use Suppressed.until_time_limit(...)"
        )
    return max(_wait(parent, way) for parent in node.parents)
