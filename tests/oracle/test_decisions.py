"""Cases that are compared as ``differences.json`` says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import BufferFullError, ProcessingError
from penstock.testing.oracle.decisions import Decisions
from penstock.testing.oracle.functions import CaseError
from penstock.testing.oracle.outcome import Outcome

HERE = Path(__file__).parent
DECISIONS = Decisions.beside(HERE / "cases")
SLIDING = {"type": "SlidingWindows", "time_difference_ms": 5, "grace_ms": 2}
TUMBLING = {"type": "TimeWindows", "size_ms": 10, "grace_ms": 5}


def load(name: str) -> Any:
    return json.loads((HERE / "cases" / f"{name}.json").read_text())


def row(key: str, start: int, end: int, value: str, topic: str = "final") -> dict[str, Any]:
    return {
        "after": 0,
        "topic": topic,
        "key": {"key": key, "start": start, "end": end},
        "value": value,
        "timestamp": start,
    }


def record(timestamp: int) -> dict[str, Any]:
    return {"topic": "in", "key": "a", "value": "x", "timestamp": timestamp}


def case(windows: Any, last_steps: list[Any], output: list[Any], *times: int) -> Any:
    """A case that writes all updates of windows to ``raw``, and what its last steps make of them to ``final``."""
    topology = [
        {"id": "s0", "op": "stream", "topic": "in"},
        {"id": "s1", "op": "group_by_key", "of": "s0"},
        {"id": "s2", "op": "windowed_by", "of": "s1", "windows": windows},
        *last_steps,
    ]
    expected = {"output": output, "dropped": [], "stores": {}}
    return {
        "name": "made-up",
        "config": {},
        "topology": topology,
        "input": [record(time) for time in (0, *times)],
        "expected": expected,
    }


def compared(case: Any, *output: Any) -> list[str]:
    return DECISIONS.differences(case, Outcome(output=list(output)))


# --- final results of sliding windows --------------------------------------------------------------------------------

SUPPRESSED = [
    {"id": "s3", "op": "count", "of": "s2"},
    {"id": "s4", "op": "to_stream", "of": "s3"},
    {"id": "s5", "op": "to", "of": "s4", "topic": "raw"},
    {"id": "s6", "op": "suppress", "of": "s3", "until": "window_closes"},
    {"id": "s7", "op": "to_stream", "of": "s6"},
    {"id": "s8", "op": "to", "of": "s7", "topic": "final"},
]
TWICE = case(SLIDING, SUPPRESSED, [row("a", 0, 5, "x"), row("a", 0, 5, "xy"), row("b", 1, 6, "z")], 7, 100)
GROUPED = [
    *SUPPRESSED[:4],
    {"id": "s9", "op": "group_by", "of": "s6"},
    {"id": "s10", "op": "count", "of": "s9"},
    {"id": "s7", "op": "to_stream", "of": "s10"},
    {"id": "s8", "op": "to", "of": "s7", "topic": "final"},
]
"""What comes behind a second aggregation has keys of its own."""


def under_cuts(case: Any, *output: Any) -> list[str]:
    return DECISIONS.differences(case, Outcome(output=list(output), total_order=False))


def test_a_sliding_window_that_kafka_emits_twice_is_to_come_out_once_with_its_last_result() -> None:
    assert compared(TWICE, row("a", 0, 5, "xy"), row("b", 1, 6, "z")) == []
    assert compared(TWICE, row("b", 1, 6, "z"), row("a", 0, 5, "xy")) == []  # later


def test_a_result_that_is_not_the_last_one_or_missing_or_repeated_is_a_difference() -> None:
    first, last, other = row("a", 0, 5, "x"), row("a", 0, 5, "xy"), row("b", 1, 6, "z")
    key_a = json.dumps(last["key"], sort_keys=True)
    shown = {k: v for k, v in other.items() if k != "after"}
    assert compared(TWICE, first, other)[0].startswith('output to final: unexpected {"topic": "final"')
    assert compared(TWICE, last) == [f"output to final: missing {json.dumps(shown)}"]
    assert compared(TWICE, last, last, other) == [f"output to final: 2 results for {key_a}"]


def test_a_window_that_kafka_emits_at_the_very_end_may_be_held() -> None:
    at_the_end = case(SLIDING, SUPPRESSED, [row("a", 0, 5, "x"), row("b", 1, 6, "y")], 8)
    assert compared(at_the_end, row("a", 0, 5, "x")) == []
    assert len(compared(at_the_end, row("b", 1, 6, "y"))) == 1


def test_records_without_a_value_do_not_move_the_very_end() -> None:
    at_the_end = case(SLIDING, SUPPRESSED, [row("a", 0, 5, "x"), row("b", 1, 6, "y")], 8, 50)
    at_the_end["input"][-1]["value"] = None
    assert compared(at_the_end, row("a", 0, 5, "x")) == []


def test_when_no_record_comes_just_as_a_window_closes_the_comparison_is_plain() -> None:
    never = case(SLIDING, SUPPRESSED, [row("a", 0, 5, "x"), row("b", 1, 6, "y")], 6, 100)
    assert compared(never, row("a", 0, 5, "x"), row("b", 1, 6, "y")) == []
    assert len(compared(never, row("b", 1, 6, "y"), row("a", 0, 5, "x"))) == 2
    assert len(compared(never, row("a", 0, 5, "x"))) == 1


def grouped(*times: int) -> Any:
    return case(
        SLIDING, [dict(step) for step in GROUPED], [regrouped("k", 1), regrouped("k", 2), regrouped("l", 1)], *times
    )


def regrouped(key: str, count: int) -> dict[str, Any]:
    return {"after": 0, "topic": "final", "key": key, "value": count, "timestamp": 0}


def test_behind_an_aggregation_the_keys_count_where_results_came_at_other_times() -> None:
    assert compared(grouped(7, 100), regrouped("l", 1), regrouped("k", 1)) == []
    assert compared(grouped(7, 100), regrouped("k", 2)) == ['output to final: missing key "l"']
    assert compared(grouped(7, 100), *map(regrouped, "klm", [2, 1, 1])) == ['output to final: unexpected key "m"']
    assert compared(grouped(7), regrouped("k", 2)) == []  # the window that closes at the very end may be held


def test_the_stores_of_such_an_aggregation_have_the_keys_that_are_expected() -> None:
    kept = grouped(7, 100)
    (count,) = (step for step in kept["topology"] if step["id"] == "s10")
    count["materialized"] = {"store": "again"}
    kept["expected"]["stores"] = {"again": [["k", 2, 0], ["l", 1, 0]]}
    output = [regrouped("k", 1), regrouped("l", 1)]

    def differ(*rows: list[Any]) -> list[str]:
        return DECISIONS.differences(kept, Outcome(output=output, stores={"again": list(rows)}))

    assert differ(["k", 1, 0], ["l", 1, 0]) == []
    assert differ(["k", 1, 0]) == ['store again: missing key "l"']


def test_behind_an_aggregation_of_the_same_results_at_the_same_times_the_comparison_is_plain() -> None:
    same = grouped(6, 100)
    assert compared(same, *same["expected"]["output"]) == []
    assert len(compared(same, regrouped("k", 2), regrouped("l", 1))) == 3


def test_topics_that_are_not_behind_the_suppression_are_compared_plainly() -> None:
    plain = case(SLIDING, SUPPRESSED, [row("a", 0, 5, "x", "raw"), row("a", 0, 5, "xy", "raw")])
    assert compared(plain, *plain["expected"]["output"]) == []
    assert compared(plain, row("a", 0, 5, "xy", "raw"))[0].startswith("output: row 0 is")


def test_other_windows_behind_a_suppression_are_compared_plainly() -> None:
    tumbling = case(TUMBLING, SUPPRESSED, [row("a", 0, 5, "x"), row("a", 0, 5, "xy")])
    assert DECISIONS.comparison_of(tumbling) is None
    assert compared(tumbling, *tumbling["expected"]["output"]) == []
    assert len(compared(tumbling, row("a", 0, 5, "xy"))) == 1


def of_two_streams(output: list[Any]) -> Any:
    """Sliding windows of a cogroup, whose streams have a time each."""
    made = case(SLIDING, SUPPRESSED, output, 7, 100)
    made["topology"][1:2] = [
        {"id": "g0", "op": "group_by_key", "of": "s0"},
        {"id": "g1", "op": "group_by_key", "of": "s0"},
        {"id": "s1", "op": "cogroup", "streams": [{"of": "g0"}, {"of": "g1"}]},
    ]
    return made


def test_a_window_of_a_cogroup_may_come_out_again_as_often_as_kafka_emits_it_or_less() -> None:
    results = [row("a", 0, 5, "x"), row("b", 1, 6, "z"), row("a", 0, 5, "xy"), row("a", 0, 5, "xyz")]
    cogroup = of_two_streams(results)
    assert compared(cogroup, *results) == []
    assert compared(cogroup, results[0], results[1], results[3]) == []
    assert len(compared(cogroup, results[0], results[1])) == 1  # the last one is missing
    assert len(compared(cogroup, results[1], results[3], results[0])) == 2  # in order, and the last one last


def test_a_buffer_that_shuts_down_may_be_full_earlier_than_kafkas() -> None:
    limited = case(SLIDING, [dict(step) for step in SUPPRESSED], [row("a", 0, 5, "x"), row("b", 1, 6, "y")], 7, 100)
    limited["topology"][-3]["buffer_config"] = {"max_records": 1, "when_full": "shut_down"}
    full = Outcome(output=[row("a", 0, 5, "x")], error=BufferFullError("full"), error_when="run", error_after=1)
    assert DECISIONS.differences(limited, full) == []
    full.output[0]["after"] = 1  # it waited for another record
    assert DECISIONS.differences(limited, full) == []
    full.output.append(row("c", 0, 5, "x"))
    assert len(DECISIONS.differences(limited, full)) == 1
    del limited["topology"][-3]["buffer_config"]
    full.output.pop()
    assert DECISIONS.differences(limited, full) != []


# --- emission on close -----------------------------------------------------------------------------------------------


def on_close(retention: int | None) -> Any:
    steps = [
        {"id": "s3", "op": "emit_strategy", "of": "s2", "strategy": "on_window_close"},
        {"id": "s4", "op": "count", "of": "s3", "materialized": {"store": "agg", "retention_ms": retention}},
        {"id": "s5", "op": "to_stream", "of": "s4"},
        {"id": "s6", "op": "to", "of": "s5", "topic": "final"},
    ]
    return case(TUMBLING, steps, [row("a", 0, 10, "x"), row("b", 0, 10, "y")])


@pytest.mark.parametrize("retention", [None, 15])
def test_with_default_retention_results_that_kafka_lost_may_come_out_too(retention: int | None) -> None:
    a, b, lost = row("a", 0, 10, "x"), row("b", 0, 10, "y"), row("a", 20, 30, "z")
    assert compared(on_close(retention), a, b) == []
    assert compared(on_close(retention), a, lost, b) == []
    assert len(compared(on_close(retention), a, b, lost, lost)) == 1  # each window once
    assert len(compared(on_close(retention), b, a)) == 1  # in the same order
    assert len(compared(on_close(retention), a, lost)) == 1


def test_with_a_longer_retention_the_comparison_is_plain() -> None:
    assert DECISIONS.comparison_of(on_close(16)) is None
    assert len(compared(on_close(16), row("a", 0, 10, "x"), row("b", 0, 10, "y"), row("a", 20, 30, "z"))) == 1


def test_behind_an_aggregation_final_results_that_kafka_lost_may_be_counted_too() -> None:
    gathered = on_close(None)
    gathered["topology"][-2:-2] = [
        {"id": "g", "op": "group_by", "of": "s4"},
        {"id": "c", "op": "count", "of": "g", "materialized": {"store": "again"}},
    ]
    gathered["topology"][-2]["of"] = "c"
    gathered["expected"] |= {"output": [regrouped("k", 1)], "stores": {"again": [["k", 1, 0]]}}
    results = [regrouped("k", 1), regrouped("k", 2), regrouped("l", 1)]

    def differ(output: list[Any], *rows: list[Any]) -> list[str]:
        return DECISIONS.differences(gathered, Outcome(output=output, stores={"again": list(rows)}))

    assert differ(results, ["k", 2, 0], ["l", 1, 0]) == []
    assert differ(results[2:], ["k", 2, 0]) == ['output to final: missing key "k"']
    assert differ(results, ["l", 1, 0]) == ['store again: missing key "k"']


# --- what fails in Kafka Streams for no reason -----------------------------------------------------------------------


def test_what_kafka_fails_at_for_no_reason_goes_on() -> None:
    failing = case({"type": "SlidingWindows", "time_difference_ms": 0}, SUPPRESSED, [])
    failing["expected"] = {
        "output": [row("a", 0, 0, "x")],
        "error": {"when": "run", "after": 1, "message": "Window endMs must be greater than window startMs."},
    }
    assert compared(failing, row("a", 0, 0, "x"), row("b", 0, 0, "y")) == []
    assert len(compared(failing, row("b", 0, 0, "y"))) == 1
    failed = Outcome(error=ProcessingError("no"), error_when="run", error_after=1)
    assert DECISIONS.differences(failing, failed) == ["failed (run): ProcessingError: no"]


def test_a_versioned_table_that_is_suppressed_is_refused_unless_windows_of_a_cogroup_lie_between() -> None:
    message = "Invalid topology: suppress() is only supported for non-versioned KTables"
    refused = {"error": {"type": "TopologyException", "when": "build", "message": message}}
    plain = case(SLIDING, SUPPRESSED, [])
    plain["expected"] = refused
    assert compared(plain) == ["did not fail, expected TopologyException (build)"]
    cogroup = of_two_streams([])
    cogroup["expected"] = refused
    assert compared(cogroup) == []


# --- caching ---------------------------------------------------------------------------------------------------------


def came_out(name: str, topic: str, rows: list[Any]) -> list[str]:
    """A recorded case in which a topic has other rows than Kafka Streams gave it, all else being as expected."""
    recorded = load(name)
    expected = recorded["expected"]
    others = [row for row in expected["output"] if row["topic"] != topic]
    whole = Outcome(others + rows, expected["dropped"], [], expected["stores"], metrics=expected["metrics"])
    return DECISIONS.differences(recorded, whole)


def test_windows_that_are_joined_may_send_every_update_as_long_as_the_last_ones_are_kafkas() -> None:
    name = "caching-joined-windows"
    counted = [row for row in load(name)["expected"]["output"] if row["topic"] == "counted"]
    between = [{**row, "value": 1} for row in counted]
    assert came_out(name, "counted", [row for pair in zip(between, counted, strict=True) for row in pair]) == []
    assert len(came_out(name, "counted", between)) == 3
    assert len(came_out(name, "counted", counted[1:])) == 1
    assert len(came_out(name, "elsewhere", [row("a", 0, 20, "x", "elsewhere")])) == 1


def test_a_join_need_not_find_a_window_that_only_kafkas_cache_shows_but_nothing_else_comes_out() -> None:
    name = "caching-join-finds-expired-window"
    assert came_out(name, "out", []) == []
    assert len(came_out(name, "out", [row("b", 100, 120, "1|1", "out")])) == 1


def test_a_read_need_not_find_a_window_that_only_kafkas_cache_shows() -> None:
    recorded = load("caching-read-expired-window")
    expected = recorded["expected"]
    (found,) = expected["reads"]
    assert [row[0] for row in found["result"]] == [0, 100]

    def differ(rows: list[Any]) -> list[str]:
        reads = [{**found, "result": rows}]
        outcome = Outcome([], [], reads, expected["stores"], metrics=expected["metrics"])
        return DECISIONS.differences(recorded, outcome)

    assert differ(found["result"][1:]) == []
    assert len(differ(found["result"][:1])) == 1
    assert len(differ([[95, 1, 95], *found["result"]])) == 1


def test_of_what_is_lost_in_kafka_more_keys_may_come_out_and_let_windows_behind_expire() -> None:
    name = "close-jump-then-sliding-store"
    recorded = load(name)
    later = [[{"key": "", "start": 373, "end": 385}, 1, 385]]
    of_now = Outcome([], [], [], {"store2": later}, metrics={})
    assert DECISIONS.differences(recorded, of_now) == []
    recorded["expected"]["stores"]["store2"][0][0].update(start=473, end=485)
    assert len(DECISIONS.differences(recorded, of_now)) == 1


# --- the file itself -------------------------------------------------------------------------------------------------


def test_every_case_that_the_file_names_has_a_comparison() -> None:
    assert len(DECISIONS.cases) == 4
    assert [name for name in DECISIONS.cases if DECISIONS.comparison_of(load(name)) is None] == []


def test_a_left_join_with_grace_forwards_a_record_without_a_key() -> None:
    named = load("stream-table-left-join-grace-null-key")

    def joined(key: Any, timestamp: int) -> Any:
        return {"after": 0, "topic": "out", "key": key, "value": "v", "timestamp": timestamp}

    assert compared(named, joined(None, 5), joined("k", 1), joined("k", 20)) == []
    assert compared(named, joined("k", 1)) == ["without a key came out [], expected [5] (timestamps)"]
    failed = Outcome(error=ProcessingError("no key"), error_when="run", error_after=2)
    assert DECISIONS.differences(named, failed) == ["failed (run): ProcessingError: no key"]


def test_without_the_file_every_case_is_compared_plainly(tmp_path: Path) -> None:
    nothing = Decisions.beside(tmp_path / "cases")
    assert nothing == Decisions()
    assert [name for name in DECISIONS.cases if nothing.comparison_of(load(name)) is not None] == []


def test_a_rule_or_a_case_without_a_comparison_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "differences.json"
    file.write_text(json.dumps({"cases": {}, "rules": [{"when": "it rains"}]}))
    with pytest.raises(CaseError, match="rules that this runner does not know: it rains"):
        Decisions.beside(tmp_path / "cases")
    file.write_text(json.dumps({"cases": {"made-up": "Something else."}, "rules": []}))
    with pytest.raises(CaseError, match="names the case made-up, and this runner does not know how to compare it"):
        Decisions.beside(tmp_path / "cases").comparison_of(TWICE)


def test_a_table_of_a_text_that_kafka_does_not_follow_names_the_test_that_shows_what_is_done():
    tables = json.loads((HERE / "differences.json").read_text())["tables_of_the_texts"]
    assert tables
    for table in tables:
        file, name = table["shown_by"].split("::")
        assert f"def {name}(" in (HERE.parents[1] / file).read_text(), table["table"]


# --- joins with caching, and what meets by way of several topics ------------------------------------------------------


def of_tables(steps: list[Any], *rows: Any, **config: Any) -> Any:
    """A case that joins two tables; the first one caches, as tables do."""
    topology = [{"id": "t0", "op": "table", "topic": "in"}, {"id": "t1", "op": "table", "topic": "right"}, *steps]
    return {**case(TUMBLING, [], list(rows)), "topology": topology, "config": config}


def joined(key: str, value: Any, after: int = 0, topic: str = "final") -> dict[str, Any]:
    return {"after": after, "topic": topic, "key": key, "value": value, "timestamp": after}


JOINED = [
    {"id": "j", "op": "join", "of": "t0", "with": "t1"},
    {"id": "s", "op": "to_stream", "of": "j"},
    {"id": "o", "op": "to", "of": "s", "topic": "final"},
]
CACHING = {"statestore.cache.max.bytes": 1000}
SELF_JOINED = [{"id": "j", "op": "join", "of": "t0", "with": "t0", "foreign_key_extractor": {}}, *JOINED[1:]]


def test_with_caching_a_join_of_tables_may_have_fewer_updates_and_ends_the_same() -> None:
    cached = of_tables(JOINED, joined("a", "1"), joined("a", "1"), joined("b", "2"), **CACHING)
    assert compared(cached, joined("a", "1"), joined("b", "2")) == []
    assert compared(cached, joined("a", "1"), joined("b", "3")) != []
    assert compared(cached, joined("a", "1")) != []
    assert compared({**cached, "config": {}}, joined("a", "1"), joined("b", "2")) != []


def test_with_caching_what_is_not_behind_a_join_is_compared_plainly() -> None:
    beside = [{"id": "s1", "op": "to_stream", "of": "t1"}, {"id": "o1", "op": "to", "of": "s1", "topic": "beside"}]
    cached = of_tables(
        [*JOINED, *beside], joined("a", "1", topic="beside"), joined("a", "1", topic="beside"), **CACHING
    )
    assert compared(cached, joined("a", "1", topic="beside")) != []


def test_under_cuts_what_one_record_brings_by_several_topics_ends_the_same() -> None:
    own = of_tables(SELF_JOINED, joined("a", "1"), joined("a", "2"))
    assert under_cuts(own, joined("a", "2")) == []
    assert under_cuts(own, joined("a", "2"), joined("a", "1")) != []
    assert compared(own, joined("a", "2")) != []  # in the test driver plainly
    apart = of_tables(JOINED, joined("a", "1"), joined("a", "2"))
    assert under_cuts(apart, joined("a", "2")) != []


def test_under_cuts_what_comes_through_a_topic_of_the_topologys_own_ends_the_same() -> None:
    through = [
        {"id": "s0", "op": "to_stream", "of": "t0"},
        {"id": "o0", "op": "to", "of": "s0", "topic": "again"},
        {"id": "t2", "op": "table", "topic": "again"},
        {**JOINED[0], "of": "t2"},
        *JOINED[1:],
    ]
    case = of_tables(through, joined("a", "1"), joined("a", "2"))
    assert under_cuts(case, joined("a", "2")) == []
    assert under_cuts(case, joined("a", "1")) != []


def test_counts_of_a_table_end_the_same_and_texts_may_tell_the_order() -> None:
    def grouped_by(**step: Any) -> Any:
        group = {"id": "g", "op": "group_by", "of": "j"}
        steps = [SELF_JOINED[0], group, {"id": "r", "of": "g", **step}, {**JOINED[1], "of": "r"}, JOINED[2]]
        return of_tables(steps, joined("a", 1))

    assert under_cuts(grouped_by(op="count"), joined("a", 2)) != []
    texts = grouped_by(op="reduce", adder={"fn": "concat"}, subtractor={"fn": "remove"})
    assert under_cuts(texts, joined("a", 2)) == []


def test_under_cuts_sides_of_a_cogroup_that_share_a_source_end_in_any_order_beside_one_that_does_not() -> None:
    rekeyed = [{"id": "m", "op": "flat_map", "of": "s0"}, {"id": "s1", "op": "stream", "topic": "other"}]
    groups = [{"id": f"g{n}", "op": "group_by_key", "of": of} for n, of in enumerate(("m", "m", "s1"))]
    streams = [{"of": group["id"]} for group in groups]
    last = [{"id": "s", "op": "to_stream", "of": "a"}, {"id": "o", "op": "to", "of": "s", "topic": "final"}]

    def cogroup(*of: Any) -> Any:
        steps = [{"id": "c", "op": "cogroup", "streams": list(of)}, {"id": "a", "op": "aggregate", "of": "c"}]
        topology = [{"id": "s0", "op": "stream", "topic": "in"}, *rekeyed, *groups, *steps, *last]
        return {**case(TUMBLING, [], [joined("a", "pqr")]), "topology": topology}

    assert under_cuts(cogroup(*streams), joined("a", "rpq")) == []
    assert compared(cogroup(*streams), joined("a", "rpq")) != []
    assert under_cuts(cogroup(*streams[1:]), joined("a", "rpq")) != []


def test_under_cuts_a_foreign_key_join_may_say_more_on_the_way_where_its_left_table_is_behind_a_topic() -> None:
    join = {"id": "j", "op": "join", "of": "t0", "with": "t1", "foreign_key_extractor": {}}
    plain = of_tables([join, *JOINED[1:]], joined("a", "1"))
    assert under_cuts(plain, joined("a", "0"), joined("a", "1")) != []
    grouped = [{"id": "g", "op": "group_by", "of": "t0"}, {"id": "n", "op": "count", "of": "g"}]
    behind = of_tables([*grouped, {**join, "of": "n"}, *JOINED[1:]], joined("a", "1"))
    assert under_cuts(behind, joined("a", "0"), joined("a", "1")) == []
    assert under_cuts(behind, joined("a", "0")) != []


def test_under_cuts_a_topic_that_others_write_as_well_ends_in_any_order() -> None:
    loop = [
        {"id": "s0", "op": "to_stream", "of": "t1"},
        {"id": "o0", "op": "to", "of": "s0", "topic": "in"},
        {**JOINED[1], "of": "t0"},
        JOINED[2],
    ]
    case = of_tables(loop, joined("a", "1"))
    assert under_cuts(case, joined("a", "2")) == []
    assert compared(case, joined("a", "2")) != []
    assert under_cuts({**case, "input": []}, joined("a", "2")) != []  # nobody else writes it


def test_with_caching_groups_that_are_empty_may_be_there_or_not() -> None:
    def grouped_by(*output: Any, **step: Any) -> Any:
        group = {"id": "g", "op": "group_by", "of": "j"}
        steps = [JOINED[0], group, {"id": "r", "of": "g", **step}, {**JOINED[1], "of": "r"}, JOINED[2]]
        return of_tables(steps, *output, **CACHING)

    counted = grouped_by(joined("a", 1), op="count")
    assert compared(counted, joined("a", 1), joined("b", 1), joined("b", 0)) == []
    assert compared(grouped_by(joined("a", 1), joined("b", 0), op="count"), joined("a", 1)) == []
    stored = {**counted, "topology": [*counted["topology"]]}
    stored["topology"][-3] = {**stored["topology"][-3], "materialized": {"store": "n"}}
    stored["expected"] = {**stored["expected"], "stores": {"n": [["a", 1]]}}

    def with_rows(*rows: Any) -> list[str]:
        return DECISIONS.differences(stored, Outcome(output=[joined("a", 1)], stores={"n": list(rows)}))

    assert with_rows(["a", 1], ["b", 0]) == []
    assert with_rows(["a", 1], ["b", 2]) != []
    assert with_rows(["a", 0]) != []


def test_with_caching_streams_that_leave_updates_out_tell_the_way() -> None:
    filtered = [JOINED[0], JOINED[1], {"id": "f", "op": "filter", "of": "s"}, {**JOINED[2], "of": "f"}]
    assert compared(of_tables(filtered, joined("a", "1"), **CACHING), joined("a", "0")) == []
    of_table = [JOINED[0], {"id": "f", "op": "filter", "of": "j"}, {**JOINED[1], "of": "f"}, JOINED[2]]
    assert compared(of_tables(of_table, joined("a", "1"), **CACHING), joined("a", "0")) != []


def test_a_named_group_that_is_counted_and_cogrouped_is_not_refused() -> None:
    message = "Invalid topology: Processor g-repartition-filter is already added."
    refused = {"when": "build", "type": "TopologyException", "message": message}
    group = {"id": "g", "op": "group_by", "of": "s0", "name": "g"}
    cogroup = {"id": "c", "op": "cogroup", "streams": [{"of": "g"}]}
    shared = case(TUMBLING, [group, cogroup, {"id": "n", "op": "count", "of": "g"}], [])
    shared["expected"] = {"error": refused}
    assert DECISIONS.differences(shared, Outcome()) == []
    shared["topology"].pop()
    assert DECISIONS.differences(shared, Outcome()) != []
