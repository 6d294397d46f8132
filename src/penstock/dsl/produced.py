"""How to write a stream into a topic: types, a partitioner, and a name for the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.plan.names import check_name, check_name_if_given
from penstock.plan.options import Options, in_place_of, option, said_once, types_given
from penstock.plan.sinks import Partitioner, partitioner_of
from penstock.serdes import Serde, of


@dataclass(frozen=True)
class Produced(Options):
    """The options for writing a stream into a topic.

    >>> from penstock import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> builder.stream("in", key=str, value=int).to("out", Produced.with_(str, int).with_name("results"))
    >>> print(builder.build().describe().strip())
    Topologies:
       Sub-topology: 0
        Source: KSTREAM-SOURCE-0000000000 (topics: [in])
          --> results
        Sink: results (topic: out)
          <-- KSTREAM-SOURCE-0000000000
    """

    key: Serde | None = None
    value: Serde | None = None
    name: str | None = None
    partitioner: Partitioner | None = None

    def __post_init__(self) -> None:
        check_name_if_given(self.name)
        partitioner_of(self.partitioner, "to")

    @option
    def as_(self, name: str) -> Produced:
        """With a name for the step."""
        return self._but(name=check_name(name))

    @option
    def with_(self, key: Any = None, value: Any = None, partitioner: Partitioner | None = None) -> Produced:
        """With these types of keys and values, and a partitioner."""
        chosen = {} if partitioner is None else {"partitioner": partitioner}
        return self._but(**types_given(key=key, value=value), **chosen)

    @option
    def with_key_serde(self, key: Any) -> Produced:
        """With this type of keys."""
        return self._but(key=of(key, "key"))

    @option
    def with_value_serde(self, value: Any) -> Produced:
        """With this type of values."""
        return self._but(value=of(value, "value"))

    @option
    def with_stream_partitioner(self, partitioner: Partitioner) -> Produced:
        """With a function that chooses each record's partition; see ``partitioner=`` of ``KStream.to``."""
        return self._but(partitioner=partitioner)

    @option
    def with_name(self, name: str) -> Produced:
        """With a name for the step."""
        return self._but(name=check_name(name))

    key_serde = with_key_serde
    value_serde = with_value_serde
    stream_partitioner = with_stream_partitioner


def produced_of(
    given: Produced | None, key: Any, value: Any, name: str | None, partitioner: Partitioner | None
) -> Produced:
    """Combine the arguments of ``to``: a ``Produced``, which may take the position of ``key``, and keywords.

    Raises:
        TopologyError: an argument was given twice.
    """
    given, key = in_place_of(Produced, key, given, "to", "produced")
    said = Produced(**types_given(key=key, value=value), name=name, partitioner=partitioner)
    return said_once("to", "produced", given, said)
