"""What is refused while a topology is built: the message says where, what was expected, what came and what to do."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from penstock import (
    Deduplicated,
    JoinWindows,
    Materialized,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyError,
    TopologyException,
    columnar,
)
from penstock.errors import ConfigError

YES = lambda key, value: True  # noqa: E731
ONE = lambda value: value  # noqa: E731
BOTH = lambda value, other: value  # noqa: E731
ADDS = lambda key, value, total: total  # noqa: E731
WINDOWS = TimeWindows.of_size_and_grace(10, 5)


@columnar
def halves(value):
    return value


def built(build: Any) -> Topology:
    builder = StreamsBuilder()
    build(builder, builder.stream("in"))
    return builder.build()


def refusal(build: Any) -> str:
    """The message with which ``build(builder, stream)`` is refused; this file's lines are written as ``HERE``."""
    with pytest.raises(TopologyError) as refused:
        built(build)
    return re.sub(re.escape(__file__) + r":\d+", "HERE", str(refused.value))


# --- the topology as a whole -----------------------------------------------------------------------------------------


def test_a_topology_that_reads_nothing():
    with pytest.raises(TopologyError) as refused:
        StreamsBuilder().build()
    assert str(refused.value) == ("the topology is empty: begin with builder.stream(topic) or builder.table(topic)")


def test_the_message_has_the_lines_of_the_users_own_code():
    builder = StreamsBuilder()
    line = sys._getframe().f_lineno
    builder.stream("in").filter(YES, name="mine")
    builder.stream("other").filter(YES, name="mine")
    with pytest.raises(TopologyError) as refused:
        builder.build()
    assert str(refused.value) == (
        f"two steps have the name 'mine': at {__file__}:{line + 1} and at {__file__}:{line + 2}; "
        "give each step a name of its own"
    )


def test_two_steps_of_one_name():
    assert refusal(lambda b, s: (s.filter(YES, name="mine"), s.filter(YES, name="mine"))) == (
        "two steps have the name 'mine': at HERE and at HERE; give each step a name of its own"
    )


def test_a_line_that_runs_twice_with_one_builder_says_so():
    def twice(builder: Any, stream: Any) -> None:
        for _ in range(2):
            stream.group_by_key().count("counts")

    assert refusal(twice) == (
        "two steps have a store 'counts': the line at HERE ran twice with the same StreamsBuilder. In a notebook, make "
        "a new builder in the same cell, or run the cell that makes it again; in a loop, give each store a name of "
        "its own"
    )


def test_two_groups_of_a_cogroup_that_repartition_without_names():
    def build(builder, stream):
        groups = [stream.group_by(lambda key, value: key, key=str) for _ in "ab"]
        add = lambda key, value, total: total + 1  # noqa: E731
        groups[0].cogroup(add).cogroup(groups[1], add).aggregate(int, value=int, store="sums")

    assert refusal(build) == (
        "two groups at HERE and HERE repartition through one topic, 'sums-repartition': give each group a name of its "
        "own, as in group_by(..., name=...) or group_by_key(name=...)"
    )


def joined_with(stream):
    joined = StreamJoined.as_("join").with_store_name("kept")
    stream.join(stream.map_values(ONE), BOTH, JoinWindows.of_time_difference_with_no_grace(1), stream_joined=joined)


@pytest.mark.parametrize(
    ("store", "keep"),
    [
        ("kept-this-join-store", joined_with),
        ("kept", lambda stream: stream.deduplicate_by_key("1 h", Deduplicated(store_name="kept"))),
        ("kept-store", lambda stream: stream.to_table().suppress(Suppressed.until_time_limit(1).with_name("kept"))),
    ],
)
def test_a_processor_with_a_store_that_a_step_keeps_for_itself(store, keep):
    def build(builder, stream):
        keep(stream)
        stream.process(lambda record, context: None, store, name="mine")

    assert refusal(build) == (
        f"the processor mine at HERE is connected to the store {store!r}, which the step at HERE keeps for itself; "
        "processors have the stores of tables, and stores that are added with add_state_store(...)"
    )


def test_a_reducer_does_not_take_a_key_for_the_context():
    with pytest.raises(TopologyError, match=r"reduce at .* got '<lambda>' of \(k, a, b\); a reducer gets no key"):
        StreamsBuilder().stream("in").group_by_key().reduce(lambda k, a, b: a)


def test_two_stores_of_one_name():
    assert refusal(lambda b, s: (s.group_by_key().count("counts"), s.to_table("counts"))) == (
        "two steps have a store 'counts': at HERE and at HERE; give each store a name of its own"
    )


def test_a_topic_read_as_a_stream_and_as_a_table():
    assert refusal(lambda b, s: b.table("in", store="rows")) == (
        "topic 'in' is read twice, at HERE and at HERE; read it once and derive the other: stream.to_table() or "
        "table.to_stream()"
    )


def test_a_topic_read_as_two_tables():
    assert refusal(lambda b, s: (b.table("t"), b.table("t"))).startswith("topic 't' is read twice, at HERE and at HERE")


def test_streams_of_topics_that_overlap():
    assert refusal(lambda b, s: b.stream(["other", "in"])) == (
        "the streams at HERE and HERE read topics that overlap but are not the same: in and other, in; read each topic "
        "in a stream of its own and merge them"
    )


def test_a_topic_read_with_two_types():
    assert refusal(lambda b, s: b.stream("in", value=int)) == (
        "topic 'in' is read with different types or timestamps at HERE and HERE; read it once and use the stream twice"
    )


def test_a_topic_read_twice_in_the_same_way_is_fine():
    builder = StreamsBuilder()
    for out in ("one", "two"):
        builder.stream("in", value=int).to(out)
    assert [sub.source_topics for sub in builder.build().sub_topologies] == [("in",)]


def test_a_name_that_no_topic_can_have():
    assert refusal(lambda b, s: s.to("my topic")) == (
        "the topic of to at HERE: 'my topic' cannot be a topic's name: use 1 to 249 letters, digits, dots, underscores "
        "and hyphens"
    )


def test_a_topic_that_is_a_repartition_topic_too():
    assert refusal(lambda b, s: (s.repartition("moved").to("out"), s.to("moved-repartition"))) == (
        "the step at HERE writes topic 'moved-repartition', through which the step at HERE repartitions; write to a "
        "topic of another name"
    )


@pytest.mark.kip("328-02")
def test_a_retention_shorter_than_size_and_grace():
    kept = Materialized.as_("counts").with_retention(14)
    assert refusal(lambda b, s: s.group_by_key().windowed_by(WINDOWS).count(materialized=kept)) == (
        "the store 'counts' at HERE keeps windows for 14 ms, but windows of 10 ms with 5 ms of grace need 15 ms; use "
        "with_retention(15) or more, or a shorter grace period"
    )


def test_a_split_without_branches():
    assert refusal(lambda b, s: s.split()) == "split at HERE has no branches: add some with .branch(predicate)"


def test_a_second_default_branch():
    def build(builder, stream):
        split = stream.split()
        split.default_branch("one")
        split.default_branch("two")

    assert refusal(build) == "default_branch at HERE: the split at HERE has a default branch; remove one"


def test_two_branches_of_one_name():
    assert refusal(lambda b, s: s.split("by-").branch(YES, "a").branch(YES, "a").no_default_branch()) == (
        "two steps have the name 'by-a': at HERE and at HERE; give each step a name of its own"
    )


def test_a_repartition_into_no_partitions():
    assert refusal(lambda b, s: s.repartition("moved", partitions=0)) == (
        "the partitions of repartition at HERE: a topic has at least 1 partition, got 0"
    )


# --- arguments -------------------------------------------------------------------------------------------------------

WRONG_ARGUMENTS = {
    "stream of no topics": (
        lambda b, s: b.stream([]),
        "stream at HERE reads at least one topic; got an empty list; name a topic",
    ),
    "stream of something else": (
        lambda b, s: b.stream(["a", 5]),
        "the topic of stream at HERE must be of type str; got 5 of type int",
    ),
    "table of two topics": (
        lambda b, s: b.table(["a", "b"]),
        "the topic of table at HERE must be of type str; got ['a', 'b'] of type list; a table is made of one topic",
    ),
    "to nothing": (
        lambda b, s: s.to(None),
        "the topic of to at HERE must be of type str; got None of type NoneType; or a function of (key, value) or "
        "(key, value, context) that gives it",
    ),
    "merge with a topic": (
        lambda b, s: s.merge("other"),
        "the other stream of merge at HERE must be of type KStream; got 'other' of type str; use to_stream() on a "
        "table",
    ),
    "merge with another builder's stream": (
        lambda b, s: s.merge(StreamsBuilder().stream("other")),
        "merge at HERE: the two streams come from different builders; begin both with the same one",
    ),
    "cogroup with another builder's stream": (
        lambda b, s: s.group_by_key().cogroup(ADDS).cogroup(StreamsBuilder().stream("other").group_by_key(), ADDS),
        "cogroup at HERE: the grouped streams come from different builders; begin all with the same one",
    ),
    "merge of different types": (
        lambda b, s: s.merge(b.stream("other", key=int, value=float)),
        "merge at HERE: the streams have different types, str -> json and int -> float; bring them to the same ones "
        "with map or map_values",
    ),
    "windows that are a duration": (
        lambda b, s: s.group_by_key().windowed_by("10 minutes"),
        "windowed_by at HERE takes TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows, for example "
        "TimeWindows.of_size_and_grace(...); got '10 minutes' of type str",
    ),
    "partitions as text": (
        lambda b, s: s.repartition(partitions="4"),
        "the partitions of repartition at HERE must be of type int; got '4' of type str",
    ),
    "a store's name as materialized": (
        lambda b, s: s.group_by_key().count(materialized="counts"),
        "materialized= at HERE must be of type Materialized; got 'counts' of type str; give a store's name alone as "
        "store=",
    ),
    "a number as a store": (
        lambda b, s: s.group_by_key().count(5),
        "store= at HERE must be of type str; got 5 of type int; it is the name of the store; give a "
        "Materialized as materialized=",
    ),
    "a store's name with a space": (
        lambda b, s: s.group_by_key().count("my counts"),
        "'my counts' at HERE cannot be a name: use 1 to 249 letters, digits, dots, underscores and hyphens",
    ),
    "a store's name that is too long for files": (
        lambda b, s: s.group_by_key().count("n" * 210),
        f"the store {'n' * 210!r} at HERE has a name of 210 letters, and files and topics are named after it; use at "
        "most 200",
    ),
    "a repartition topic's name that is too long for files": (
        lambda b, s: s.select_key(lambda key, value: key).group_by_key().count("n" * 190),
        f"the repartition topic '{'n' * 190}-repartition' at HERE has a name of 202 letters, and files and topics are "
        "named after it; use at most 200",
    ),
    "a step's name with a slash": (
        lambda b, s: s.filter(YES, name="a/b"),
        "'a/b' at HERE cannot be a name: use 1 to 249 letters, digits, dots, underscores and hyphens",
    ),
    "a step's name that is a folder": (
        lambda b, s: s.filter(YES, name=".."),
        "'..' at HERE cannot be a name: use 1 to 249 letters, digits, dots, underscores and hyphens",
    ),
    "no function": (
        lambda b, s: s.filter(5),
        "filter at HERE takes a function of (key, value); got 5 of type int; write lambda key, value: ...",
    ),
    "a predicate of the value alone": (
        lambda b, s: s.filter(ONE),
        "filter at HERE takes a function of (key, value); got '<lambda>' of (value); write lambda key, value: ...",
    ),
    "a mapper of the value alone": (
        lambda b, s: s.map(ONE),
        "map at HERE takes a function of (key, value); got '<lambda>' of (value); did you mean map_values?",
    ),
    "a mapper of three": (
        lambda b, s: s.map_values(lambda a, b, c, d: a),
        "map_values at HERE takes a function of (value) or (key, value); got '<lambda>' of (a, b, c, d); write lambda "
        "value: ...",
    ),
    "an initial value instead of an initializer": (
        lambda b, s: s.group_by_key().aggregate(0, lambda key, value, total: total),
        "aggregate at HERE takes a function without arguments; got 0 of type int; the initializer comes first: "
        "a function without "
        "arguments that gives the first aggregate, such as lambda: 0",
    ),
    "an aggregator of two": (
        lambda b, s: s.group_by_key().aggregate(int, lambda value, total: total),
        "aggregate at HERE takes a function of (key, value, aggregate); got '<lambda>' of (value, total); "
        "write lambda key, value, aggregate: ...",
    ),
    "a subtractor of two": (
        lambda b, s: s.to_table().group_by(lambda key, value: (key, value)).aggregate(int, lambda k, v, a: a, YES),
        "aggregate at HERE takes a function of (key, value, aggregate); got '<lambda>' of (key, value); "
        "write lambda key, value, aggregate: ...",
    ),
    "a reducer of one": (
        lambda b, s: s.group_by_key().reduce(ONE),
        "reduce at HERE takes a function of (aggregate, value); got '<lambda>' of (value); a reducer gets no key; "
        "aggregate(...) does, and a third argument called context is that of the record",
    ),
    "a timestamp": (
        lambda b, s: b.stream("timed", timestamp=5),
        "timestamp at HERE takes a function of (value) or (key, value); got 5 of type int; write lambda value: ...",
    ),
    "a columnar function where records are taken one by one": (
        lambda b, s: s.flat_map_values(halves),
        "flat_map_values at HERE calls its function once for each record; got the columnar function 'halves'; remove "
        "@columnar",
    ),
}


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_a_wrong_argument_is_refused_at_the_call(name):
    build, message = WRONG_ARGUMENTS[name]
    assert refusal(build) == message


# --- versioned stores (KIP-914) ---------------------------------------------------------------------------------------


@pytest.mark.kip("914-10")
def test_suppressing_updates_of_a_versioned_table():
    def build(b, s):
        table = b.table("prices", materialized=Materialized.as_versioned("versions", history_retention=10))
        large = table.filter(YES).map_values(ONE)
        large.suppress(Suppressed.until_time_limit(10).with_name("hold"))

    assert refusal(build) == (
        "'hold' at HERE suppresses updates of a versioned table: it is kept in the versioned store 'versions' since "
        "HERE, and every version of it counts (KIP-914). Suppress the table before it is materialized as versioned, or "
        "materialize it again in an unversioned store: filter or map_values with store=<name>"
    )


@pytest.mark.kip("914-10")
def test_updates_of_a_table_that_is_versioned_no_more_may_be_suppressed():
    def build(b, s):
        table = b.table("prices", materialized=Materialized.as_versioned("versions", history_retention=10))
        plain = table.filter(YES, store="plain")
        plain.suppress(Suppressed.until_time_limit(10).with_name("hold"))

    assert "hold" in built(build).describe()


def join_with_grace(kept, grace):
    return lambda b, s: s.join(b.table("prices", value=str, materialized=kept), BOTH, grace=grace, name="late")


def test_a_grace_period_without_versions():
    assert refusal(join_with_grace(Materialized.as_("plain"), 10)) == (
        "the join 'late' at HERE has a grace period of 10 ms, but its table is not versioned: when a record has "
        "waited, the value that was valid at its time is no longer known. Keep the table in a versioned store, with "
        "Materialized.as_versioned(name, history_retention=...), or join without grace"
    )


def test_a_grace_period_beyond_the_history():
    assert refusal(join_with_grace(Materialized.as_versioned("versions", history_retention=5), 10)) == (
        "the join 'late' at HERE has a grace period of 10 ms, but its table's store 'versions' keeps a history of 5 "
        "ms; make the history retention at least as long"
    )


def test_joins_that_cannot_be():
    other = StreamsBuilder().table("other")
    assert refusal(lambda b, s: s.join(other, BOTH)) == (
        "join at HERE joins streams or tables of two builders; make both sides with the same StreamsBuilder"
    )
    assert refusal(lambda b, s: s.left_join(b.table("numbers", key=int), BOTH)) == (
        "left_join at HERE: the left side has keys of type str, the right side of type int, so equal keys are not "
        "equal bytes. Bring one side to the other's type with select_key or map, or read its topic with another key="
    )
    assert refusal(lambda b, s: s.join(b.table("t"), BOTH, key_selector=YES)) == (
        "join at HERE: a key selector is for global tables; before the join with a table use select_key"
    )
    assert refusal(lambda b, s: s.join(b.global_table("g"), BOTH)) == (
        "join with a global table: key_selector at HERE takes a function of (key, value); got None of type NoneType; "
        "give key_selector=lambda key, value: ..., which returns a key of the global table"
    )
    assert refusal(lambda b, s: s.join(b.global_table("g"), BOTH, key_selector=YES, grace=5)) == (
        "join at HERE: a global table has no versions, so there is no grace period; leave it out"
    )
    assert refusal(lambda b, s: s.join(5, BOTH)) == (
        "join at HERE joins a stream with a stream, a table or a global table; got 5 of type int; "
        "builder.stream(topic), "
        "builder.table(topic) and builder.global_table(topic) return them"
    )
    assert refusal(lambda b, s: s.join(b.table("t"), BOTH, JoinWindows.of_time_difference_with_no_grace(5))) == (
        "join at HERE: windows= is for two streams, and the other side is a table; a table is looked up without windows"
    )
    assert refusal(lambda b, s: s.outer_join(b.table("t"), BOTH, None)) == (
        "outer_join at HERE joins two streams; with a table use join or left_join, since a table has no records that "
        "could wait for a partner"
    )
    assert refusal(lambda b, s: s.left_join(s, BOTH, grace=5)) == (
        "left_join at HERE: grace= is for tables, but the other side is a stream; for streams use windows= and "
        "stream_joined="
    )


def test_two_sides_of_a_join_with_different_numbers_of_partitions():
    def build(b, s):
        table = s.repartition("left", partitions=2).to_table()
        s.repartition("right", partitions=3).join(table, BOTH, name="both")

    assert refusal(build) == (
        "the join 'both' at HERE needs topics with the same number of partitions, so that equal keys meet in one task, "
        "but 'right-repartition' has 3, 'left-repartition' has 2; send one side through repartition(partitions=...)"
    )


def test_windows_in_a_versioned_store():
    kept = Materialized.as_versioned("versions", history_retention=10)
    assert refusal(lambda b, s: s.group_by_key().windowed_by(WINDOWS).count(materialized=kept)) == (
        "the store 'versions' at HERE is versioned, but windows are kept in window stores; use Materialized.as_(name), "
        "with with_retention(...) to keep windows for longer"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    {
        "negative retention": (
            lambda: Materialized.as_versioned("s", -1),
            "the history retention must not be negative, got -1 (-1 ms)",
        ),
        "no segments": (
            lambda: Stores.persistent_versioned_key_value_store("s", "1 h", 0),
            "the segment interval of store 's' must be positive, got 0",
        ),
        "no retention": (
            lambda: Materialized(store="s", kind="versioned"),
            "the store 's': a history retention belongs to versioned stores and to no others; use "
            "Materialized.as_versioned(name, history_retention=...)",
        ),
    }.values(),
)
def test_a_versioned_store_that_cannot_be(make, message):
    with pytest.raises(ConfigError) as refused:
        make()
    assert str(refused.value) == message


def test_kafkas_name_for_the_error_is_an_alias():
    with pytest.raises(TopologyException):
        StreamsBuilder().build()


@pytest.mark.parametrize("given", [{"name": ""}, {"name": ".."}, {"store": "a b"}])
def test_a_join_of_streams_with_a_name_that_none_can_bear_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(TopologyError, match=r"cannot be a name: use 1 to 249 letters, digits"):
        StreamJoined(**given)


def test_a_negative_retention_is_refused_however_it_is_given() -> None:
    with pytest.raises(ConfigError, match="the retention must not be negative, got -1"):
        Materialized("counts", retention_ms=-1)


def test_windows_that_have_to_be_kept_for_longer_than_times_go_are_refused() -> None:
    long = 2**62
    assert refusal(
        lambda builder, stream: stream.group_by_key().windowed_by(TimeWindows.of_size_and_grace(long, long)).count()
    ) == (
        "the windows of 'KSTREAM-AGGREGATE-0000000002' at HERE and their grace period need 9223372036854775808 ms, "
        "more than 9223372036854775807 ms, the largest time; use a shorter grace period"
    )
    windows = JoinWindows.of_time_difference_and_grace(long, 1)
    assert "need 9223372036854775809 ms" in refusal(lambda builder, stream: stream.join(stream, BOTH, windows))
