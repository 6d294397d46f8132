"""``penstock topics produce`` makes records of lines."""

from __future__ import annotations

import pytest

from penstock import Windowed, consume
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog
from penstock.values import strange_times


def records(topic: str) -> list[tuple[object, object, int]]:
    return [(record.key, record.value, record.timestamp) for record in consume(topic)]


def keys_and_values(topic: str) -> list[tuple[object, object]]:
    return [(record.key, record.value) for record in consume(topic)]


def test_a_line_is_a_value(penstock):
    ran = penstock("topics", "produce", "lines", "--value", "str", stdin="one\n\ntwo")
    assert ran == (0, [], ["Wrote 3 records to topic lines in .penstock/log."])
    assert keys_and_values("lines") == [(None, "one"), (None, ""), (None, "two")]


def test_a_separator_stands_between_key_and_value(penstock):
    penstock("topics", "produce", "delays", "--key-separator", ":", "--value", "int", stdin="JFK:5\nLGA:-2\n")
    assert keys_and_values("delays") == [("JFK", 5), ("LGA", -2)]


def test_a_value_may_hold_the_separator(penstock):
    penstock("topics", "produce", "departures", "--key-separator", ":", stdin='JFK:{"delay": 5}\n')
    assert keys_and_values("departures") == [("JFK", {"delay": 5})]


def test_json_lines_have_key_value_timestamp_and_headers(penstock):
    lines = [
        '{"key": "a", "value": {"n": 1}, "timestamp": 1000, "headers": {"source": "radar"}}',
        '{"key": "b", "value": null, "timestamp": "1970-01-01T00:00:02Z", "headers": [["raw", {"base64": "/w=="}]]}',
        "",
        '{"value": [1, 2], "timestamp": 3000}',
    ]
    penstock("topics", "produce", "things", "--json", stdin="\n".join(lines))
    assert [record[:4] for record in consume("things")] == [
        ("a", {"n": 1}, 1000, (("source", b"radar"),)),
        ("b", None, 2000, (("raw", b"\xff"),)),
        (None, [1, 2], 3000, ()),
    ]


@pytest.mark.parametrize(
    ("type_", "values"), [("str", ["x", "y"]), ("int", [1, -2]), ("float", [0.5]), ("bytes", [b"\xff", b"b"])]
)
def test_what_cat_prints_as_json_can_be_produced_again(penstock, type_, values):
    from penstock import produce

    rows = [("k", value, n, (("h", b"v"),)) for n, value in enumerate([*values, None])]
    produce(rows, "first", value=type(values[0]))
    copied = "\n".join(penstock("topics", "cat", "first", "--json").out)
    penstock("topics", "produce", "second", "--json", "--value", type_, stdin=copied)
    assert [record[:4] for record in consume("second")] == rows


def test_key_and_time_are_found_in_the_value(penstock):
    lines = '{"from": {"airport": "JFK"}, "at": "1970-01-01T00:00:05+00:00"}\n{"from": {"airport": "LGA"}, "at": 7}\n'
    penstock("topics", "produce", "trips", "--key-field", "from.airport", "--timestamp-field", "at", stdin=lines)
    assert records("trips") == [
        ("JFK", {"from": {"airport": "JFK"}, "at": "1970-01-01T00:00:05+00:00"}, 5000),
        ("LGA", {"from": {"airport": "LGA"}, "at": 7}, 7),
    ]


def test_a_new_topic_gets_its_partitions_and_lines_without_a_key_go_to_all_in_turn(penstock):
    penstock("topics", "produce", "numbers", "--partitions", "3", "--value", "int", stdin="1\n2\n3\n4\n5\n6\n7\n")
    assert FileLog(".penstock/log").end_offsets("numbers") == [3, 2, 2]


def test_a_file_is_read(penstock, folder):
    (folder / "numbers.txt").write_text("1\r\n2\r\n")
    assert penstock("topics", "produce", "numbers", "numbers.txt", "--value", "int").code == 0
    assert keys_and_values("numbers") == [(None, 1), (None, 2)]


def test_the_topic_knows_its_types(penstock):
    penstock("topics", "create", "counts", "--key", "int", "--value", "float")
    penstock("topics", "produce", "counts", "--key-separator", "=", stdin="1=0.5\n")
    assert keys_and_values("counts") == [(1, 0.5)]


BAD_LINES = [
    ([], "{oops", "'{oops' is not JSON: JSON is malformed: object keys must be strings (byte 1); for plain text give "
                  "--value str"),
    (["--value", "int"], "many", "'many' is no int"),
    (["--value", "str"], b"\xff", "'�' is not UTF-8: 'utf-8' codec can't decode byte 0xff in position 0: invalid start "
                                  "byte"),
    (["--key-separator", ":"], "5", "there is no separator ':' in '5'"),
    (["--key-field", "a.b"], '{"a": 1}', """there is no field 'a.b' in '{"a":1}'"""),
    (["--timestamp-field", "at"], '{"at": "noon"}', "'noon' is no time: write milliseconds since 1970 or "
                                                    "2013-01-31T06:00:00Z"),
    (["--json"], '{"key": 1}', """Object missing required field `value` in '{"key": 1}'; with --json a line is """
                               '{"key": ..., "value": ...}'),
    ([], "[" * 5000 + "]" * 5000, f"'{'[' * 60}...' is JSON that is nested too deeply to be read"),
    (["--json"], '{"value": ' + "[" * 5000 + "]" * 5000 + "}", """'{"value": """ + "[" * 50
                                                               + "...' is JSON that is nested too deeply to be read"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "line", "reason"), BAD_LINES)
def test_a_line_that_cannot_be_read_is_named_and_nothing_is_written(penstock, options, line, reason):
    good = b'x:{"a": {"b": "k"}, "at": 1}' if ":" in options else b'{"a": {"b": "k"}, "at": 1, "value": 1}'
    good = b"1" if "int" in options else good
    line = line if isinstance(line, bytes) else line.encode()
    ran = penstock("topics", "produce", "lines", *options, stdin=good + b"\n" + line + b"\n")
    assert ran == (
        1,
        [],
        [f"Error: standard input, line 2: {reason}. Nothing was written; --skip-bad-lines leaves it out"],
    )
    assert FileLog(".penstock/log").topics() == []


def test_bad_lines_are_left_out_when_asked_and_the_first_five_shown(penstock):
    bad = "".join(f"bad{n}\n" for n in range(7))
    ran = penstock("topics", "produce", "numbers", "--value", "int", "--skip-bad-lines", stdin=f"1\n{bad}2\n")
    shown = [f"skipped line {n + 2}: 'bad{n}' is no int" for n in range(5)]
    assert ran == (
        0,
        [],
        [*shown, "skipped more lines", "Wrote 2 records to topic numbers in .penstock/log, skipped 7 bad lines."],
    )
    assert keys_and_values("numbers") == [(None, 1), (None, 2)]


def test_options_that_do_not_fit_are_wrong_usage(penstock):
    penstock("topics", "create", "numbers", "--value", "int", "--partitions", "2")

    def refusal(*options: str) -> str:
        ran = penstock("topics", "produce", "numbers", *options, stdin="1\n")
        assert ran.code == 2
        return ran.err[-1]

    assert refusal("--json", "--key-field", "a") == (
        "Error: --key-field and --json both say where keys come from; give one of them"
    )
    assert refusal("--key-separator", "") == "Error: Invalid value for '--key-separator': it must not be empty"
    assert refusal("--partitions", "3") == (
        "Error: topic numbers exists with 2 partitions; leave --partitions out, or change it with `penstock topics "
        "repartition numbers --partitions 3`"
    )
    assert refusal("--timestamp-field", "at") == (
        "Error: --timestamp-field needs values of type json; those of topic numbers are int"
    )
    assert refusal("nowhere.txt") == ("Error: Invalid value for '[FILE]': 'nowhere.txt': No such file or directory")


def test_another_type_than_the_topics_is_refused(penstock):
    penstock("topics", "create", "numbers", "--value", "int")
    ran = penstock("topics", "produce", "numbers", "--value", "str", stdin="x\n")
    assert ran == (
        1,
        [],
        ["Error: topic 'numbers' holds values of type int, not str; convert the values or write into another topic"],
    )


def test_windowed_keys_are_written_as_key_start_and_end_or_not_at_all(penstock):
    FileLog(".penstock/log").create_topic(TopicInfo("hourly", 1, "windowed[str, 3600000]", "int"))
    window = '{"key": {"key": "JFK", "start": 0, "end": 3600000}, "value": 1, "timestamp": 5}'
    assert penstock("topics", "produce", "hourly", "--json", stdin=window).code == 0
    assert records("hourly") == [(Windowed("JFK", 0, 3_600_000), 1, 5)]

    def refusal(line: str, *options: str) -> list[str]:
        code, out, err = penstock("topics", "produce", "hourly", *options, stdin=line)
        assert (code, out) == (1, [])
        return err

    assert refusal('{"key": "a", "value": 1}', "--json") == [
        """Error: standard input, line 1: '"a"' is no key of type windowed[str, 3600000]: write {"key": ..., """
        '"start": ..., "end": ...}, the times in milliseconds. Nothing was written; --skip-bad-lines leaves it out'
    ]
    assert refusal('{"key": {"key": "a", "start": 0, "end": 5}, "value": 1}', "--json") == [
        """Error: standard input, line 1: the window of '{"key": "a", "start": 0, "end": 5}' ends at 5; in a topic """
        "with keys of type windowed[str, 3600000] it ends at 3600000. Nothing was written; --skip-bad-lines leaves it "
        "out"
    ]
    assert refusal("a:1", "--key-separator", ":") == [
        "Error: keys or values of type windowed[str, 3600000] cannot be written from text; write them from Python with "
        "penstock.produce, or as they are with --key bytes or --value bytes"
    ]


def test_times_may_be_in_another_unit(penstock):
    lines = '{"at": 1767225600}\n{"at": 1767225600.25}\n{"at": "2026-01-01T00:00:01Z"}\n'
    options = ("--timestamp-field", "at", "--timestamp-unit")
    assert penstock("topics", "produce", "seconds", *options, "s", stdin=lines).err == [
        "Wrote 3 records to topic seconds in .penstock/log."
    ]
    assert [time for _, _, time in records("seconds")] == [1_767_225_600_000, 1_767_225_600_250, 1_767_225_601_000]
    penstock("topics", "produce", "micros", *options, "us", stdin='{"at": 1767225600000999}')
    penstock("topics", "produce", "nanos", *options, "ns", stdin='{"at": 1767225600000999999}')
    penstock("topics", "produce", "lines", "--json", "--timestamp-unit", "s", stdin='{"value": 1, "timestamp": 7}')
    assert [records(topic)[0][2] for topic in ("micros", "nanos", "lines")] == [1_767_225_600_000] * 2 + [7000]
    refused = penstock("topics", "produce", "seconds", *options, "s", stdin='{"at": 1e300}')
    assert (refused.code, "is no time: write seconds since 1970" in refused.err[0]) == (1, True)


def test_seconds_that_are_taken_for_milliseconds_are_told_once(penstock, caplog):
    strange_times._told.clear()
    for _ in range(2):
        penstock("topics", "produce", "times", "--json", stdin='{"value": 1, "timestamp": 1767225600}')
    assert [record.getMessage() for record in caplog.records] == [
        "topic 'times': its first records are of 1970-01-21T10:53:45.600Z, as milliseconds since 1970; "
        "--timestamp-unit s says that they are in seconds"
    ]


def test_a_name_may_have_dots_itself(penstock):
    lines = (
        '{"user.id": "a", "log.at": 5}',
        '{"user": {"id": "b"}, "log": {"at": 6}}',
        '{"user": {"id": "c"}, "user.id": "d", "log.at": 7}',
    )
    options = ("--key-field", "user.id", "--timestamp-field", "log.at")
    penstock("topics", "produce", "ecs", *options, stdin="\n".join(lines))
    assert [(key, time) for key, _, time in records("ecs")] == [("a", 5), ("b", 6), ("c", 7)]


def test_a_key_of_another_type_says_what_to_give(penstock):
    ran = penstock("topics", "produce", "ids", "--key-field", "id", stdin='{"id": 7}')
    assert ran.err == [
        "Error: standard input, line 1: the serde 'str' cannot encode 7 of type int; for keys like this a new topic "
        "takes --key int. Nothing was written; --skip-bad-lines leaves it out"
    ]


MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("options", "line", "record"),
    [
        (["--json"], b'{"key": "k", "value": 1}', ("k", 1)),
        ([], b'{"a": 1}', (None, {"a": 1})),
        (["--value", "str"], b"text", (None, "text")),
        (["--value", "int"], b"5", (None, 5)),
        (["--key-separator", ":", "--value", "bytes"], b"k:v", ("k", b"v")),
        (["--key-field", "id"], b'{"id": "k"}', ("k", {"id": "k"})),
        (["--value", "bytes"], b"", (None, MARK)),  # they are what they are
    ],
)
def test_a_byte_order_mark_is_no_part_of_the_first_line(penstock, options, line, record):
    assert penstock("topics", "produce", "marked", *options, stdin=MARK + line + b"\n" + line).code == 0
    assert keys_and_values("marked")[0] == record


def test_utf_16_is_refused(penstock):
    ran = penstock("topics", "produce", "wide", "--value", "str", stdin="text".encode("utf-16"))
    assert (ran.code, "the text is UTF-16; make UTF-8 of it first: iconv -f UTF-16 -t UTF-8" in ran.err[0]) == (1, True)


def test_a_unit_of_times_is_refused_where_lines_have_no_times(penstock):
    ran = penstock("topics", "produce", "lines", "--timestamp-unit", "s", stdin="1\n")
    said = "Error: --timestamp-unit is the unit of times in --timestamp-field or --json: give one of these options, too"
    assert (ran.code, ran.err[-1]) == (2, said)
    assert not FileLog(".penstock/log").exists("lines")


def test_fields_of_lines_that_are_not_used_are_named(penstock):
    lines = ['{"value": 1, "timestamp": 10, "ts": 5}', '{"value": 2, "offset": 7, "at": NaN}', '{"value": NaN}']
    lines[1] = lines[1].replace("NaN", "null")
    ran = penstock("topics", "produce", "lines", "--json", "--value", "float", stdin="\n".join(lines))
    assert ran.err == [
        "Not read: ts, at. With --json the fields of a line are key, value, timestamp and headers.",
        "Wrote 3 records to topic lines in .penstock/log.",
    ]
