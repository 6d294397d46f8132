"""Refuses topics whose records are of one type for the step that writes them and of another for a step that reads or
writes them, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.errors import TopologyError
from penstock.plan import nodes
from penstock.plan.defaults import is_left_to_settings
from penstock.plan.node import Node
from penstock.serdes import Serde, fits, is_known


def check_types_of_topics(declared: Sequence[Node], with_defaults: bool = False) -> None:
    """Raise ``TopologyError`` for the first topic of two types.

    Args:
        with_defaults: whether types that nobody gave count as well. They do once the settings have been applied, which
            may name others.
    """
    steps = tuple(dict.fromkeys(declared))
    for writer in steps:
        if isinstance(writer, nodes.Sink) and writer.topic:
            for other, does in _others(steps, writer):
                _check(writer, other, does, with_defaults)


def _others(steps: Iterable[Node], writer: nodes.Sink) -> Iterator[tuple[Node, str]]:
    """The steps behind the topic of one, and those that write it as well, with what they do."""
    is_behind = False
    for step in steps:
        if isinstance(step, nodes.Sink):
            is_behind = is_behind or step is writer
            if is_behind and step is not writer and step.topic == writer.topic:
                yield step, f"to() at {step.where} writes"
        elif step.is_source and writer.topic in step.topics:
            yield step, f"the source at {step.where} reads"


def _check(writer: nodes.Sink, other: Node, does: str, with_defaults: bool) -> None:
    reads = other.is_source
    for what, written, serde in zip(("key", "value"), writer.types, other.types, strict=True):
        if not with_defaults and (is_left_to_settings(written) or is_left_to_settings(serde)):
            continue
        if _is_comparable(written, serde) and not fits(written.name, serde):
            way = f"{what}=bytes to read them as they are" if reads else "write into two topics"
            raise TopologyError(
                f"topic {writer.topic!r} gets {what}s of type {written.name} from to() at {writer.where}, but {does} "
                f"{what}s of type {serde.name}; give both the same type, {what}=..., or {way}. Nothing was started"
            )


def _is_comparable(written: Serde, other: Serde) -> bool:
    """Whether Penstock knows both formats; a program's own may be made for each other."""
    return is_known(written) and is_known(other)
