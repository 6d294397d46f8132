"""``python -m penstock.testing.oracle``: which cases pass, fail and are skipped, and what it prints of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.testing.cuts import CutDriver
from penstock.testing.oracle import chunks
from penstock.testing.oracle.__main__ import main, run_case
from penstock.testing.oracle.outcome import Outcome

COUNTED = [("a", 1, 5), ("b", 1, 6), ("a", 2, 7)]


def case(name: str, **changes: Any) -> dict[str, Any]:
    """Counts of three records, as Kafka Streams makes them."""
    keys = ["a", "b", "a"]
    output = [
        {"after": n, "topic": "out", "key": key, "value": value, "timestamp": timestamp}
        for n, (key, value, timestamp) in enumerate(COUNTED)
    ]
    return {
        "name": name,
        "config": {},
        "topology": [
            {"id": "s0", "op": "stream", "topic": "in"},
            {"id": "s1", "op": "group_by_key", "of": "s0"},
            {"id": "s2", "op": "count", "of": "s1", "materialized": {"store": "counts"}},
            {"id": "s3", "op": "to_stream", "of": "s2"},
            {"id": "s4", "op": "to", "of": "s3", "topic": "out"},
        ],
        "input": [{"topic": "in", "key": key, "value": "x", "timestamp": 5 + n} for n, key in enumerate(keys)],
        "expected": {
            "output": output,
            "dropped": [],
            "stores": {"counts": [["a", 2, 7], ["b", 1, 6]]},
            "metrics": {"dropped-records-total": 0},
            **changes,
        },
    }


@pytest.fixture
def cases(tmp_path: Path):
    """Writes cases into a folder, one file each."""

    def write(*given: dict[str, Any]) -> str:
        folder = tmp_path / "cases"
        folder.mkdir(exist_ok=True)
        for one in given:
            (folder / f"{one['name']}.json").write_text(json.dumps(one))
        return str(folder)

    return write


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """The exit code and what is printed."""
    code = main(list(arguments))
    return code, capsys.readouterr().out.splitlines()


def without(expected: str, index: int) -> dict[str, Any]:
    rows = case("any")["expected"][expected]
    return {expected: rows[:index] + rows[index + 1 :]}


WRONG = case("wrong", output=[{**row, "value": 9} for row in case("any")["expected"]["output"]])
MISSING = {**case("missing"), "topology": [*case("any")["topology"], {"id": "s5", "op": "teleport", "of": "s0"}]}


@pytest.mark.parametrize("mode", [(), ("--driver",), ("--chunks", "1"), ("--chunks", "2")])
def test_the_last_line_counts_and_the_exit_code_is_0_when_none_failed(cases, capsys, mode):
    assert printed(capsys, cases(case("one"), case("two")), *mode) == (0, ["2 passed, 0 failed, 0 skipped"])


def test_each_failing_case_has_one_line_and_the_exit_code_is_1(cases, capsys):
    code, lines = printed(capsys, cases(case("right"), WRONG))
    assert code == 1
    assert lines == [
        'FAILED wrong: output: row 0 is {"after": 0, "topic": "out", "key": "a", "value": 1, "timestamp": 5}, '
        'expected {"after": 0, "topic": "out", "key": "a", "value": 9, "timestamp": 5}',
        "1 passed, 1 failed, 0 skipped",
    ]


def test_cases_with_operators_that_do_not_exist_are_skipped_and_the_operators_listed(cases, capsys):
    assert printed(capsys, cases(case("right"), MISSING)) == (
        0,
        ["does not exist yet: teleport (1 cases)", "1 passed, 0 failed, 1 skipped"],
    )


DIFFERENCES = {
    "a record too many": (without("output", 2), "output: 3 rows instead of 2; the first too many is "),
    "a record too few": (
        {"output": [*case("any")["expected"]["output"], {"topic": "out"}]},
        "output: 3 rows instead of 4; the first missing is ",
    ),
    "another drop": ({"dropped": [1]}, "dropped [], expected [1]"),
    "another count of drops": ({"metrics": {"dropped-records-total": 1}}, "dropped-records-total 0, expected 1"),
    "another row in a store": (
        {"stores": {"counts": [["a", 2, 7], ["b", 3, 6]]}},
        'store counts: row 1 is ["b", 1, 6]',
    ),
    "a store too many": ({"stores": {"others": []}}, "no store others"),
    "a read too many": ({"reads": [{"after": 0, "result": []}]}, "reads: 0 rows instead of 1; the first missing is "),
    "an error that did not come": (
        {"error": {"type": "StreamsException", "when": "run", "after": 1}},
        "did not fail, expected StreamsException (run)",
    ),
}


@pytest.mark.parametrize("mode", [(), ("--chunks", "1")])
@pytest.mark.parametrize("name", DIFFERENCES)
def test_everything_expected_is_compared(cases, capsys, name, mode):
    expected, message = DIFFERENCES[name]
    code, lines = printed(capsys, cases(case("wrong", **expected)), *mode)
    assert code == 1
    assert lines[0].startswith("FAILED wrong: ")
    assert message in lines[0].replace("output to out:", "output:")
    assert lines[1:] == ["0 passed, 1 failed, 0 skipped"]


def test_an_error_that_is_expected_passes_and_one_that_is_not_fails(cases, capsys):
    refused = case("refused", output=[], error={"type": "TopologyException", "when": "build"})
    refused["topology"].append({"id": "s5", "op": "table", "topic": "in"})
    assert printed(capsys, cases(refused)) == (0, ["1 passed, 0 failed, 0 skipped"])
    unexpected = {**refused, "name": "unexpected", "expected": case("any")["expected"]}
    code, lines = printed(capsys, cases(unexpected))
    assert code == 1
    assert lines[0].startswith("FAILED unexpected: failed (build): TopologyError: topic 'in' is read twice")


def test_reads_see_the_store_at_their_moment(cases, capsys):
    reading = case("reading", reads=[{"after": 1, "result": [["a", 1, 5]]}, {"after": 4, "result": [["a", 2, 7]]}])
    read = {"read": "counts", "key": "a"}
    first, second, third = reading["input"]
    reading["input"] = [first, read, second, third, read]
    for row, after in zip(reading["expected"]["output"], (0, 2, 3)):
        row["after"] = after
    assert printed(capsys, cases(reading)) == (0, ["1 passed, 0 failed, 0 skipped"])


def test_a_badly_written_case_fails(cases, capsys):
    bad = case("bad")
    bad["topology"][1]["of"] = "nowhere"
    code, lines = printed(capsys, cases(bad))
    assert code == 1
    assert lines[0].startswith("FAILED bad: CaseError: no step 'nowhere'")


def test_files_can_be_given_one_by_one_and_other_files_in_a_folder_are_left_alone(cases, capsys):
    folder = Path(cases(case("one"), case("two")))
    (folder / "notes.json").write_text("{}")
    assert printed(capsys, str(folder / "one.json"))[1] == ["1 passed, 0 failed, 0 skipped"]
    assert printed(capsys, str(folder / "one.json"), str(folder))[1] == ["3 passed, 0 failed, 0 skipped"]


def test_a_differences_file_with_a_rule_that_nobody_knows_fails_loudly(cases):
    folder = Path(cases(case("one")))
    (folder.parent / "differences.json").write_text(json.dumps({"cases": {}, "rules": [{"when": "it rains"}]}))
    with pytest.raises(SystemExit, match=r"differences\.json has rules that this runner does not know: it rains"):
        main([str(folder)])


def test_a_folder_without_cases_is_an_error(tmp_path):
    with pytest.raises(SystemExit, match="no case files in "):
        main([str(tmp_path)])


def test_seed_0_is_a_seed_and_cuts_each_case_in_its_own_way(monkeypatch):
    seeds: list[Any] = []

    class Noted(CutDriver):
        def __init__(self, topology: Any, seed: Any, **settings: Any):
            seeds.append(seed)
            super().__init__(topology, seed, **settings)

    monkeypatch.setattr(chunks, "CutDriver", Noted)
    for seed in (0, 5, None):
        assert chunks.Cut(seed)(case("one")).error is None
    assert seeds == ["0-one", "5-one", None]


def other_row(outcome: Outcome) -> None:
    outcome.output[0]["value"] = 7


def other_order(outcome: Outcome) -> None:
    outcome.output.reverse()


def other_time(outcome: Outcome) -> None:
    outcome.output[-1]["timestamp"] += 1


def row_too_few(outcome: Outcome) -> None:
    outcome.output.pop()


def other_topic(outcome: Outcome) -> None:
    outcome.output.append({**outcome.output[0], "topic": "aside"})


def other_store(outcome: Outcome) -> None:
    outcome.stores["counts"].pop()


def other_drops(outcome: Outcome) -> None:
    outcome.dropped_total = 3


CHANGES = {
    other_row: "topic out",
    other_order: "topic out",
    other_time: "topic out",
    row_too_few: "topic out",
    other_topic: "topic aside",
    other_store: "store counts",
    other_drops: "drops",
}


def test_a_case_that_differs_from_kafka_in_the_same_way_without_cuts_shows_none():
    for seed in (1, 2, 3):
        assert chunks.Cut(seed).shows(WRONG, chunks.Cut(seed)(WRONG)) == []


@pytest.mark.parametrize("change", CHANGES)
def test_a_cut_that_shows_is_noticed(change):
    outcome = chunks.Cut(1)(WRONG)
    change(outcome)
    [shown] = chunks.Cut(1).shows(WRONG, outcome)
    assert shown.startswith(f"a cut shows in {CHANGES[change]}: ")


def test_the_order_of_a_stores_rows_is_no_difference():
    outcome = chunks.Cut(1)(WRONG)
    outcome.stores["counts"].reverse()
    assert chunks.Cut(1).shows(WRONG, outcome) == []


def test_cuts_may_show_with_caches_where_outputs_are_read_and_where_something_failed():
    cached = {**WRONG, "config": {"statestore.cache.max.bytes": 1000}}
    types = {"key_type": "string", "value_type": "long"}
    outputs_read = {**WRONG, "topology": [*WRONG["topology"], {"id": "s5", "op": "stream", "topic": "out", **types}]}
    for differing in (cached, outputs_read):
        outcome = chunks.Cut(1)(WRONG)
        other_row(outcome)
        assert chunks.Cut(1).shows(differing, outcome) == []
    failed = Outcome(error=PenstockError("failed"), error_when="run")
    assert chunks.Cut(1).shows(WRONG, failed) == []


@pytest.mark.parametrize("seed", [None, 1])
def test_a_case_in_which_a_cut_shows_fails_though_a_rule_lets_it_differ_from_kafka(seed, monkeypatch):
    def outcome_of(cut: chunks.Cut, given: Any) -> Outcome:
        outcome = whole(cut, given)
        if cut.seed is not None:
            outcome.output.reverse()
        return outcome

    whole = chunks.Cut.__call__
    monkeypatch.setattr(chunks.Cut, "__call__", outcome_of)
    lenient: Any = SimpleNamespace(differences=lambda given, outcome: [])
    result, details = run_case(WRONG, chunks.Cut(seed), lenient)
    assert (result, details[:24]) == (("passed", "") if seed is None else ("failed", "a cut shows in topic out"))


def test_as_a_command(cases):
    command = [sys.executable, "-m", "penstock.testing.oracle", cases(case("right"), WRONG)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stdout.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"
