"""A finished topology: what ``StreamsBuilder.build`` returns."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from penstock.errors import ConfigError
from penstock.plan import describe
from penstock.plan.nodes import Node, Repartition
from penstock.plan.passes.copartition import copartitions
from penstock.plan.passes.stores import table_facts
from penstock.plan.physical import sub_topologies
from penstock.plan.validate import validate

_FORMATS = ("text", "mermaid")


class Topology:
    """Steps, sub-topologies and facts about them; nothing in it changes any more.

    Raises:
        TopologyError: the steps do not make a topology that can be run.
    """

    def __init__(self, declared: tuple[Node, ...]):
        self.declared = declared
        self.nodes = tuple(dict.fromkeys(declared))
        self.facts = table_facts(declared)
        self.sub_topologies = sub_topologies(declared, self.facts)
        self.copartitions = copartitions(declared)
        validate(declared, self.facts, self.sub_topologies)
        fixed = {n.topic: n.partitions for n in self.nodes if isinstance(n, Repartition) and n.partitions is not None}
        for copartition in self.copartitions:
            copartition.check(fixed)

    def describe(self, format: str = "text") -> str:
        """The topology in Kafka Streams' own text form (``"text"``) or as a Mermaid flowchart (``"mermaid"``).

        >>> from penstock import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("in").to("out")
        >>> print(builder.build().describe().strip())
        Topologies:
           Sub-topology: 0
            Source: KSTREAM-SOURCE-0000000000 (topics: [in])
              --> KSTREAM-SINK-0000000001
            Sink: KSTREAM-SINK-0000000001 (topic: out)
              <-- KSTREAM-SOURCE-0000000000
        """
        if format not in _FORMATS:
            raise ConfigError(f"the format must be one of {', '.join(_FORMATS)}; got {format!r}")
        described = sub_topologies(self.declared, self.facts, as_described=True)
        if format == "mermaid":
            return describe.as_mermaid(described, self.facts.versioned)
        return describe.as_text(described)

    @cached_property
    def internal_topics(self) -> frozenset[str]:
        """The repartition topics."""
        return frozenset(node.topic for node in self.nodes if isinstance(node, Repartition))

    @property
    def source_topics(self) -> tuple[str, ...]:
        """The topics read from the log."""
        topics = (topic for sub in self.sub_topologies for topic in sub.source_topics)
        return tuple(topic for topic in dict.fromkeys(topics) if topic not in self.internal_topics)

    @property
    def sink_topics(self) -> tuple[str, ...]:
        """The topics written to the log."""
        topics = (topic for sub in self.sub_topologies for topic in sub.sink_topics)
        return tuple(topic for topic in dict.fromkeys(topics) if topic not in self.internal_topics)

    def start(self, **arguments: Any) -> Any:
        """Run the topology on Spark; see :func:`penstock.engine.spark.streams.start`."""
        from penstock.engine.spark.streams import start

        return start(self, **arguments)

    def _repr_markdown_(self) -> str:
        return f"```mermaid\n{self.describe('mermaid')}```"

    def __repr__(self) -> str:
        return f"<Topology of {len(self.nodes)} steps in {len(self.sub_topologies)} sub-topologies>"
