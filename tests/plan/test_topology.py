"""What is planned: names, where streams are repartitioned, sub-topologies, stores, pictures."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Materialized, StreamsBuilder, TimeWindows, Topology
from penstock.errors import ConfigError
from penstock.testing import TopologyTestDriver

YES = lambda key, value: True  # noqa: E731
SWAP = lambda key, value: (value, key)  # noqa: E731
VALUE = lambda key, value: value  # noqa: E731


def planned(build: Any) -> Topology:
    builder = StreamsBuilder()
    build(builder, builder.stream("in", value=str))
    return builder.build()


def parts(topology: Topology) -> list[list[str]]:
    """The names of the parts of each sub-topology."""
    return [[part.name for part in sub.parts] for sub in topology.sub_topologies]


# --- names -----------------------------------------------------------------------------------------------------------


def test_steps_without_names_are_numbered_in_the_order_of_the_calls():
    topology = planned(lambda b, s: s.filter(YES).map_values(str.upper).to("out"))
    assert parts(topology) == [
        [
            "KSTREAM-SOURCE-0000000000",
            "KSTREAM-FILTER-0000000001",
            "KSTREAM-MAPVALUES-0000000002",
            "KSTREAM-SINK-0000000003",
        ]
    ]


def test_a_name_of_ones_own_uses_up_a_number_all_the_same():
    topology = planned(lambda b, s: s.filter(YES, name="only-good").map_values(str.upper).to("out", name="written"))
    assert parts(topology) == [
        ["KSTREAM-SOURCE-0000000000", "only-good", "KSTREAM-MAPVALUES-0000000002", "written"],
    ]


def test_names_around_a_repartition_and_a_store():
    topology = planned(lambda b, s: s.group_by(VALUE).count("counts"))
    assert parts(topology) == [
        ["KSTREAM-SOURCE-0000000000", "KSTREAM-KEY-SELECT-0000000001", "counts-repartition-filter",
         "counts-repartition-sink"],
        ["counts-repartition-source", "KSTREAM-AGGREGATE-0000000002"],
    ]  # fmt: skip
    assert topology.internal_topics == {"counts-repartition"}
    assert [spec.name for spec in topology.facts.stores.values()] == ["counts"]


def test_stores_without_names_are_numbered_too():
    topology = planned(lambda b, s: s.group_by_key().reduce(max))
    assert [spec.name for spec in topology.facts.stores.values()] == ["KSTREAM-REDUCE-STATE-STORE-0000000001"]


def test_a_named_grouping_names_its_repartition_topic():
    topology = planned(lambda b, s: s.group_by(VALUE, name="by-value").count("counts"))
    assert topology.internal_topics == {"by-value-repartition"}


# --- where streams are repartitioned ---------------------------------------------------------------------------------

KEEP_THE_KEY = {
    "filter": lambda s: s.filter(YES),
    "map_values": lambda s: s.map_values(str.upper, value=str),
    "flat_map_values": lambda s: s.flat_map_values(str.split, value=str),
    "peek": lambda s: s.peek(YES),
    "merge": lambda s: s.merge(s.filter(YES)),
    "split": lambda s: s.split("b-").branch(YES, "a").no_default_branch()["b-a"],
}
CHANGE_THE_KEY = {
    "map": lambda s: s.map(SWAP, value=str),
    "flat_map": lambda s: s.flat_map(lambda key, value: [(value, key)], value=str),
    "select_key": lambda s: s.select_key(VALUE),
    "select_key and then others": lambda s: s.select_key(VALUE).filter(YES).map_values(str.upper, value=str),
    "select_key in one of two merged streams": lambda s: s.merge(s.select_key(VALUE)),
    "select_key before a split": lambda s: s.select_key(VALUE).split("b-").branch(YES, "a").no_default_branch()["b-a"],
}
GROUP = {
    "group_by_key": lambda s: s.group_by_key().count("kept"),
    "windowed_by": lambda s: s.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(5)).count("kept"),
    "to_table": lambda s: s.to_table("kept"),
}


@pytest.mark.parametrize("group", GROUP)
@pytest.mark.parametrize("step", KEEP_THE_KEY)
def test_no_repartition_behind_steps_that_keep_the_key(step, group):
    topology = planned(lambda b, s: GROUP[group](KEEP_THE_KEY[step](s)))
    assert topology.internal_topics == frozenset()
    assert len(topology.sub_topologies) == 1


@pytest.mark.parametrize("group", GROUP)
@pytest.mark.parametrize("step", CHANGE_THE_KEY)
def test_one_repartition_behind_steps_that_may_change_the_key(step, group):
    topology = planned(lambda b, s: GROUP[group](CHANGE_THE_KEY[step](s)))
    assert len(topology.internal_topics) == 1
    assert len(topology.sub_topologies) == 2


def test_an_explicit_repartition_is_the_only_one():
    topology = planned(lambda b, s: s.select_key(VALUE).repartition("by-value").group_by_key().count("counts"))
    assert topology.internal_topics == {"by-value-repartition"}


def test_writing_to_a_topic_needs_no_repartition():
    assert planned(lambda b, s: s.select_key(VALUE).to("out")).internal_topics == frozenset()


def test_every_aggregation_of_an_unnamed_grouping_has_a_repartition_of_its_own():
    def build(builder, stream):
        grouped = stream.group_by(VALUE)
        grouped.count("counts")
        grouped.reduce(max, "largest")

    assert planned(build).internal_topics == {"counts-repartition", "largest-repartition"}


def test_a_table_that_is_grouped_anew_is_always_repartitioned():
    topology = planned(lambda b, s: b.table("rows", value=str).group_by(lambda key, row: (key, row)).count("counts"))
    assert topology.internal_topics == {"counts-repartition"}


# --- sub-topologies and topics ---------------------------------------------------------------------------------------


def test_what_is_not_connected_are_sub_topologies_of_their_own():
    def build(builder, stream):
        stream.to("out")
        builder.stream("other").to("elsewhere")

    topology = planned(build)
    assert [(sub.id, sub.source_topics, sub.sink_topics) for sub in topology.sub_topologies] == [
        (0, ("in",), ("out",)),
        (1, ("other",), ("elsewhere",)),
    ]


def test_what_is_merged_is_one_sub_topology():
    topology = planned(lambda b, s: s.merge(b.stream("other", value=str)).to("out"))
    assert [sub.source_topics for sub in topology.sub_topologies] == [("in", "other")]


def test_source_and_sink_topics_leave_out_repartition_topics():
    topology = planned(lambda b, s: s.group_by(VALUE).count("counts").to_stream().to("out"))
    assert topology.source_topics == ("in",)
    assert topology.sink_topics == ("out",)


# --- which tables have stores ----------------------------------------------------------------------------------------

TABLES = {
    "a table that is only passed on": (lambda t: t.to_stream().to("out"), set()),
    "a filtered table": (lambda t: t.filter(YES).to_stream().to("out"), set()),
    "a table grouped anew": (lambda t: t.group_by(SWAP).count("counts"), {"in-STATE-STORE-0000000000", "counts"}),
    "a filtered table with a store": (lambda t: t.filter(YES, store="good").to_stream().to("out"), {"good"}),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_source_table_has_a_store_only_if_somebody_needs_it(name):
    build, stores = TABLES[name]
    builder = StreamsBuilder()
    build(builder.table("in", value=str))
    assert {spec.name for spec in builder.build().facts.stores.values()} == stores


def test_a_source_table_with_a_name_for_its_store_has_one():
    builder = StreamsBuilder()
    builder.table("in", materialized=Materialized.as_("rows").in_memory())
    assert [(spec.name, spec.kind) for spec in builder.build().facts.stores.values()] == [("rows", "in_memory")]


# --- pictures --------------------------------------------------------------------------------------------------------


def test_the_mermaid_flowchart_shows_sub_topologies_steps_topics_and_stores():
    topology = planned(lambda b, s: s.group_by(VALUE).count("counts").to_stream(name="changes").to("out"))
    assert topology.describe("mermaid") == MERMAID
    assert topology._repr_markdown_() == f"```mermaid\n{MERMAID}```"


MERMAID = """\
flowchart TD
  subgraph sub0["Sub-topology 0"]
    n_KSTREAM_2d_SOURCE_2d_0000000000["KSTREAM-SOURCE 0"]
    n_KSTREAM_2d_KEY_2d_SELECT_2d_0000000001["KSTREAM-KEY-SELECT 1"]
    n_counts_2d_repartition_2d_filter["counts-repartition-filter"]
    n_counts_2d_repartition_2d_sink["counts-repartition-sink"]
  end
  subgraph sub1["Sub-topology 1"]
    n_counts_2d_repartition_2d_source["counts-repartition-source"]
    n_KSTREAM_2d_AGGREGATE_2d_0000000002["KSTREAM-AGGREGATE 2"]
    n_store_20_counts[("counts")]
    n_changes["changes"]
    n_KSTREAM_2d_SINK_2d_0000000007["KSTREAM-SINK 7"]
  end
  n_topic_20_in(["in"])
  n_topic_20_counts_2d_repartition(["counts-repartition"])
  n_topic_20_out(["out"])
  n_topic_20_in --> n_KSTREAM_2d_SOURCE_2d_0000000000
  n_KSTREAM_2d_SOURCE_2d_0000000000 --> n_KSTREAM_2d_KEY_2d_SELECT_2d_0000000001
  n_KSTREAM_2d_KEY_2d_SELECT_2d_0000000001 --> n_counts_2d_repartition_2d_filter
  n_counts_2d_repartition_2d_filter --> n_counts_2d_repartition_2d_sink
  n_counts_2d_repartition_2d_sink --> n_topic_20_counts_2d_repartition
  n_topic_20_counts_2d_repartition --> n_counts_2d_repartition_2d_source
  n_KSTREAM_2d_AGGREGATE_2d_0000000002 -.- n_store_20_counts
  n_counts_2d_repartition_2d_source --> n_KSTREAM_2d_AGGREGATE_2d_0000000002
  n_KSTREAM_2d_AGGREGATE_2d_0000000002 --> n_changes
  n_changes --> n_KSTREAM_2d_SINK_2d_0000000007
  n_KSTREAM_2d_SINK_2d_0000000007 --> n_topic_20_out
"""


def test_names_of_any_legal_kind_are_drawn_under_distinct_ids():
    topology = planned(
        lambda b, s: (
            s.filter(YES, name="a.b").to("x.y"),
            s.filter(YES, name="a_b").filter(YES, name="top10").to("x_y"),
        )
    )
    picture = topology.describe("mermaid")
    assert 'n_a_2e_b["a.b"]' in picture
    assert 'n_a_5f_b["a_b"]' in picture
    assert 'n_top10["top10"]' in picture


@pytest.mark.kip("914-01", "914-02")
def test_the_mermaid_flowchart_tells_versioned_tables_from_others():
    def build(b, s):
        kept = Materialized.as_versioned("versions", history_retention=10)
        versioned = b.table("prices", materialized=kept, name="prices").filter(YES, name="kept")
        versioned.map_values(VALUE, store="plain", name="unversioned").filter(YES, name="lost")
        versioned.map_values(VALUE, materialized=Materialized.with_(value=str), name="given-a-type")
        versioned.to_stream().to_table(name="anew")
        versioned.group_by(lambda key, value: (key, value)).count(materialized=kept_counts, name="counts")

    kept_counts = Materialized.as_versioned("count-versions", history_retention=10)
    picture = planned(build).describe("mermaid")
    marked = [
        line.split('["')[1].removesuffix('"]') for line in picture.splitlines() if "versioned" in line and '["' in line
    ]
    assert [label for label in marked if "<br/>" in label] == [
        "prices<br/>versioned",
        "kept<br/>versioned",
        "counts<br/>versioned",
    ]
    assert "versioned" not in planned(build).describe().replace("unversioned", "")


def test_other_formats_are_refused():
    with pytest.raises(ConfigError, match="the format must be one of text, mermaid; got 'dot'"):
        planned(lambda b, s: s.to("out")).describe("dot")


def test_a_topology_says_in_short_what_it_is():
    assert repr(planned(lambda b, s: s.group_by(VALUE).count())) == "<Topology of 4 steps in 2 sub-topologies>"


def test_a_topic_that_is_named_twice_is_read_once():
    builder = StreamsBuilder()
    builder.stream(["in", "other", "in"], value=str).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", "x", 0)
    assert [tuple(record)[:2] for record in driver.read_output("out")] == [("a", "x")]
