"""Joins of versioned tables that correct the past: ``versioned_join="complete"`` ('Attempt 2' of KIP-914's text)."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Materialized, StreamsBuilder
from penstock.errors import ConfigError, TopologyError
from penstock.testing.cuts import CutDriver
from support.flows import Run, pipe_rows

pytestmark = pytest.mark.kip("914-15")


def versioned(name, history_retention=1000):
    return Materialized.as_versioned(name, history_retention, segment_interval=7)


def pair(left, right):
    return f"{left} {right}"


def tables(builder, retentions=(1000, 1000)):
    """The versioned tables ``A`` and ``B``."""
    return [
        builder.table(topic, value=str, materialized=versioned(topic.lower(), retention))
        for topic, retention in zip("AB", retentions, strict=True)
    ]


def joined(method="join", retentions=(1000, 1000), **options):
    """A complete join of ``A`` and ``B`` into ``out``."""
    builder = StreamsBuilder()
    left, right = tables(builder, retentions)
    result = getattr(left, method)(right, pair, value=str, versioned_join="complete", **options)
    result.to_stream().to("out")
    return builder


# --- the sequences of the text ---------------------------------------------------------------------------------------


def test_every_result_that_a_record_out_of_order_changes_is_emitted(run: Run):
    rows = [
        ("A", "k", "a0", 0),
        ("A", "k", "a5", 5),
        ("B", "k", "b2", 2),
        ("B", "k", "b3", 3),
        ("B", "k", "b4", 4),
        ("A", "k", "a1", 1),
    ]
    ran = run(joined(), rows)
    assert ran.output() == [
        ("k", "a0 b2", 2),
        ("k", "a5 b2", 5),
        ("k", "a0 b3", 3),
        ("k", "a5 b3", 5),
        ("k", "a0 b4", 4),
        ("k", "a5 b4", 5),
        ("k", "a1 b2", 2),
        ("k", "a1 b3", 3),
        ("k", "a1 b4", 4),
    ]
    assert ran.dropped() == {}


def test_the_result_that_attempt_1_leaves_wrong_is_corrected(run: Run):
    rows = [
        ("A", "k", "a0", 0),
        ("B", "k", "b0", 0),
        ("A", "k", "a4", 4),
        ("B", "k", "b3", 3),
        ("B", "k", "b2", 2),
        ("A", "k", "a1", 1),
    ]
    assert run(joined(), rows).output() == [
        ("k", "a0 b0", 0),
        ("k", "a4 b0", 4),
        ("k", "a0 b3", 3),
        ("k", "a4 b3", 4),
        ("k", "a0 b2", 2),
        ("k", "a1 b0", 1),
        ("k", "a1 b2", 2),  # was (a0, b2)
        ("k", "a1 b3", 3),
    ]


def test_the_newest_result_stays_the_newest(run: Run):
    rows = [
        ("A", "k", "a0", 0),
        ("A", "k", "a4", 4),
        ("B", "k", "b2", 2),
        ("B", "k", "b1", 1),
    ]
    assert run(joined(), rows).output() == [
        ("k", "a0 b2", 2),
        ("k", "a4 b2", 4),
        ("k", "a0 b1", 1),
    ]


# --- one side without a value ----------------------------------------------------------------------------------------

ALONE = [
    ("A", "k", "a5", 5),
    ("B", "k", "b2", 2),
    ("A", "k", None, 7),
    ("B", "k", None, 6),
    ("A", "k", "a0", 0),
]


def test_a_join_ends_where_one_of_the_sides_does(run: Run):
    assert run(joined(), ALONE).output() == [
        ("k", "a5 b2", 5),
        ("k", None, 7),
        ("k", None, 6),
        ("k", "a0 b2", 2),
    ]


def test_a_left_join_has_a_result_whenever_the_left_side_has_a_value(run: Run):
    assert run(joined("left_join"), ALONE).output() == [
        ("k", "a5 None", 5),
        ("k", "a5 b2", 5),
        ("k", None, 7),
        ("k", "a5 None", 6),
        ("k", "a0 None", 0),
        ("k", "a0 b2", 2),
    ]


def test_an_outer_join_has_a_result_whenever_either_side_has_a_value(run: Run):
    assert run(joined("outer_join"), ALONE).output() == [
        ("k", "a5 None", 5),
        ("k", "None b2", 2),
        ("k", "a5 b2", 5),
        ("k", "None b2", 7),
        ("k", "a5 None", 6),
        ("k", None, 7),
        ("k", "a0 None", 0),
        ("k", "a0 b2", 2),
    ]


def test_a_result_that_begins_in_the_past_ends_at_deletions_that_came_before(run: Run):
    rows = [
        ("A", "k", None, 5),  # there is no result that it could end
        ("B", "k", "b0", 0),
        ("A", "k", "a3", 3),  # valid until 5
        ("B", "k", None, 4),
        ("A", "k", "a1", 1),
    ]
    assert run(joined(), rows).output() == [
        ("k", "a3 b0", 3),
        ("k", None, 5),
        ("k", None, 4),
        ("k", "a1 b0", 1),
    ]


def test_a_deletion_at_the_very_time_of_a_value_is_remembered(run: Run):
    """Kafka Streams' versioned stores forget it if there was nothing before, and a0 would be valid for ever."""
    rows = [
        ("B", "k", "b0", 0),
        ("B", "k", "b7", 7),
        ("A", "k", "a5", 5),
        ("A", "k", None, 5),
        ("A", "k", "a0", 0),
    ]
    assert run(joined(), rows).output() == [
        ("k", "a5 b0", 5),
        ("k", "a5 b7", 7),
        ("k", None, 5),
        ("k", None, 7),
        ("k", "a0 b0", 0),
        ("k", None, 5),
    ]


# --- history ---------------------------------------------------------------------------------------------------------


def test_what_the_other_side_has_forgotten_is_not_joined(run: Run):
    rows = [
        ("B", "k", "b0", 0),
        ("B", "k", "b25", 25),
        ("B", "k", "b30", 30),  # B's history begins at 20
        ("A", "k", "a5", 5),
        ("A", "k", "a28", 28),
    ]
    assert run(joined(retentions=(1000, 10)), rows).output() == [
        ("k", "a5 b0", 20),
        ("k", "a5 b25", 25),
        ("k", "a5 b30", 30),
        ("k", "a28 b25", 28),
        ("k", "a28 b30", 30),
    ]


def test_records_older_than_the_history_of_their_own_side_change_nothing(run: Run):
    rows = [("A", "k", "a30", 30), ("B", "k", "b30", 30), ("A", "k", "a19", 19)]
    ran = run(joined(retentions=(10, 1000)), rows)
    assert ran.output() == [("k", "a30 b30", 30)]
    assert sum(ran.dropped().values()) == 1


# --- downstream ------------------------------------------------------------------------------------------------------

CORRECTED = [
    ("A", "k", "a0", 0),
    ("A", "k", "a5", 5),
    ("B", "k", "b2", 2),
    ("A", "k", "a3", 3),
]


def test_the_result_can_be_kept_in_a_versioned_store(run: Run):
    ran = run(joined(materialized=versioned("joined")), CORRECTED)
    store = ran.driver.store("joined")
    assert [store.get_version("k", as_of=time) for time in (1, 2, 3, 5)] == [
        None,
        ("a0 b2", 2, 3),
        ("a3 b2", 3, 5),
        ("a5 b2", 5, None),
    ]


def test_the_result_is_a_versioned_table_that_streams_can_look_into(run: Run):
    builder = StreamsBuilder()
    left, right = tables(builder)
    both = left.join(right, pair, value=str, versioned_join="complete").filter(lambda key, value: value != "a5 b2")
    builder.stream("in", value=str).join(both, pair, value=str).to("out")
    looks = [("in", "k", f"at {time}", time) for time in (1, 2, 3, 5)]
    assert run(builder, CORRECTED + looks).output() == [("k", "at 2 a0 b2", 2), ("k", "at 3 a3 b2", 3)]


def test_only_the_newest_results_count_for_what_is_not_versioned(run: Run):
    builder = StreamsBuilder()
    left, right = tables(builder)
    both = left.left_join(right, pair, value=str, versioned_join="complete")
    both.group_by(lambda key, value: ("all", value), value=str).aggregate(
        list,
        lambda key, value, seen: [*seen, value],
        lambda key, value, seen: [one for one in seen if one != value],
        value=list,
    ).to_stream().to("out")
    assert run(builder, CORRECTED).output() == [
        ("all", ["a0 None"], 0),
        ("all", ["a5 None"], 5),
        ("all", ["a5 b2"], 5),
    ]


def test_a_result_can_be_joined_completely_once_more(run: Run):
    builder = StreamsBuilder()
    left, right = tables(builder)
    both = left.join(right, pair, value=str, versioned_join="complete")
    third = builder.table("C", value=str, materialized=versioned("c"))
    both.join(third, pair, value=str, versioned_join="complete").to_stream().to("out")
    rows = [("C", "k", "c0", 0), ("C", "k", "c4", 4), *CORRECTED]
    assert run(builder, rows).output() == [
        ("k", "a0 b2 c0", 2),
        ("k", "a0 b2 c4", 4),
        ("k", "a5 b2 c4", 5),
        ("k", "a3 b2 c0", 3),
        ("k", "a3 b2 c4", 4),
    ]


def test_a_table_can_be_joined_with_what_is_made_of_it(run: Run):
    builder = StreamsBuilder()
    left, _ = tables(builder)
    upper = left.map_values(str.upper, value=str)
    left.join(upper, pair, value=str, versioned_join="complete").to_stream().to("out")
    rows = [("A", "k", "a1", 1), ("A", "k", "a3", 3), ("A", "k", "a2", 2), ("A", "k", None, 4)]
    assert run(builder, rows).output() == [
        *[("k", "a1 A1", 1)] * 2,  # both sides change
        *[("k", "a3 A3", 3)] * 2,
        *[("k", "a2 A2", 2)] * 2,
        *[("k", None, 4)] * 2,
    ]


# --- a slow, obvious reference ---------------------------------------------------------------------------------------

END = 12
KEYS = "xy"


class Table:
    """The puts of each key; one of a later time ends the one before, and of equal times the last one counts."""

    def __init__(self):
        self.versions = {}

    def put(self, key, value, time):
        self.versions.setdefault(key, {})[time] = value

    def as_of(self, key, time):
        puts = self.versions.get(key, {})
        return puts[max(begin for begin in puts if begin <= time)] if any(begin <= time for begin in puts) else None


def what_it_should_be(method, left, right):
    if method == "join" and (left is None or right is None):
        return None
    if left is None and (method == "left_join" or right is None):
        return None
    return pair(left, right)


changes = st.lists(
    st.tuples(
        st.sampled_from("AB"),
        st.sampled_from(KEYS),
        st.sampled_from([None, "1", "2", "3"]),
        st.integers(0, END - 1),
    ),
    max_size=25,
)


@given(changes, st.sampled_from(["join", "left_join", "outer_join"]), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_result_read_as_a_versioned_table_is_right_at_every_timestamp(rows, method, cuts):
    topology = joined(method, materialized=versioned("joined")).build()
    sides, result = {"A": Table(), "B": Table()}, Table()
    with CutDriver(topology, cuts, statestore_cache_max_bytes=0) as driver:
        for topic, key, value, time in rows:
            sides[topic].put(key, value, time)
        pipe_rows(driver, rows)
        for key, value, time in [record[:3] for record in driver.read_output("out")]:
            result.put(key, value, time)
        store = driver.store("joined")
        for key in KEYS:
            for time in range(END + 1):
                expected = what_it_should_be(method, *(side.as_of(key, time) for side in sides.values()))
                assert result.as_of(key, time) == expected
                assert store.get(key, as_of=time) == expected


def grouped(other, method, is_kept):
    """How many keys have each newest result of ``A`` joined with another table."""
    builder = StreamsBuilder()
    left, right = tables(builder)
    right = {"another table": right, "itself": left, "itself, mapped": left.map_values(str.upper, value=str)}[other]
    options = {"materialized": versioned("joined")} if is_kept else {}
    result = getattr(left, method)(right, pair, value=str, versioned_join="complete", **options)
    result.to_stream().to("results")
    result.group_by(lambda key, value: (value, value), key=str, value=str).count().to_stream().to("out")
    return builder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("other", "is_kept"),
    [("another table", False), ("another table", True), ("itself", True), ("itself, mapped", True)],
)
@given(changes, st.sampled_from(["join", "left_join", "outer_join"]), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_groups_of_results_are_those_of_the_newest_ones(other, is_kept, rows, method, cuts):
    newest, counts = {}, {}
    with CutDriver(grouped(other, method, is_kept).build(), cuts, statestore_cache_max_bytes=0) as driver:
        pipe_rows(driver, rows)
        for key, value, time in [record[:3] for record in driver.read_output("results")]:
            if time >= newest.get(key, (None, 0))[1]:
                newest[key] = value, time
        counts.update(record[:2] for record in driver.read_output("out"))
    values = [value for value, _ in newest.values() if value is not None]
    assert {value: count for value, count in counts.items() if count} == Counter(values)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("left", "right", "named"), [("a", None, "right"), (None, "b", "left")])
def test_both_tables_must_be_versioned(left, right, named):
    builder = StreamsBuilder()
    one, other = (
        builder.table(topic, value=str, materialized=versioned(store) if store else None)
        for topic, store in (("A", left), ("B", right))
    )
    one.join(other, pair, value=str, versioned_join="complete")
    expected = rf"its {named} table, made at .*, is not versioned: .* Keep it in a versioned store"
    with pytest.raises(TopologyError, match=expected):
        builder.build()


@pytest.mark.parametrize("other", ["itself", "itself, mapped"])
def test_groups_of_a_table_joined_with_itself_need_a_store_of_the_results(other):
    expected = r"both of its sides are made from the table at .*one record changes both.*Keep the result with mat"
    with pytest.raises(TopologyError, match=expected):
        grouped(other, "join", is_kept=False).build()


def test_the_result_is_not_kept_in_an_unversioned_store():
    expected = r"in the unversioned store 'joined'\. Keep it with Materialized\.as_versioned"
    with pytest.raises(TopologyError, match=expected):
        joined(store="joined").build()


def test_a_join_by_foreign_key_is_not_complete():
    left, right = tables(StreamsBuilder())
    with pytest.raises(ConfigError, match="by a foreign key, for which there is no versioned_join='complete'"):
        left.join(right, pair, foreign_key=lambda value: value, versioned_join="complete")


def test_there_is_no_other_kind_of_versioned_join():
    left, right = tables(StreamsBuilder())
    with pytest.raises(ConfigError, match=r"versioned_join at .* must be 'latest' or 'complete'; got 'all'"):
        left.join(right, pair, versioned_join="all")
