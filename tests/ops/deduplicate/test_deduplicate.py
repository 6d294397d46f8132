"""Deduplication of streams, as the text of KIP-655 has it: its sequences and examples, and what follows from them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock import Deduplicated, StreamsBuilder, Suppressed, TimeWindows
from penstock.errors import ProcessingError
from support.flows import Row, Run, source, windowed

S = 1000
T = 100 * S
KEPT, DROPPED = "kept", "dropped"
DUPLICATES = "duplicates-dropped-total"
STORED = "entries-stored-total"
PURGED = "entries-purged-total"


def fates(run: Run, rows: list[tuple[Any, ...]], interval: Any = "10 s") -> list[tuple[Any, int, str]]:
    """Key and time of records, with what becomes of them under ``deduplicate_by_key``."""
    builder, stream = source(value=int)
    stream.deduplicate_by_key(interval).to("out")
    numbered = [(key, number, timestamp) for number, (key, timestamp, *_) in enumerate(rows)]
    output = run(builder, numbered).output()
    assert output == [row for row in numbered if row in output]  # unchanged, and in their order
    return [(key, timestamp, KEPT if (key, n, timestamp) in output else DROPPED) for key, n, timestamp in numbered]


# --- the text's sequences --------------------------------------------------------------------------------------------

SEQUENCES = {
    "duplicates": [("a", T, KEPT), ("a", T + 8 * S, DROPPED), ("a", T + 11 * S, KEPT)],
    "duplicates out of order": [("a", T, KEPT), ("a", T - 8 * S, DROPPED), ("a", T - 11 * S, KEPT)],
}

ENDS = {
    "the ends are inclusive": [("a", 5 * S, KEPT), ("a", 15 * S, DROPPED), ("a", 16 * S, KEPT)],
    "out of order as well": [("a", 15 * S, KEPT), ("a", 5 * S, DROPPED), ("a", 4 * S, KEPT)],
}

LATE = {
    "example 1": [
        ("k", 20 * S, KEPT),
        ("k", 25 * S, DROPPED),
        ("k", 11 * S, DROPPED),  # late, but its duplicate at 20 s is still there
        ("k", 9 * S, KEPT),
    ],
    "example 2": [("k1", 10 * S, KEPT), ("k2", 20 * S, KEPT), ("k1", 9 * S, DROPPED)],
    "example 3": [("k1", 10 * S, KEPT), ("k2", 21 * S, KEPT), ("k1", 9 * S, KEPT)],
}


@pytest.mark.kip("655-01")
@pytest.mark.kip("655-07")
@pytest.mark.parametrize("name", SEQUENCES)
def test_a_duplicate_is_dropped_and_leaves_no_trace(run: Run, name: str):
    assert fates(run, SEQUENCES[name]) == SEQUENCES[name]


@pytest.mark.kip("655-08")
@pytest.mark.parametrize("name", ENDS)
def test_both_ends_of_the_interval_belong_to_it(run: Run, name: str):
    assert fates(run, ENDS[name]) == ENDS[name]


@pytest.mark.kip("655-08")
def test_an_interval_of_0_drops_what_has_the_very_same_time(run: Run):
    rows = [("a", 5 * S, KEPT), ("a", 5 * S, DROPPED), ("a", 6 * S, KEPT), ("a", 5 * S, KEPT), ("a", 6 * S, DROPPED)]
    assert fates(run, rows, 0) == rows


@pytest.mark.kip("655-09")
@pytest.mark.parametrize("name", LATE)
def test_a_late_record_is_forwarded_if_no_duplicate_is_in_the_store(run: Run, name: str):
    assert fates(run, LATE[name]) == LATE[name]


@pytest.mark.kip("655-09")
def test_a_record_that_is_late_by_more_than_the_interval_is_not_remembered(run: Run):
    rows = [("b", 50 * S, KEPT), ("a", 39 * S, KEPT), ("a", 39 * S, KEPT), ("a", 40 * S, KEPT), ("a", 39 * S, DROPPED)]
    assert fates(run, rows) == rows


@pytest.mark.kip("655-10")
def test_each_record_sees_the_store_purged_at_its_own_stream_time(run: Run):
    rows = [
        ("a", 10 * S, KEPT),
        ("b", 20 * S, KEPT),
        ("a", 3 * S, DROPPED),  # the entry at 10 s is still there
        ("b", 20 * S + 1, DROPPED),  # now it is purged
        ("a", 3 * S, KEPT),
        ("a", 12 * S, KEPT),
        ("a", 3 * S, DROPPED),
    ]
    assert fates(run, rows) == rows


@pytest.mark.kip("655-09")
def test_records_without_a_key_move_stream_time_too(run: Run):
    rows = [("a", 10 * S, KEPT), (None, 21 * S, KEPT), ("a", 9 * S, KEPT), ("a", 12 * S, KEPT)]
    assert fates(run, rows) == rows


def test_an_interval_may_be_longer_than_all_of_time(run: Run):
    rows = [("a", 5, KEPT), ("a", 2**62, DROPPED), ("b", 2**63 - 1, KEPT), ("a", 0, DROPPED)]
    assert fates(run, rows, 2**63 - 1) == rows


# --- ids -------------------------------------------------------------------------------------------------------------


def fetch_id(key: Any, value: Any) -> Any:
    return None if value is None else value.get("id")


BY_ID = [
    ("k1", {"id": "x", "n": 1}, 1),
    ("k1", {"id": "x", "n": 2}, 2),
    ("k2", {"id": "x", "n": 3}, 3),
    (None, {"id": "x", "n": 4}, 4),
    ("k1", {"n": 5}, 5),
    ("k1", {"id": None, "n": 6}, 6),
    ("k1", None, 7),
    (None, {"n": 8}, 8),
]


@pytest.mark.kip("655-06")
def test_records_without_a_key_are_always_forwarded_and_nothing_is_stored(run: Run):
    builder, stream = source(value=int)
    stream.deduplicate_by_key("10 s", Deduplicated.with_("keys", str, int)).to("out")
    rows = [(None, 1, 5), (None, 1, 5)]
    ran = run(builder, rows)
    assert ran.output() == rows
    assert ran.store("keys") == []


@pytest.mark.kip("655-02")
@pytest.mark.kip("655-06")
@pytest.mark.parametrize("selector", [fetch_id, "id"])
def test_by_key_and_id_a_record_needs_both_to_be_a_duplicate(run: Run, selector: Any):
    builder, stream = source(value=dict)
    stream.deduplicate_by_key_value(selector, "10 s", Deduplicated.with_("seen", str, dict)).to("out")
    ran = run(builder, BY_ID)
    assert ran.output() == [BY_ID[0], *BY_ID[2:]]
    assert ran.store("seen") == [(("k1", "x"), 0, 1), (("k2", "x"), 2, 3)]


@pytest.mark.kip("655-03")
@pytest.mark.kip("655-06")
@pytest.mark.parametrize("selector", [fetch_id, "id"])
def test_by_id_alone_the_key_does_not_matter_and_is_kept(run: Run, selector: Any):
    builder, stream = source(value=dict)
    stream.deduplicate(selector, "10 s", Deduplicated.with_("seen", str, dict)).to("out")
    ran = run(builder, BY_ID)
    assert ran.output() == [BY_ID[0], *BY_ID[4:]]
    assert ran.store("seen") == [("x", 0, 1)]


@pytest.mark.kip("655-03")
def test_what_groups_the_result_of_the_global_form_by_key_repartitions_again(run: Run):
    builder, stream = source(value=dict)
    stream.deduplicate("id", "10 s").group_by_key(name="again").count().to_stream().to("out")
    topology = builder.build()
    assert topology.internal_topics == {"KSTREAM-DEDUPLICATE-0000000001-repartition", "again-repartition"}
    rows = [("a", {"id": 1}, 1), ("b", {"id": 1}, 2), ("a", {"id": 2}, 3)]
    assert run(topology, rows).output() == [("a", 1, 1), ("a", 2, 3)]


@pytest.mark.kip("655-13")
def test_ids_are_the_same_if_their_bytes_are(run: Run):
    builder, stream = source(value=float)
    stream.deduplicate_by_key_value(lambda key, value: value, "10 s", Deduplicated.key_serde(float)).to("out")
    rows = [("a", 1.0, 1), ("a", float("nan"), 2), ("a", float("nan"), 3), ("a", 0.0, 4), ("a", -0.0, 5), ("a", 1.0, 6)]
    output = run(builder, rows).output()
    assert [(key, str(value), time) for key, value, time in output] == [
        ("a", "1.0", 1),
        ("a", "nan", 2),  # nan is not equal to nan, but its bytes are
        ("a", "0.0", 4),
        ("a", "-0.0", 5),  # and the other way round
    ]


@pytest.mark.kip("655-13")
def test_a_key_and_an_id_do_not_run_into_each_other(run: Run):
    builder, stream = source(value=str)
    stream.deduplicate_by_key_value(lambda key, value: value, "10 s", Deduplicated.key_serde(str)).to("out")
    rows = [("ab", "c", 1), ("a", "bc", 2), ("abc", "", 3), ("", "abc", 4)]
    assert run(builder, rows).output() == rows


def test_keys_are_compared_in_the_type_that_is_given(run: Run):
    builder, stream = source(key=float, value=int)
    stream.deduplicate_by_key("10 s", Deduplicated.key_serde(int)).to("out", key=float)
    with pytest.raises(ProcessingError, match=r"the serde 'int' cannot encode 1\.5 of type float"):
        run(builder, [(1.5, 1, 1)]).output()


# --- fields ----------------------------------------------------------------------------------------------------------


class Payload(msgspec.Struct):
    id: str | None = None


class Event(msgspec.Struct):
    payload: Payload | None = None


FIELDS = [
    ("a", {"payload": {"id": "x"}}, 1),
    ("a", {"payload": {"id": "\u00e9\n"}}, 2),
    ("a", {"payload": {"id": "x"}, "more": [1, {"id": "y"}]}, 3),
    ("a", {"payload": {"id": "\u00e9\n"}}, 4),
    ("a", {"payload": {}}, 5),
    ("a", {"payload": {}}, 6),
    ("a", {}, 7),
]
NOT_OBJECTS = [("a", {"payload": None}, 8), ("a", {"payload": "x"}, 9), ("a", None, 10), ("a", {"payload": [1]}, 11)]


@pytest.mark.parametrize("others", [[], NOT_OBJECTS])
def test_a_path_leads_into_the_value_and_to_nothing_where_there_is_no_such_field(run: Run, others: list[Row]):
    builder, stream = source()
    stream.deduplicate_by_key_value("payload.id", "1 s").to("out")
    expected = [row for row in FIELDS + others if row[2] not in (3, 4)]
    assert run(builder, FIELDS + others).output() == expected


def test_a_path_leads_into_values_that_a_function_made(run: Run):
    builder, stream = source()
    stream.map_values(lambda value: value).deduplicate_by_key_value("payload.id", "1 s").to("out")
    assert run(builder, FIELDS + NOT_OBJECTS).output() == [r for r in FIELDS + NOT_OBJECTS if r[2] not in (3, 4)]


DOTTED = [
    ("a", {"payload.id": "x"}, 1),
    ("a", {"payload": {"id": "x"}}, 2),
    ("a", {"payload.id": "y", "payload": {}}, 3),
    ("a", {"payload.id": "y", "payload": {"id": None}}, 4),
    ("a", {"payload.id": "x", "payload": {"id": "z"}}, 5),
    ("a", None, 6),
]


@pytest.mark.parametrize("made", [False, True])
def test_a_name_may_have_dots_itself_and_what_is_nested_goes_before_that(run: Run, made: bool):
    builder, stream = source()
    values = stream.map_values(lambda value: value) if made else stream
    values.deduplicate_by_key_value("payload.id", "1 s").to("out")
    assert [timestamp for _, _, timestamp in run(builder, DOTTED).output()] == [1, 3, 4, 5, 6]


def test_a_path_leads_through_classes(run: Run):
    builder, stream = source(value=Event)
    stream.deduplicate_by_key_value("payload.id", "1 s").to("out")
    rows = [("a", Event(Payload("x")), 1), ("a", Event(), 2), ("a", Event(Payload("x")), 3), ("a", None, 4)]
    assert run(builder, rows).output() == [rows[0], rows[1], rows[3]]


def test_a_field_may_be_called_anything_and_hold_anything(run: Run):
    builder, stream = source()
    stream.deduplicate_by_key_value("event-id", "1 s").to("out")
    ids = [1, 1.0, "1", [1], {"a": 1}, True, 1, "1", [1], {"a": 1}, True]
    rows = [("a", {"event-id": id_}, 1 + number) for number, id_ in enumerate(ids)]
    assert run(builder, rows).output() == rows[:6]


def test_names_of_what_dicts_and_texts_can_do_are_not_fields(run: Run):
    builder, stream = source()
    stream.map_values(lambda value: value).deduplicate_by_key_value("title", "1 s").to("out")
    rows = [("a", "text", 1), ("a", "text", 2), ("a", {"title": "x"}, 3), ("a", {"title": "x"}, 4)]
    assert run(builder, rows).output() == rows[:3]


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.kip("655-13")
@pytest.mark.parametrize("form", ["deduplicate", "deduplicate_by_key_value"])
def test_a_selector_that_raises_or_gives_what_cannot_be_written_follows_on_error(run: Run, form: str):
    builder, stream = source(value=int)
    getattr(stream, form)(lambda key, value: {0: 1 // value, 1: object()}.get(value - 1, "x"), "10 s").to("out")
    rows = [("a", 3, 10), ("b", 0, 11), ("c", 2, 12), ("a", 4, 13), ("d", 5, 99 * S)]
    ran = run(builder, rows, on_error="skip")
    kept = [rows[0], rows[4]]
    assert ran.output() == kept
    reasons = {reason: count for (_, reason), count in ran.counted("skipped-records-total").items()}
    assert reasons == {"ZeroDivisionError": 1, "SerdeError": 1}


def test_a_record_that_fails_does_not_move_stream_time(run: Run):
    builder, stream = source(value=int)
    stream.deduplicate_by_key_value(lambda key, value: 1 // value, 10).to("out")
    rows = [("a", 1, 10), ("a", 0, 1000), ("a", 1, 0)]
    assert run(builder, rows, on_error="skip").output() == rows[:1]


# --- a changed key ---------------------------------------------------------------------------------------------------


@pytest.mark.kip("655-05")
def test_a_changed_key_repartitions_under_the_name_that_is_given(run: Run):
    builder, stream = source(value=int)
    stream.select_key(lambda key, value: str(value)).deduplicate_by_key("1 s", Deduplicated.as_("once")).to("out")
    topology = builder.build()
    assert topology.internal_topics == {"once-repartition"}
    assert run(topology, [("a", 1, 1), ("b", 1, 2), ("c", 2, 3)]).output() == [("1", 1, 1), ("2", 2, 3)]


@pytest.mark.kip("655-05")
def test_the_name_of_the_store_is_not_that_of_the_repartition_topic():
    builder, stream = source(value=int)
    named = Deduplicated.with_("seen", str, int).with_name("once")
    stream.select_key(lambda key, value: str(value)).deduplicate_by_key("1 s", named).to("out")
    topology = builder.build()
    assert topology.internal_topics == {"once-repartition"}
    assert "seen" in topology.facts.named()


@pytest.mark.kip("655-05")
def test_without_a_name_the_repartition_topic_gets_a_generated_one():
    for form, arguments in (("deduplicate_by_key", []), ("deduplicate_by_key_value", ["id"])):
        builder, stream = source()
        getattr(stream.select_key(lambda key, value: key), form)(*arguments, "1 s").to("out")
        assert builder.build().internal_topics == {"KSTREAM-DEDUPLICATE-0000000002-repartition"}


@pytest.mark.kip("655-12")
def test_of_two_duplicates_behind_a_repartition_the_first_is_forwarded(run: Run):
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, value=int) for topic in ("left", "right"))
    left.merge(right).select_key(lambda key, value: "k").deduplicate_by_key("10 s").to("out")
    rows = [("right", "b", 1, 2 * S), ("left", "a", 2, S), ("right", "b", 3, 20 * S), ("left", "a", 4, 20 * S)]
    assert run(builder, rows).output() == [("k", 1, 2 * S), ("k", 3, 20 * S)]


# --- what is left out, and what is kept ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "arguments"),
    [("deduplicate_by_key", []), ("deduplicate_by_key_value", ["id"]), ("deduplicate", ["id"])],
)
def test_dropped_records_can_be_looked_at_in_a_topic_of_their_own(run: Run, form: str, arguments: list[Any]):
    builder, stream = source()
    getattr(stream, form)(*arguments, "10 s", dropped_to="dropped").to("out")
    rows = [("a", {"id": 1}, 5), ("a", {"id": 1}, 6), ("b", {"id": 2}, 7), ("a", {"id": 1}, 4)]
    ran = run(builder, rows)
    assert ran.output() == [rows[0], rows[2]]
    assert ran.output("dropped") == [rows[1], rows[3]]


@pytest.mark.kip("655-16")
def test_duplicates_entries_and_purged_entries_are_counted(run: Run):
    builder, stream = source(value=int)
    stream.deduplicate_by_key("10 s", Deduplicated("once", "keys")).to("out")
    rows = [
        ("a", 1, 10 * S),  # an entry
        ("a", 2, 11 * S),  # a duplicate
        ("b", 3, 15 * S),  # an entry
        (None, 4, 16 * S),
        ("c", 5, 20 * S),  # an entry; all three are there
        ("a", 6, 20 * S + 1),  # purges the entry of a, and makes one
        ("d", 7, 5 * S),  # too late to be one
    ]
    ran = run(builder, rows)
    assert ran.counted(DUPLICATES) == {("once", ""): 1}
    assert ran.counted(STORED) == {("once", ""): 4}
    assert ran.counted(PURGED) == {("once", ""): 1}
    assert ran.store("keys") == [("a", 5, 20 * S + 1), ("b", 2, 15 * S), ("c", 4, 20 * S)]
    assert ran.dropped() == {}


@pytest.mark.kip("655-11")
def test_the_store_knows_the_time_and_the_offset_of_the_record_that_was_forwarded(run: Run):
    builder, stream = source(value=int)
    stream.filter(lambda key, value: value > 0).deduplicate_by_key("10 s", Deduplicated.with_("keys", str, int)).to("o")
    ran = run(builder, [("a", 0, 5), ("a", 1, 6), ("b", 1, 4), ("a", 1, 7)])
    assert ran.store("keys") == [("a", 1, 6), ("b", 2, 4)]
    assert ran.driver.store("keys").get_with_timestamp("a") == (1, 6)
    assert ran.driver.store("keys").get("c") is None


@pytest.mark.kip("655-11")
def test_a_record_that_no_record_caused_has_no_offset_and_is_always_deduplicated(run: Run):
    builder, stream = source(value=str)
    counts = stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count()
    final = Suppressed.until_window_closes()
    soon, later = (counts.suppress(final.with_idle_advance(idle)).to_stream() for idle in (8, 16))
    soon.merge(later).deduplicate_by_key("10 s", Deduplicated("once", "keys")).to("out")
    ran = run(builder, [("a", "x", 3)], processing_guarantee="at_least_once")
    assert ran.output() == []
    ran.driver.advance_wall_clock_time(8)
    assert ran.output() == [(windowed("a", 0, 10), 1, 3)]
    assert ran.store("keys") == [(windowed("a", 0, 10), -1, 3)]
    ran.driver.advance_wall_clock_time(8)  # the same key, time and, if they had any, offset
    assert ran.output() == []
    assert ran.counted(DUPLICATES) == {("once", ""): 1}
