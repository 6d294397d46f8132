"""``Deduplicated``, and what the deduplications refuse (KIP-655)."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Deduplicated, StreamsBuilder
from penstock.errors import ConfigError, PenstockError, TopologyError
from penstock.serdes import INT, JSON, STR

pytestmark = pytest.mark.kip("655-04")


def test_everything_can_be_said_at_once_step_by_step_or_by_the_constructors_of_the_text():
    full = Deduplicated("once", "ids", str, int)
    assert Deduplicated(name="once", store_name="ids", key_serde=STR, value_serde=INT) == full
    assert Deduplicated.as_("once").with_store_name("ids").with_key_serde(str).with_value_serde(int) == full
    assert Deduplicated.with_("ids", str, int).with_name("once") == full
    assert Deduplicated.with_(store_name="ids", key_serde=str, value_serde=int).with_name("once") == full
    assert Deduplicated.with_(str, int) == Deduplicated.key_serde(str).with_value_serde(int)
    assert Deduplicated.with_(str, int) == Deduplicated.value_serde(int).with_key_serde(str)
    assert Deduplicated.with_(str, int, store_name="ids") == Deduplicated.with_("ids", str, int)
    assert full != Deduplicated.with_("ids", str, int)
    assert len({full, Deduplicated("once", "ids", str, int), Deduplicated()}) == 2
    assert repr(full) == ("Deduplicated(name='once', store_name='ids', key_serde=<serde str>, value_serde=<serde int>)")


def test_nothing_is_changed_in_place():
    plain = Deduplicated.as_("once")
    plain.with_key_serde(str)
    plain.with_value_serde(int)
    plain.with_store_name("ids")
    assert plain == Deduplicated("once")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Deduplicated.as_("a b"), "'a b' at .* cannot be a name: use 1 to 249 letters"),
        (lambda: Deduplicated.as_("once").with_store_name("a/b"), "'a/b' at .* cannot be a name"),
        (lambda: Deduplicated.key_serde(3), "key_serde: "),
        (lambda: Deduplicated.as_("once").with_value_serde(object()), "value_serde: "),
        (lambda: Deduplicated.with_(str), r"takes \(store_name, key_serde, value_serde\) or .*; got \(<class 'str'>\)"),
        (lambda: Deduplicated.with_(str, int, key_serde=int), r"got \(<class 'str'>, <class 'int'>, key_serde="),
        (lambda: Deduplicated.with_("ids", str, int, float), r"Deduplicated.with_ takes"),
        (lambda: Deduplicated.with_(serde=str), r"got \(serde=<class 'str'>\)"),
    ],
)
def test_what_cannot_be_is_refused_at_once(build: Any, message: str):
    with pytest.raises(PenstockError, match=message):
        build()


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        (lambda s: s.deduplicate_by_key(-1), ConfigError, "the interval of deduplicate_by_key at .* not be negative"),
        (lambda s: s.deduplicate_by_key("10 parsecs"), ConfigError, "'parsecs' in '10 parsecs' is no unit of time"),
        (lambda s: s.deduplicate_by_key(1, "once"), ConfigError, "must be a Deduplicated, got 'once'"),
        (lambda s: s.deduplicate_by_key_value(lambda v: v, 1), TopologyError, r"takes a function of \(key, value\)"),
        (lambda s: s.deduplicate(None, 1), TopologyError, r"takes a function of \(key, value\); got None"),
        (lambda s: s.deduplicate("a..b", 1), TopologyError, r"'a..b' names no field"),
        (lambda s: s.deduplicate("", 1), TopologyError, r"'' names no field"),
        (lambda s: s.deduplicate_by_key(1, dropped_to="no/topic"), TopologyError, "no/topic"),
    ],
)
def test_what_a_step_cannot_do_is_refused_when_it_is_built(step: Any, error: type[Exception], message: str):
    def build() -> None:
        builder = StreamsBuilder()
        step(builder.stream("in"))
        builder.build()

    with pytest.raises(error, match=message):
        build()


def test_values_without_fields_have_no_field():
    with pytest.raises(
        TopologyError, match=r"values of type int have no field 'id'; give a function of \(key, value\)"
    ):
        StreamsBuilder().stream("in", value=int).deduplicate("id", 1)


def test_two_steps_cannot_share_a_name_or_a_store():
    for given in (Deduplicated("once"), Deduplicated(store_name="ids")):
        builder = StreamsBuilder()
        stream = builder.stream("in")
        stream.deduplicate_by_key(1, given)
        stream.deduplicate_by_key(2, given)
        with pytest.raises(TopologyError, match=r"two steps have (the name 'once'|a store 'ids')"):
            builder.build()


def test_the_type_of_ids_is_told_or_annotated_or_json():
    def annotated(key: Any, value: Any) -> int:
        return 1

    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.deduplicate(lambda key, value: value, 1)
    stream.deduplicate(annotated, 1)
    stream.deduplicate(annotated, 1, Deduplicated.key_serde(str))
    stream.deduplicate("id", 1)
    assert [spec.key for spec in builder.build().facts.stores.values()] == [JSON, INT, STR, JSON]


def test_the_topology_shows_the_steps_with_their_store():
    builder = StreamsBuilder()
    builder.stream("in").deduplicate("id", 1, Deduplicated("once", "ids"), dropped_to="dropped").to("out")
    assert (
        builder.build().describe()
        == """\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [in])
      --> once-by-id
    Processor: once-by-id (stores: [])
      --> once-repartition-sink
      <-- KSTREAM-SOURCE-0000000000
    Sink: once-repartition-sink (topic: once-repartition)
      <-- once-by-id

  Sub-topology: 1
    Source: once-repartition-source (topics: [once-repartition])
      --> once
    Processor: once (stores: [ids])
      --> once-dropped, once-kept
      <-- once-repartition-source
    Processor: once-dropped (stores: [])
      --> KSTREAM-KEY-RESTORE-0000000006
      <-- once
    Processor: once-kept (stores: [])
      --> KSTREAM-KEY-RESTORE-0000000008
      <-- once
    Processor: KSTREAM-KEY-RESTORE-0000000006 (stores: [])
      --> KSTREAM-SINK-0000000007
      <-- once-dropped
    Processor: KSTREAM-KEY-RESTORE-0000000008 (stores: [])
      --> KSTREAM-SINK-0000000009
      <-- once-kept
    Sink: KSTREAM-SINK-0000000007 (topic: dropped)
      <-- KSTREAM-KEY-RESTORE-0000000006
    Sink: KSTREAM-SINK-0000000009 (topic: out)
      <-- KSTREAM-KEY-RESTORE-0000000008

"""
    )
