"""Results are kept by commit, and what got slower than noise is said."""

import subprocess

import pytest
from bench.history import Line, append, markdown, read, trend
from bench.report import Row
from click.testing import CliRunner

from bench import report, run


def line(commit: str, *rows: Row, title: str = "W1: count", machine: str = "2 cores") -> Line:
    return Line(commit, "today", machine, f"*{commit}*", title, f"About {title}.", rows)


def test_lines_come_back_as_they_were_kept_and_the_newest_of_each_section_are_shown(tmp_path):
    file = tmp_path / "results.jsonl"
    kept = [
        line("a1", Row("Penstock", "1.00 CPU s", "0.90 to 1.10", "at most 2", True)),
        line("a1", Row("Penstock", "2.00 CPU s"), title="PASS"),
        line("b2", Row("Penstock", "3.00 CPU s")),
    ]
    for one in kept:
        append(file, one)
    assert read(file) == kept
    assert read(tmp_path / "none.jsonl") == []
    head, rest = markdown(kept).split("\n## ", 1)
    assert head.startswith("# Results of the benchmark\n")
    assert rest == (
        "W1: count\n\nAbout W1: count.\n\n"
        "| figure | measured | lowest to highest | has to be |  |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| Penstock | 3.00 CPU s |  |  |  |\n\n*b2*\n\n"
        "## PASS\n\nAbout PASS.\n\n"
        "| figure | measured | lowest to highest | has to be |  |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| Penstock | 2.00 CPU s |  |  |  |\n\n*a1*\n"
    )


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (("1.00 CPU s", "0.90 to 1.10"), ("1.20 CPU s", "1.11 to 1.30"), "1.20 times: SLOWER"),
        (("1.00 CPU s", "0.90 to 1.10"), ("1.20 CPU s", "1.09 to 1.30"), "1.20 times: within noise"),
        (("1.00 CPU s", "0.90 to 1.10"), ("0.80 CPU s", "0.70 to 0.89"), "0.80 times: faster"),
        (("1.00 s", ""), ("1.30 s", ""), "1.30 times: SLOWER"),
        (("1,000 ms", ""), ("1,200 ms", ""), "1.20 times: within noise"),
        (("0.10 µs", "0.08 to 0.11"), ("0.15 µs", "0.12 to 0.16"), "1.50 times: SLOWER"),
        (("50,000 a second", "49,000 to 51,000"), ("40,000 a second", "39,000 to 41,000"), "0.80 times: SLOWER"),
        (("50,000 a second", ""), ("70,000 a second", ""), "1.40 times: faster"),
    ],
)
def test_what_is_slower_than_noise_is_said(before, now, said):
    [found] = trend([line("a1", Row("Penstock", *before))], line("b2", Row("Penstock", *now)))
    assert found == f"W1: count: Penstock: {before[0]} at a1, now {now[0]}, {said}"


def test_only_figures_of_one_machine_that_have_a_unit_are_compared():
    now = line("c3", Row("Penstock", "9.00 s"), Row("Kafka Streams / Penstock", "2.0 times"), Row("new", "1.00 s"))
    elsewhere = line("a1", Row("Penstock", "1.00 s"), machine="64 cores")
    assert list(trend([elsewhere], now)) == []
    here = line("b2", Row("Penstock", "8.00 s"), Row("Kafka Streams / Penstock", "9.0 times"))
    assert list(trend([here, elsewhere], now)) == [
        "W1: count: Penstock: 8.00 s at b2, now 9.00 s, 1.12 times: within noise"
    ]


def test_a_tree_with_changes_is_refused_and_results_are_none(tmp_path, monkeypatch):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "results.jsonl").write_text("")
    (tmp_path / "bench" / "new.py").write_text("")
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    assert report.changes(tmp_path) == ["A  bench/new.py"]
    monkeypatch.setattr(report, "changes", lambda: ["A  bench/new.py"])
    refused = CliRunner().invoke(run.main, ["PASS"])
    assert refused.exit_code == 1
    assert "the tree has changes (bench/new.py), and results are kept by commit; commit them" in refused.output


def test_the_results_that_are_kept_are_those_that_are_shown():
    lines = read(run.RESULTS)
    assert lines
    assert (run.FOLDER / "RESULTS.md").read_text() == markdown(lines)
