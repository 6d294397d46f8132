"""A finished topology: what ``StreamsBuilder.build`` returns."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.plan import describe
from penstock.plan.node import Node
from penstock.plan.nodes import Repartition
from penstock.plan.passes.copartition import copartitions
from penstock.plan.passes.overtaken import without_needless_announcements
from penstock.plan.passes.stores import table_facts
from penstock.plan.physical import sub_topologies
from penstock.plan.validate import validate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Unpack

    from pyspark.sql import SparkSession

    from penstock.durations import Duration
    from penstock.engine.spark.streams import Streams
    from penstock.log.base import Log
    from penstock.progress import Progress
    from penstock.settings import SettingsArguments

_FORMATS = ("text", "mermaid")


class Topology:
    """Steps, sub-topologies and facts about them; nothing in it changes any more.

    Raises:
        TopologyError: the steps do not make a topology that can be run.
    """

    def __init__(self, declared: tuple[Node, ...]):
        self.declared = declared = without_needless_announcements(declared)
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

    def start(
        self,
        application_id: str,
        log: Log | Path | str | None = None,
        spark: SparkSession | None = None,
        trigger: Duration = "500 ms",
        slots: int | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        **settings: Unpack[SettingsArguments],
    ) -> Streams:
        """Run the topology on Spark.

        Args:
            application_id: names the application: its folder, its internal topics, its query in Spark.
            log: the file log, or its folder; by default the setting ``log_dir``.
            spark: the session to run on; by default the active one, else a new local one.
            trigger: how often to look for new records, or ``"available-now"`` to process what is there and stop.
            slots: how many Python processes work at once; by default as many as cores.
            on_progress: called after every commit.
            settings: settings as keywords, such as ``on_error="skip"``; ``penstock config`` lists them.

        Returns:
            The handle of the running application.

        Raises:
            ConfigError: a setting is wrong; nothing was started.
            TopicNotFoundError: a source topic does not exist.
            AlreadyRunningError: another program runs under this application id.
        """
        from penstock.engine.spark.streams import start

        return start(self, application_id, log, spark, trigger, slots, on_progress, **settings)

    def _repr_markdown_(self) -> str:
        return f"```mermaid\n{self.describe('mermaid')}```"

    def __repr__(self) -> str:
        return f"<Topology of {len(self.nodes)} steps in {len(self.sub_topologies)} sub-topologies>"
