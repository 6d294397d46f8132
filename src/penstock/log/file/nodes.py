"""The index of a topic's older segments: a tree of small immutable files, read on demand.

The lowest nodes hold segments, the others references to nodes. A state knows the topmost ones (``state.py``), so that
opening a topic costs the same however long its history is.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from penstock.errors import CorruptDataError
from penstock.files.plain_files import read_plain
from penstock.log.contract.writer import Segment
from penstock.log.file.state import VERSION, NodeRef, TopicState
from penstock.storage.base import FileRef, checksum, create_file, seal, unseal

_OPEN_NODES = 16


class Node(msgspec.Struct, frozen=True, omit_defaults=True):
    """Segments, or references to the nodes below."""

    segments: list[list[Segment]] = []
    """By partition."""
    nodes: list[NodeRef] = []
    version: int = VERSION


class NodeFiles:
    """The folder of a topic's nodes; recently used nodes stay in memory."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._open: OrderedDict[str, Node] = OrderedDict()

    def write(self, node: Node, ends: list[int]) -> NodeRef:
        """Write a new node, invisible until an entry names it."""
        data = seal(node)
        name = f"{os.urandom(8).hex()}.node"
        create_file(self.folder / name, data)
        return NodeRef(FileRef(name, len(data), checksum(data)), ends)

    def segments_from(self, state: TopicState, partition: int, offset: int) -> Iterator[Segment]:
        """Yield the segments that hold this offset and all later ones."""
        behind = state.segments_from(partition, offset)
        if offset < state.sealed_end(partition):
            yield from self._below(state.topmost(), partition, offset)
        yield from behind

    def nodes_of_segments(self, state: TopicState, partition: int, start: int, end: int) -> Iterator[Node]:
        """Yield the lowest nodes that hold records of a partition between two offsets."""
        for ref in self._lowest(state.topmost(), partition, start):
            yield self.read(ref)
            if ref.end(partition) >= end:
                return

    def all_nodes(self, refs: list[NodeRef]) -> Iterator[tuple[NodeRef, Node]]:
        """Yield these nodes and everything below them."""
        for ref in refs:
            node = self.read(ref)
            yield ref, node
            yield from self.all_nodes(node.nodes)

    def read(self, ref: NodeRef) -> Node:
        """Return a node; raises ``CorruptDataError`` naming the file."""
        name = ref.file.name
        node = self._open.get(name)
        if node is None:
            path = self.folder / name
            try:
                data = read_plain(path)
            except FileNotFoundError:
                raise CorruptDataError(
                    f"{path} is missing though the topic's entries name it; restore it from a backup"
                ) from None
            ref.file.verify(data, str(self.folder))
            node = self._open[name] = unseal(data, Node, str(path))
            if len(self._open) > _OPEN_NODES:
                self._open.popitem(last=False)
        self._open.move_to_end(name)
        return node

    def _below(self, refs: list[NodeRef], partition: int, offset: int) -> Iterator[Segment]:
        for ref in self._lowest(refs, partition, offset):
            segments = self.read(ref).segments[partition]
            yield from segments[bisect_right(segments, offset, key=lambda segment: segment.end) :]

    def _lowest(self, refs: list[NodeRef], partition: int, offset: int) -> Iterator[NodeRef]:
        """Yield the lowest nodes that hold records of the partition at this offset or later."""
        for ref in refs[bisect_right(refs, offset, key=lambda ref: ref.end(partition)) :]:
            if ref.end(partition) > offset:  # otherwise it has none of this partition
                node = self.read(ref)
                if node.nodes:
                    yield from self._lowest(node.nodes, partition, offset)
                else:
                    yield ref
                offset = ref.end(partition)
