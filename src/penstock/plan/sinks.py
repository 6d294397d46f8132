"""The outputs of a stream: one topic, or one chosen for each record; and the partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.errors import TopologyError
from penstock.plan import nodes
from penstock.plan.functions import UserFunction, caller, check_flag, check_topic, user_function
from penstock.plan.node import Node
from penstock.processor import RecordContext
from penstock.serdes import Serde

Partitioner = (
    Callable[[str, Any, Any, int], int | Iterable[int] | None]
    | Callable[[str, Any, Any, tuple[tuple[str, bytes], ...], int], int | Iterable[int] | None]
)
"""A function of (topic, key, value, number of partitions), of the last three, or of (topic, key, value, headers, number
of partitions) (KIP-1321). It returns a partition, several of them, or none. None leaves the choice to Kafka's
partitioner."""

TopicSelector = Callable[[Any, Any], str] | Callable[[Any, Any, RecordContext], str]
"""A function of (key, value) or (key, value, context) that gives the name of a topic."""

_ARGUMENTS = (
    ("topic", "key", "value", "partitions"),
    ("key", "value", "partitions"),
    ("topic", "key", "value", "headers", "partitions"),
)


def partitioner_of(given: Any, method: str, keyword: str = "partitioner") -> UserFunction | None:
    """Check a partitioner argument: a function, or an object with a method ``partitions``.

    Args:
        keyword: the argument's name, for the error message.

    Raises:
        TopologyError: it is not a partitioner, or works on columns.
    """
    if given is None:
        return None
    function = user_function(getattr(given, "partitions", given), f"{method}: {keyword}", *_ARGUMENTS)
    if function.columnar:
        raise TopologyError(f"{method} at {caller()}: a partitioner is called for each record; remove @columnar")
    return function


def sink_node(
    name: str, parents: tuple[Node, ...], topic: Any, types: tuple[Serde, Serde], partitioner: Any, create: bool
) -> nodes.Sink:
    """Make the sink of a stream.

    Raises:
        TopologyError: the topic is neither text nor a function, or ``create=`` is given for a fixed topic.
    """
    key, value = types
    chosen = partitioner_of(partitioner, "to")
    at: dict[str, Any] = {
        "name": name,
        "parents": parents,
        "where": caller(),
        "key": key,
        "value": value,
        "partitioner": chosen,
    }
    check_flag(create, "create= of to")
    if callable(topic):
        selector = user_function(topic, "to", ("key", "value"), context=True)
        if selector.columnar:
            raise TopologyError(f"to at {caller()}: a topic is chosen for each record; remove @columnar")
        return nodes.DynamicSink(selector=selector, makes_topics=create, **at)
    check_topic(topic, "the topic of to", "or a function of (key, value) or (key, value, context) that gives it")
    if not create:
        raise TopologyError(
            f"to at {caller()}: create=False is for topics that a function chooses; {topic!r} is created when the "
            "application starts, if it does not exist. Leave create= out"
        )
    return nodes.Sink(topic=topic, **at)
