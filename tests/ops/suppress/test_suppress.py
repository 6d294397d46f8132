"""suppress: which updates of a table are held back, and when and in what order they go (KIP-328)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock import BufferConfig, PenstockWarning, StreamsBuilder, Suppressed, TimeWindows, UnlimitedWindows
from penstock.engine.local import LocalApplication
from penstock.errors import BufferFullError, ConfigError, ProcessingError, TopologyError
from penstock.log.consume import consume
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from support.flows import Ran, Run, pipe_rows, source, windowed

FOREVER = 10**15

Table = list[tuple[Any, Any, int, str, list[Any]]]
"""A table of the text: key, value, timestamp; what the buffer holds then, as ``key=value``; what is emitted."""


def updates(suppressed: Suppressed) -> StreamsBuilder:
    """A table of the topic ``in``, its updates held back on their way to ``out``."""
    builder = StreamsBuilder()
    builder.table("in", value=str).suppress(suppressed.with_name("buffer")).to_stream().to("out")
    return builder


def final_counts(buffer: Any = None, grace: int = 0, size: int = 10) -> StreamsBuilder:
    """Final counts by key and window."""
    builder, stream = source(value=str)
    windows = TimeWindows.of_size_and_grace(size, grace)
    final = Suppressed.until_window_closes(buffer).with_name("final")
    stream.group_by_key().windowed_by(windows).count("counts").suppress(final).to_stream().to("out")
    return builder


def within(buffer: BufferConfig) -> Suppressed:
    """Only the buffer's limits let anything go."""
    return Suppressed.until_time_limit(FOREVER, buffer)


def held(ran: Ran, name: str = "buffer-store") -> str:
    return " ".join(f"{key}={value}" for key, value, _ in ran.driver.store(name).all())


def check(run: Run, suppressed: Suppressed, table: Table) -> None:
    """What is emitted, and held, after every row; and all of it when the rows come in at once."""
    step = run(updates(suppressed), [])
    for key, value, timestamp, then_held, emitted in table:
        pipe_rows(step.driver, [(key, value, timestamp)])
        assert step.output() == emitted
        assert held(step) == then_held
    at_once = run(updates(suppressed), [row[:3] for row in table])
    assert at_once.output() == [result for row in table for result in row[4]]
    assert held(at_once) == table[-1][3]


# --- the tables of the text ------------------------------------------------------------------------------------------
# An entry counts its key, the new and the old value, 28 bytes of context and the name of its topic, here 2 bytes.


def size_of(key: str, value: str, old: str = "") -> int:
    return len(key) + len(value) + len(old) + 28 + len("in")


@pytest.mark.kip("328-09")
def test_an_update_takes_the_place_of_the_one_before(run: Run):
    table: Table = [
        ("A", "x", 0, "A=x", []),
        ("A", "y", 1, "A=y", []),
    ]
    check(run, within(BufferConfig.unbounded()), table)


@pytest.mark.kip("328-09")
def test_an_update_takes_the_place_of_the_one_before_also_when_it_is_the_earlier_event(run: Run):
    table: Table = [
        ("A", "x", 1, "A=x", []),
        ("A", "w", 0, "A=w", []),
    ]
    check(run, within(BufferConfig.unbounded()), table)


@pytest.mark.kip("328-06", "328-09")
def test_a_limit_of_two_keys_lets_the_oldest_go(run: Run):
    table: Table = [
        ("A", "w", 0, "A=w", []),
        ("A", "x", 1, "A=x", []),
        ("B", "y", 2, "A=x B=y", []),
        ("C", "z", 3, "B=y C=z", [("A", "x", 1)]),
    ]
    check(run, within(BufferConfig.max_records(2)), table)


@pytest.mark.kip("328-06", "328-09")
def test_a_limit_of_bytes_lets_the_oldest_go(run: Run):
    table: Table = [
        ("A", "xx", 0, "A=xx", []),
        ("A", "yy", 1, "A=yy", []),
        ("B", "zz", 2, "B=zz", [("A", "yy", 1)]),
    ]
    check(run, within(BufferConfig.max_bytes(size_of("A", "yy", old="xx"))), table)


@pytest.mark.kip("328-04", "328-09")
def test_emit_after_2_ms_lets_all_updates_go_whose_time_has_come(run: Run):
    # the text's own table lets A go at its row for C: the time counts from A's first update at 0, not from its last
    table: Table = [
        ("A", "w", 0, "A=w", []),
        ("A", "x", 1, "A=x", []),
        ("B", "y", 2, "B=y", [("A", "x", 1)]),
        ("C", "z", 3, "B=y C=z", []),
        ("D", "z", 4, "C=z D=z", [("B", "y", 2)]),
    ]
    check(run, Suppressed.until_time_limit(2), table)


@pytest.mark.kip("328-09")
def test_late_updates_go_at_once_when_their_time_has_come_already(run: Run):
    # the text's own table has A itself come again at 1 and go; it keeps the place of its first update (328-04)
    table: Table = [
        ("A", "w", 3, "A=w", []),
        ("A", "x", 1, "A=x", []),
        ("A", "w", 3, "A=w", []),
        ("B", "x", 1, "A=w", [("B", "x", 1)]),
        ("C", "y", 1, "A=w", [("C", "y", 1)]),
        ("D", "z", 2, "D=z A=w", []),
    ]
    check(run, Suppressed.until_time_limit(2), table)


@pytest.mark.kip("328-09")
def test_with_a_limit_of_keys_a_late_update_is_the_oldest_and_goes_at_once(run: Run):
    table: Table = [
        ("A", "w", 1, "A=w", []),
        ("A", "x", 1, "A=x", []),
        ("B", "y", 2, "A=x B=y", []),
        ("C", "z", 0, "A=x B=y", [("C", "z", 0)]),
    ]
    check(run, within(BufferConfig.max_records(2)), table)


@pytest.mark.kip("328-09")
def test_with_a_limit_of_bytes_a_late_update_is_the_oldest_and_goes_at_once(run: Run):
    table: Table = [
        ("A", "xx", 1, "A=xx", []),
        ("A", "yy", 1, "A=yy", []),
        ("B", "zz", 0, "A=yy", [("B", "zz", 0)]),
    ]
    check(run, within(BufferConfig.max_bytes(size_of("A", "yy", old="xx"))), table)


@pytest.mark.kip("328-09")
def test_a_big_update_pushes_several_out(run: Run):
    table: Table = [
        ("A", "x", 0, "A=x", []),
        ("B", "y", 1, "A=x B=y", []),
        ("C", "zzz", 2, "C=zzz", [("A", "x", 0), ("B", "y", 1)]),
    ]
    check(run, within(BufferConfig.max_bytes(size_of("A", "x") + size_of("B", "y"))), table)


@pytest.mark.kip("328-09")
def test_an_update_that_does_not_fit_at_all_goes_at_once_behind_all_others(run: Run):
    oversized = "z" * 100
    table: Table = [
        ("A", "x", 0, "A=x", []),
        ("B", "y", 1, "A=x B=y", []),
        ("C", oversized, 2, "", [("A", "x", 0), ("B", "y", 1), ("C", oversized, 2)]),
    ]
    check(run, within(BufferConfig.max_bytes(size_of("A", "x") + size_of("B", "y"))), table)


@pytest.mark.kip("328-09")
def test_order_is_that_of_time_not_of_offsets(run: Run):
    # the alternative that the text rejects would keep B until A goes
    table: Table = [
        ("A", "x", 2, "A=x", []),
        ("B", "y", 1, "B=y A=x", []),
        ("C", "z", 3, "A=x C=z", [("B", "y", 1)]),
        ("C", "zz", 4, "C=zz", [("A", "x", 2)]),
    ]
    check(run, Suppressed.until_time_limit(2), table)


# --- time limits and limits of room ----------------------------------------------------------------------------------


@pytest.mark.kip("328-04")
def test_later_updates_do_not_restart_the_time(run: Run):
    table: Table = [
        ("A", "1", 0, "A=1", []),
        ("A", "2", 4, "A=2", []),
        ("A", "3", 8, "A=3", []),
        ("A", "4", 10, "", [("A", "4", 10)]),  # 10 ms after the first
        ("A", "5", 11, "A=5", []),  # the time runs anew
        ("B", "x", 20, "A=5 B=x", []),
        ("B", "y", 21, "B=y", [("A", "5", 11)]),
    ]
    check(run, Suppressed.until_time_limit(10), table)


@pytest.mark.kip("328-04")
def test_a_time_limit_of_zero_holds_nothing_back(run: Run):
    table: Table = [
        ("A", "1", 5, "", [("A", "1", 5)]),
        ("A", "2", 3, "", [("A", "2", 3)]),
        ("A", None, 9, "", [("A", None, 9)]),
    ]
    check(run, Suppressed.until_time_limit(0), table)


@pytest.mark.kip("328-04")
def test_a_deletion_is_held_back_and_sent_on_like_an_update(run: Run):
    table: Table = [
        ("A", "x", 0, "A=x", []),
        ("A", None, 1, "A=None", []),
        ("B", "y", 12, "B=y", [("A", None, 1)]),
    ]
    check(run, Suppressed.until_time_limit(10), table)


@pytest.mark.kip("328-06")
def test_all_limits_hold_together(run: Run):
    room = BufferConfig.max_records(2).with_max_bytes(size_of("A", "1") + size_of("B", "22222"))
    table: Table = [
        ("A", "1", 0, "A=1", []),
        ("B", "22222", 1, "A=1 B=22222", []),
        ("C", "3", 2, "B=22222 C=3", [("A", "1", 0)]),  # by the number of keys
        ("C", "33", 3, "C=33", [("B", "22222", 1)]),  # by bytes, with the old value
        ("D", "4", 12, "D=4", [("C", "33", 3)]),  # by time
    ]
    check(run, Suppressed.until_time_limit(10, room.emit_early_when_full()), table)


@pytest.mark.kip("328-06")
def test_no_bound_takes_limits_away_again(run: Run):
    table: Table = [(key, "x", 0, " ".join(f"{k}=x" for k in "ABC"[: n + 1]), []) for n, key in enumerate("ABC")]
    check(run, within(BufferConfig.max_records(1).with_no_bound()), table)


# --- final results of windows ----------------------------------------------------------------------------------------

ROWS = [
    ("a", "x", 1),
    ("a", "x", 5),
    ("b", "x", 8),
    ("a", "x", 12),  # stream time 12 < end 10 + grace 5
    ("b", "x", 3),  # late, but taken
    ("c", "x", 15),  # closes 0-10
    ("a", "x", 2),  # too late: dropped
    ("c", "x", 30),  # closes 10-20
]

FINAL = [
    (windowed("a", 0, 10), 2, 5),
    (windowed("b", 0, 10), 2, 8),
    (windowed("a", 10, 20), 1, 12),
    (windowed("c", 10, 20), 1, 15),
]


@pytest.mark.kip("328-03")
@pytest.mark.parametrize(
    "buffer",
    [
        BufferConfig.unbounded(),
        BufferConfig.max_bytes("1 MB").shut_down_when_full(),
        BufferConfig.max_bytes(10).spill_to_disk_when_full(),
    ],
    ids=["unbounded", "shuts down", "spills"],
)
def test_each_key_and_window_has_exactly_one_result_which_is_the_final_one(run: Run, buffer: Any):
    ran = run(final_counts(buffer, grace=5), ROWS)
    assert ran.output() == FINAL
    assert list(ran.driver.store("final-store").all()) == [(windowed("c", 30, 40), 1, 30)]


@pytest.mark.kip("328-03")
def test_equal_ends_go_in_order_of_the_keys_bytes(run: Run):
    ran = run(final_counts(), [("c", "x", 1), ("a", "x", 2), ("b", "x", 3), ("z", "x", 10)])
    assert [window.key for window, _, _ in ran.output()] == ["a", "b", "c"]


@pytest.mark.kip("328-03")
def test_deletions_of_windows_whose_results_never_went_out_are_not_sent(run: Run):
    builder, stream = source(value=str)
    tables = stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10))
    last = tables.aggregate(str, lambda key, value, before: None if value == "gone" else value, value=str)
    last.suppress(Suppressed.until_window_closes()).to_stream().to("out")
    ran = run(builder, [("a", "x", 1), ("b", "y", 2), ("a", "gone", 3), ("z", "z", 10)])
    assert ran.output() == [(windowed("b", 0, 10), "y", 2)]


@pytest.mark.kip("328-03")
def test_only_windowed_tables_have_final_results():
    builder = StreamsBuilder()
    table = builder.table("in", value=str)
    with pytest.raises(TopologyError, match="window"):
        table.suppress(Suppressed.until_window_closes())


@pytest.mark.kip("328-03")
def test_unlimited_windows_which_never_close_are_told_of():
    builder, stream = source(value=str)
    counts = stream.group_by_key().windowed_by(UnlimitedWindows.of()).count("counts")
    with pytest.warns(PenstockWarning) as told:
        counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream().to("out")
    assert [re.sub(re.escape(__file__) + r":\d+", "HERE", str(one.message)) for one in told] == [
        "suppress at HERE never sends a result: the unlimited windows of 'KSTREAM-AGGREGATE-0000000001' at HERE never "
        "close. Use Suppressed.until_time_limit(...), or windows that end"
    ]
    builder.build()  # as Kafka Streams does


def test_a_buffer_that_may_emit_early_cannot_give_final_results():
    with pytest.raises(ConfigError, match="cannot send it early"):
        Suppressed.until_window_closes(BufferConfig.max_records(5))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cannot send it early"):
        Suppressed.until_window_closes(BufferConfig.unbounded().emit_early_when_full())  # type: ignore[arg-type]


@pytest.mark.kip("328-05")
def test_the_name_is_that_of_the_node_and_of_its_store():
    described = final_counts().build().describe()
    assert "Processor: final (stores: [final-store])" in str(described)


def test_a_suppressed_table_behind_a_suppressed_table(run: Run):
    builder = StreamsBuilder()
    table = builder.table("in", value=str)
    once = table.suppress(Suppressed.until_time_limit(5).with_name("first"))
    once.suppress(Suppressed.until_time_limit(5).with_name("second")).to_stream().to("out")
    ran = run(builder, [("a", "1", 0), ("a", "2", 4), ("b", "x", 5), ("b", "y", 9), ("c", "z", 20), ("c", "z", 40)])
    # the first lets a=2 go with its time 4, then b=y with 9, then c with 40; the second sees only these times
    assert ran.output() == [("a", "2", 4), ("b", "y", 9)]


def test_headers_of_the_last_update_go_with_it(run: Run):
    ran = run(updates(Suppressed.until_time_limit(5)), [])
    ran.driver.pipe_input("in", "a", "x", 0, [("n", b"1")])
    ran.driver.pipe_input("in", "a", "y", 1, [("n", b"2"), ("m", b"")])
    ran.driver.pipe_input("in", "b", "z", 9)
    assert ran.driver.read_output("out") == [("a", "y", 1, (("n", b"2"), ("m", b"")))]


def test_what_is_grouped_behind_it_takes_the_value_last_sent_out_again(run: Run):
    builder = StreamsBuilder()
    table = builder.table("in", value=int).suppress(Suppressed.until_time_limit(5))
    by_all = table.group_by(lambda key, value: ("all", value), value=int)
    by_all.reduce(lambda total, n: total + n, lambda total, n: total - n, "sum").to_stream().to("out")
    rows = [("a", 1, 0), ("a", 2, 1), ("b", 10, 5), ("a", 7, 6), ("c", 100, 20)]
    ran = run(builder, rows)
    assert [value for _, value, _ in ran.output()][-1] == 17  # a=7 in the place of a=2, and b=10


# --- a buffer that may not emit early and is full --------------------------------------------------------------------


@pytest.mark.kip("328-08")
def test_a_full_buffer_stops_the_application_and_says_how_full_it_is(run: Run):
    rows = [("a", "x", 0), ("b", "x", 1), ("c", "x", 2)]
    with pytest.raises((ProcessingError, BufferFullError)) as caught:
        run(final_counts(BufferConfig.unbounded().with_max_records(2)), rows).output()
    assert "final buffer exceeded its max capacity. Currently [3/2] records" in str(caught.value)
    assert "nothing is lost" in str(caught.value)


@pytest.mark.kip("328-08", "328-14")
def test_after_a_stop_a_larger_buffer_goes_on_without_loss(tmp_path: Path):
    def start(most: int) -> LocalApplication:
        topology = final_counts(BufferConfig.unbounded().with_max_records(most)).build()
        storage = LocalStorage(tmp_path / "checkpoint")
        return LocalApplication(topology, "counting", Settings(), log, storage, tmp_path / "tasks")

    def fill(*rows: Any) -> None:
        produce(rows, "in", value=str, log=log)

    log = FileLog(tmp_path / "log")
    fill(("a", "x", 0), ("b", "x", 1))
    application = start(2)
    application.run_until()
    fill(("a", "x", 2), ("c", "x", 3), ("z", "x", 99))
    with pytest.raises(BufferFullError):
        application.run_until()
    application.close()
    assert list(consume("out", log=log)) == []
    application = start(3)
    application.run_until()
    application.close()
    assert [record[:3] for record in consume("out", log=log)] == [
        (windowed("a", 0, 10), 2, 2),
        (windowed("b", 0, 10), 1, 1),
        (windowed("c", 0, 10), 1, 3),
    ]


# --- what is counted -------------------------------------------------------------------------------------------------


@pytest.mark.kip("328-10", "328-13")
def test_late_records_are_counted_as_late_and_not_as_skipped(run: Run):
    ran = run(final_counts(grace=5), ROWS)
    ran.output()
    assert ran.counted("late-record-drop-total") == {("KSTREAM-AGGREGATE-0000000001", ""): 1}
    assert ran.counted("skipped-records-total") == {}
    lateness = [0, 0, 0, 0, 9, 0, 13, 0]  # stream time minus timestamp of each record
    assert ran.counted("record-lateness-max") == {("KSTREAM-SOURCE-0000000000", ""): 13}
    assert ran.counted("record-lateness-avg") == {("KSTREAM-SOURCE-0000000000", ""): sum(lateness) / 8}


@pytest.mark.kip("328-12")
def test_what_a_buffer_holds_is_measured_now_on_average_and_at_most(run: Run):
    ran = run(final_counts(), [("a", "x", 1), ("b", "x", 2), ("a", "x", 3), ("c", "x", 10)])
    assert len(ran.output()) == 2
    entry = len("a") + 8 + 8 + 8 + 28 + len("in")  # key, window, new and old count, context, topic
    held_after = [0, 1, 2, 2, 3, 1]  # at the start, after each put, and after what went at the end
    prior = 8  # a's second update also keeps the count before the first
    assert ran.counted("suppression-buffer-count-current") == {("final-store", ""): 1}
    assert ran.counted("suppression-buffer-count-max") == {("final-store", ""): 3}
    assert ran.counted("suppression-buffer-count-avg") == {("final-store", ""): sum(held_after) / 6}
    assert ran.counted("suppression-buffer-size-current") == {("final-store", ""): entry}
    assert ran.counted("suppression-buffer-size-max") == {("final-store", ""): 3 * entry + prior}
    assert ran.counted("suppression-buffer-size-avg") == {
        ("final-store", ""): (entry * sum(held_after) + 2 * prior) / 6
    }
    assert ran.counted("suppression-emit-total") == {("final", ""): 2}


@pytest.mark.kip("328-12")
def test_overtime_says_how_much_sooner_results_could_have_gone(run: Run):
    rows = [
        ("a", "x", 1),  # the last of a: due at 10 + 5, 14 later
        ("b", "x", 8),
        ("c", "x", 12),
        ("b", "x", 7),  # the last of b: 3 before it is due
        ("z", "x", 16),
    ]
    ran = run(final_counts(grace=5), rows)
    assert len(ran.output()) == 2
    overtime = "intermediate-result-suppression-overtime"
    assert ran.counted(f"{overtime}-min") == {("final", ""): 3}
    assert ran.counted(f"{overtime}-avg") == {("final", ""): (14 + 3) / 2}
    levels = {metric.level for metric in ran.driver.metrics() if metric.name.startswith(overtime)}
    assert levels == {"INFO"}, "as the text says"


@pytest.mark.kip("328-04")
def test_a_time_limit_counts_from_the_record_and_not_from_the_end_of_its_window(run: Run):
    builder, stream = source(value=str)
    limit = Suppressed.until_time_limit(10, BufferConfig.unbounded())
    windows = TimeWindows.of_size_and_grace(1000, 0)
    stream.group_by_key().windowed_by(windows).count().suppress(limit).to_stream().to("out")
    rows = [("a", "x", 100), ("b", "x", 109), ("b", "x", 110)]
    assert run(builder, rows).output() == [(windowed("a", 0, 1000), 1, 100)]


@pytest.mark.kip("328-12")
def test_figures_have_the_groups_and_tags_of_the_text(run: Run):
    ran = run(final_counts(), [("a", "x", 1), ("b", "x", 11), ("a", "x", 2)])
    found = {metric.name: (metric.group, metric.tags) for metric in ran.driver.metrics()}
    of_buffer = "stream-buffer-metrics", {"task-id": "0_0", "buffer-id": "final-store"}
    of_node = "stream-processor-node-metrics"
    assert found["suppression-buffer-size-current"] == of_buffer
    assert found["suppression-buffer-count-avg"] == of_buffer
    assert found["suppression-emit-total"] == (of_node, {"task-id": "0_0", "processor-node-id": "final"})
    aggregate, first = "KSTREAM-AGGREGATE-0000000001", "KSTREAM-SOURCE-0000000000"
    assert found["late-record-drop-total"] == (of_node, {"task-id": "0_0", "processor-node-id": aggregate})
    assert found["record-lateness-max"] == (of_node, {"task-id": "0_0", "processor-node-id": first})


# --- reads through a suppressed table --------------------------------------------------------------------------------


@pytest.mark.kip("328-16")
def test_a_join_sees_the_value_that_a_suppressed_table_sent_last(run: Run):
    builder = StreamsBuilder()
    held_back = builder.table("in", value=str).suppress(Suppressed.until_time_limit(10))
    other = builder.table("other", value=str)
    held_back.join(other, lambda left, right: f"{left}+{right}", value=str).to_stream().to("out")
    ran = run(builder, [])
    for row, emitted in [
        (("in", "a", "1", 0), []),
        (("other", "a", "x", 1), []),  # nothing was sent on yet
        (("in", "a", "2", 10), [("a", "2+x", 10)]),
        (("in", "a", "3", 11), []),
        (("other", "a", "y", 12), [("a", "2+y", 12)]),  # 3 is held back
        (("in", "b", "1", 30), [("a", "3+y", 12)]),
        (("other", "a", "z", 31), [("a", "3+z", 31)]),
    ]:
        pipe_rows(ran.driver, [row])
        assert ran.output() == emitted, row
