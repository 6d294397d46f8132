"""Which records are removed: those before an offset, and those that a topic's retention no longer keeps."""

from __future__ import annotations

from penstock.log.contract.topics import TopicInfo
from penstock.log.contract.writer import Segment
from penstock.log.file.nodes import Node, NodeFiles
from penstock.log.file.state import Entry, TopicState

_AT_ONCE = 1000
"""Most segments of a partition that one entry removes, because it names their files."""


def trim_entry(nodes: NodeFiles, state: TopicState, wanted: dict[int, int]) -> Entry | None:
    """Return the next entry on the way to these starts of partitions; None once they are reached."""
    starts = {
        partition: _next_start(nodes, state, partition, start)
        for partition, start in wanted.items()
        if start > state.starts[partition]
    }
    if not starts:
        return None
    gone, freed = _sealed_files(nodes, state, starts)
    files = state.files()
    for part, segments in enumerate(state.segments):
        files -= {segment.file.name for segment in segments if segment.end > starts.get(part, state.starts[part])}
    after = [starts.get(partition, start) for partition, start in enumerate(state.starts)]
    dead = [ref for ref in state.topmost() if all(e <= s for e, s in zip(ref.ends, after, strict=False))]
    gone_nodes = [ref.file.name for ref, _ in nodes.all_nodes(dead)]
    return Entry(starts=starts, gone=[*gone, *sorted(files)], gone_nodes=gone_nodes, freed=freed)


def _next_start(nodes: NodeFiles, state: TopicState, partition: int, wanted: int) -> int:
    for number, segment in enumerate(nodes.segments_from(state, partition, state.starts[partition])):
        if segment.end >= wanted:
            break
        if number == _AT_ONCE - 1:
            return segment.end
    return wanted


def _sealed_files(nodes: NodeFiles, state: TopicState, starts: dict[int, int]) -> tuple[list[str], dict[int, int]]:
    """Return the indexed files that become unneeded when partitions start there, and the freed bytes by partition."""
    touched: dict[int, Node] = {}
    for partition, start in starts.items():
        if state.starts[partition] < state.sealed_end(partition):
            for node in nodes.nodes_of_segments(state, partition, state.starts[partition], start):
                touched[id(node)] = node
    gone: list[str] = []
    freed: dict[int, int] = {}
    for node in touched.values():
        kept: set[str] = set()
        going: set[str] = set()
        for partition, segments in enumerate(node.segments):
            before, after = state.starts[partition], starts.get(partition, state.starts[partition])
            kept |= {segment.file.name for segment in segments if segment.end > after}
            leaving = [segment for segment in segments if before < segment.end <= after]
            going |= {segment.file.name for segment in leaving}
            if leaving:
                freed[partition] = freed.get(partition, 0) + sum(segment.nbytes for segment in leaving)
        gone += sorted(going - kept)
    return gone, freed


def retained_starts(nodes: NodeFiles, state: TopicState, info: TopicInfo, now_ms: int) -> dict[int, int]:
    """Return the starts of partitions after retention; only those that change."""
    starts = {}
    for partition, size in enumerate(state.nbytes):
        start = _retained_start(nodes, state, info, now_ms, partition, size)
        if start is not None:
            starts[partition] = start
    return starts


def _retained_start(
    nodes: NodeFiles, state: TopicState, info: TopicInfo, now_ms: int, partition: int, size: int
) -> int | None:
    start = None
    for segment in nodes.segments_from(state, partition, state.starts[partition]):
        if not (_is_too_old(segment, info, now_ms) or 0 <= info.retention_bytes < size):
            break
        start = segment.end
        size -= segment.nbytes
    return start


def _is_too_old(segment: Segment, info: TopicInfo, now_ms: int) -> bool:
    return info.retention_ms >= 0 and segment.max_timestamp < now_ms - info.retention_ms
