"""Results into tables: what a target cannot do is refused where it is said."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from penstock import KStream, KTable, StreamsBuilder
from penstock.errors import TopologyError
from penstock.testing import TopologyTestDriver


def counts(builder: StreamsBuilder) -> KTable[str, int]:
    return builder.stream("in", key=str, value=int).group_by_key().count("counts")


def stream(builder: StreamsBuilder) -> KStream[str, int]:
    return builder.stream("in", key=str, value=int)


JDBC: dict[str, Any] = {"format": "jdbc", "options": {"url": "jdbc:derby:memory:shop"}}

REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "files": (
        counts,
        {"table": "t", "format": "parquet"},
        "rows of parquet files cannot be changed, so there is no up",
    ),
    "stream": (
        stream,
        {"table": "t", "mode": "upsert"},
        r"mode='upsert' is for tables.* Say stream.to_table\(\) first",
    ),
    "table": (counts, {"table": "t", "mode": "append"}, r"mode='append' is for streams.* Say to_stream\(\) first"),
    "mode": (stream, {"table": "t", "mode": "replace"}, "mode is one of append, upsert; got 'replace'"),
    "nowhere": (stream, {}, "say the table's name, or path=; got table=None and path=None"),
    "twice": (stream, {"table": "t", "path": "p"}, "say the table's name, or path=; got table='t' and path='p'"),
    "format": (stream, {"path": "p", "name": "t"}, 'say what is at path=: format="delta" or "parquet"'),
    "key": (counts, {"table": "t", "key": None}, "an upsert finds its rows by the key; name the column of the key"),
    "name": (stream, {"table": "delta.`/t`"}, "give this table a name that a topic can bear, such as name="),
    "path": (stream, {"path": "p", "format": "delta"}, "give this table a name that a topic can bear, such as name="),
    "url": (stream, {"table": "t", "format": "jdbc"}, "a table of a database is given by its name and options="),
    "value": (stream, {"table": "t", "value": ""}, "value is the name of the column for the values; got ''"),
    "time": (stream, {"table": "t", "timestamp": 5}, "timestamp is a text; got 5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_target_cannot_do_is_refused_where_it_is_said(case: str):
    make, given, message = REFUSED[case]
    with pytest.raises(TopologyError, match=message):
        make(StreamsBuilder()).to_spark_table(**given)


def test_two_steps_do_not_write_one_table():
    builder = StreamsBuilder()
    for one in (stream(builder), counts(builder)):
        one.to_spark_table("lake.totals")
    with pytest.raises(TopologyError, match=r"'lake\.totals' is the name of two DataFrames or tables"):
        builder.build()


def test_a_table_is_an_ordinary_topic_to_the_driver():
    builder = StreamsBuilder()
    counts(builder).to_spark_table("lake.totals", **JDBC)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_record_list("in", [("a", 1), ("b", 1), ("a", 1)])
    assert [record[:2] for record in driver.read_output("lake.totals")] == [("a", 1), ("b", 1), ("a", 2)]


def test_the_topic_of_an_application_has_its_name_in_it():
    builder = StreamsBuilder()
    counts(builder).to_spark_table("lake.totals", **JDBC)
    topology = builder.build().owned_by("shop")
    assert topology.sink_topics == ("shop-lake.totals-sink",)
    assert topology.owned_by("shop").sink_topics == topology.sink_topics


def test_options_which_may_be_secret_travel_nowhere():
    builder = StreamsBuilder()
    given = JDBC | {"options": JDBC["options"] | {"password": "swordfish"}}
    counts(builder).to_spark_table("lake.totals", **given)
    [sink] = builder.build().table_sinks.values()
    assert sink.outside is not None
    assert b"swordfish" not in pickle.dumps(sink.outside)
    assert "swordfish" not in repr(sink)
