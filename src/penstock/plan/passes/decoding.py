"""Finds the columns of each source that later steps use.

A record that does not decode fails at its source, once for all branches. Unused columns are not decoded at all.
"""

from __future__ import annotations

from penstock.plan.functions import UserFunction
from penstock.plan.node import Part
from penstock.plan.physical import SubTopology
from penstock.plan.timestamps import Extractor
from penstock.plan.used_columns import BOTH, FIELDS, NEITHER, VALUE, Columns, columns_of


def decoded_columns(sub: SubTopology) -> dict[str, tuple[str, ...]]:
    """For each source of a sub-topology, by name, the columns that later steps decode; likewise for each part that
    unpacks keys and values from others."""
    decoded: dict[str, tuple[str, ...]] = {}
    needed: dict[str, Columns] = {part.name: NEITHER for part in sub.working_parts}
    for part in reversed(sub.working_parts):
        uses, keeps = _looks_into(part)
        if part.kind == "source" or part.node.unpacks:
            used = uses | needed[part.name]
            decoded[part.name] = tuple(sorted(used - FIELDS if used >= VALUE else used))
        needs = uses | (needed[part.name] & (keeps | FIELDS if keeps >= VALUE else keeps))
        for name in part.predecessors:
            needed[name] |= needs
        for name in part.reads:
            needed[name] |= VALUE
        needed[part.name] = needs
    return decoded


def _looks_into(part: Part) -> tuple[Columns, Columns]:
    """The columns that a part decodes, and those that it hands on unchanged."""
    if part.kind == "source":
        return _of_timestamp(part.node.timestamp), BOTH
    if part.kind == "sink":
        return part.node.reads_columns, BOTH
    if part.role == "merge":  # the results of both sides of a join
        return NEITHER, BOTH
    return part.node.reads_columns, part.node.keeps_columns


def _of_timestamp(timestamp: UserFunction | Extractor | None) -> Columns:
    if isinstance(timestamp, Extractor):
        return BOTH if timestamp.looks_into_records else NEITHER
    return columns_of(timestamp)
