"""Topics are made, listed, removed, and let go of old records."""

from __future__ import annotations

import json
import os
from pathlib import Path

from penstock import produce
from penstock.log.file.log import FileLog


def test_a_folder_without_topics_says_how_to_make_one(penstock, folder):
    assert penstock("topics", "ls") == (
        0,
        [],
        [f"There are no topics in {folder}/.penstock/log. Make one: penstock topics create NAME"],
    )


def test_a_topic_is_made_listed_and_removed(penstock):
    made = penstock("topics", "create", "departures", "--partitions", "4", "--value", "int")
    assert made == (0, [], ["Made topic departures with 4 partitions in .penstock/log."])
    assert penstock("topics", "ls") == (
        0,
        [
            "name        partitions  records  bytes  key  value  newest",
            "departures           4        0    0 B  str  int",
        ],
        [],
    )
    removed = penstock("topics", "rm", "departures", "--yes")
    assert removed == (0, [], ["Removed topic departures with 0 records."])
    assert penstock("topics", "ls").out == []


def test_the_list_tells_how_many_records_there_are_and_the_newest_time(penstock):
    lines = '{"key":"a","value":1,"timestamp":1000}\n{"key":"b","value":2,"timestamp":61000}\n'
    penstock("topics", "produce", "numbers", "--value", "int", "--json", stdin=lines)
    code, out, err = penstock("topics", "ls", "--json")
    assert (code, err) == (0, [])
    [row] = map(json.loads, out)
    nbytes = row.pop("bytes")
    assert nbytes > 0
    assert row == {
        "name": "numbers",
        "partitions": 1,
        "records": 2,
        "key": "str",
        "value": "int",
        "newest": 61000,
        "retention_ms": -1,
        "retention_bytes": -1,
    }
    assert penstock("topics", "ls").out[1].split() == [
        "numbers", "1", "2", str(nbytes), "B", "str", "int", "1970-01-01T00:01:01Z",
    ]  # fmt: skip


def test_a_damaged_topic_is_named_and_the_others_are_listed(penstock, folder):
    for name in ("bad", "good"):
        penstock("topics", "create", name)
    (folder / ".penstock" / "log" / "bad" / "topic.json").write_text("{")
    code, out, err = penstock("topics", "ls")
    assert code == 1
    assert [line.split()[0] for line in out] == ["name", "good"]
    assert len(err) == 1
    assert err[0].startswith("Error: .penstock/log/bad/topic.json is damaged: ")


def test_folders_and_topics_that_may_not_be_read_are_told_of(penstock, folder, monkeypatch):
    for name in ("good", "secret"):
        penstock("topics", "create", name)
    closed = folder / ".penstock" / "log" / "closed"
    closed.mkdir()  # as a folder appears whose rights forbid to look into it
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "closed")
    read = FileLog.topic

    def refused(log, name):
        if name == "secret":
            raise PermissionError(13, "Permission denied", f"{name}/topic.json")
        return read(log, name)

    monkeypatch.setattr(FileLog, "topic", refused)
    code, out, err = penstock("topics", "ls")
    assert (code, [line.split()[0] for line in out]) == (1, ["name", "good"])
    assert err == [
        f"Error: {closed} is left out: this user may not look into it. Give the user the right to read the folder",
        "Error: topic 'secret' is left out: [Errno 13] Permission denied: 'secret/topic.json'. Give this user the "
        "right to read it",
    ]


def test_removing_asks_first_and_keeps_the_topic_without_a_yes(penstock):
    penstock("topics", "produce", "lines", "--value", "str", stdin="one\ntwo\n")
    code, out, err = penstock("topics", "rm", "lines", stdin="n\n")
    assert (code, out) == (1, [])
    assert err == ["Remove topic lines with 2 records for good? [y/N]: n", "Aborted!"]
    assert penstock("topics", "cat", "lines", "--no-keys").out == ["one", "two"]
    assert penstock("topics", "rm", "lines", stdin="y\n").code == 0
    assert FileLog(".penstock/log").topics() == []


def test_a_topic_whose_description_is_lost_is_listed_as_such_and_can_be_removed(penstock, folder):
    penstock("topics", "produce", "lines", "--value", "str", stdin="one\n")
    (folder / ".penstock" / "log" / "lines" / "topic.json").unlink()
    lost = (
        ".penstock/log/lines/topic.json is missing though the topic's records are there; restore it from a backup, or "
        "remove what is left of the topic with `penstock topics rm lines`"
    )
    assert penstock("topics", "ls") == (1, [], [f"Error: {lost}"])
    removed = penstock("topics", "rm", "lines", "--yes")
    assert removed == (0, [], [f"Warning: {lost}", "Removed topic lines with all that is left of it."])
    assert penstock("topics", "produce", "lines", "--value", "int", stdin="1\n").code == 0
    assert penstock("topics", "cat", "lines", "--no-keys").out == ["1"]


def test_a_topic_cannot_be_made_twice(penstock):
    penstock("topics", "create", "departures")
    assert penstock("topics", "create", "departures") == (
        1,
        [],
        ["Error: topic 'departures' exists already in .penstock/log; use it, or choose another name"],
    )


def test_a_name_that_no_topic_can_bear_is_refused(penstock):
    code, out, err = penstock("topics", "create", "two words")
    assert (code, out) == (1, [])
    assert err == [
        "Error: 'two words' cannot be a topic's name: use 1 to 249 letters, digits, dots, underscores and hyphens"
    ]


def test_retention_is_changed_and_removes_records_that_are_too_old(penstock):
    penstock("topics", "create", "lines", "--value", "str")
    penstock("topics", "produce", "lines", "--json", stdin='{"value":"old","timestamp":1000}\n')
    penstock("topics", "produce", "lines", stdin="new\n")
    assert penstock("topics", "retain") == (0, [], ["Removed 0 records of topic lines."])
    assert penstock("topics", "retain", "lines", "--retention", "1 day") == (
        0,
        [],
        ["Removed 1 record of topic lines."],
    )
    assert penstock("topics", "cat", "lines", "--no-keys").out == ["new"]

    penstock("topics", "retain", "lines", "--retention", "forever", "--retention-bytes", "1 GB")
    [row] = map(json.loads, penstock("topics", "ls", "--json").out)
    assert (row["records"], row["retention_ms"], row["retention_bytes"]) == (1, -1, 1 << 30)
    penstock("topics", "retain", "lines", "--retention-bytes", "unlimited")
    [row] = map(json.loads, penstock("topics", "ls", "--json").out)
    assert (row["retention_ms"], row["retention_bytes"]) == (-1, -1)


def test_a_new_retention_is_for_topics_that_are_named(penstock):
    code, out, err = penstock("topics", "retain", "--retention", "1 day")
    assert (code, out, err[-1]) == (2, [], "Error: say which topics: penstock topics retain NAME --retention ...")


def test_retention_is_written_as_a_duration_and_a_size(penstock):
    penstock("topics", "create", "lines", "--retention", "7 days", "--retention-bytes", "1.5 GB")
    [row] = map(json.loads, penstock("topics", "ls", "--json").out)
    assert (row["retention_ms"], row["retention_bytes"]) == (604_800_000, 1_610_612_736)
    wrong_time = penstock("topics", "create", "more", "--retention", "soon")
    wrong_size = penstock("topics", "create", "more", "--retention-bytes", "much")
    negative = penstock("topics", "create", "more", "--retention-bytes", "-5")
    assert (wrong_time.code, wrong_size.code, negative.code) == (2, 2, 2)
    assert wrong_time.err[-1].startswith("Error: Invalid value for '--retention': ")
    assert wrong_size.err[-1] == (
        "Error: Invalid value for '--retention-bytes': size must be a number of bytes or text such as '64 MB', "
        "got 'much'"
    )
    assert negative.err[-1] == "Error: Invalid value for '--retention-bytes': it must not be negative, got '-5'"


def test_another_log_is_chosen_by_option_environment_or_file(penstock, folder, monkeypatch):
    penstock("topics", "create", "by-option", "--log-dir", "one")
    monkeypatch.setenv("PENSTOCK_LOG_DIR", "two")
    penstock("topics", "create", "by-environment")
    monkeypatch.delenv("PENSTOCK_LOG_DIR")
    (folder / "penstock.toml").write_text('log_dir = "three"')
    penstock("topics", "create", "by-file")
    assert [FileLog(log).topics() for log in ("one", "two", "three")] == [
        ["by-option"],
        ["by-environment"],
        ["by-file"],
    ]


def test_describe_says_what_a_topic_is_and_what_its_partitions_hold(penstock):
    produce([("ann", 1, 1_000), ("gus", 2, 2_000), ("ann", 3, 3_000)], "orders", str, int, partitions=2)
    penstock("topics", "retain", "orders", "--retention-bytes", "2048", "--retention", "forever")
    lines = penstock("topics", "describe", "orders").out
    assert lines[0].startswith("orders has 3 records of str -> int, ")
    assert lines[0].endswith(", the newest of 1970-01-01T00:00:03Z.")
    assert lines[1] == "  Records are kept up to 2.0 KB a partition."
    assert [line.split() for line in lines[3:]] == [["0", "0", "2", "2"], ["1", "0", "1", "1"]]
    [line] = penstock("topics", "describe", "orders", "--json").out
    assert [one["records"] for one in json.loads(line)["partitions"]] == [2, 1]


def test_describe_says_so_when_there_is_no_such_topic(penstock):
    ran = penstock("topics", "describe", "nothing")
    assert ran.code == 1
    assert "'nothing'" in ran.err[0]
