"""docs/operators.md: each program gives the picture under it, and every operator of the DSL has its place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from penstock import (
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    SessionWindowedKStream,
    TimeWindowedKStream,
    Windowed,
)
from support.operators import PAGE, Results, drawn, examples, names_in, results
from support.readme import ROOT

TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = examples(TEXT)


def test_each_example_has_a_program_and_a_picture():
    assert [title for title, _, _ in EXAMPLES] == re.findall(r"^### (.+)$", TEXT, re.MULTILINE) != []


@pytest.mark.parametrize(("program", "picture"), [pytest.param(*rest, id=title) for title, *rest in EXAMPLES])
def test_each_program_gives_its_picture(program: str, picture: str):
    assert drawn(program) == picture


ORACLE = ROOT / "tests" / "oracle" / "operators"
"""What Kafka Streams makes of the rows of the page, by programs of the same operators."""

WITHOUT_VALUES = {
    "cogroup": "its second function is not that of the page",
    "filter and map_values of a table": "its function is not that of the page",
    "join and left_join of a stream with a table": "its function is not that of the page",
    "Versioned tables": "its function is not that of the page",
}
NOT_OF_KAFKA_STREAMS = {
    "aggregate by name",
    "Expressions: col",
    "map_values_async, filter_async",
    "deduplicate_by_key",
    "deduplicate_by_key_value, deduplicate",
    "distinct",
}
OF_EACH_RECORD = {"flat_map, flat_map_values", "peek, foreach", "process, process_values", "transform_values"}
"""With functions that cases have no words for, and nothing that depends on time."""


@pytest.mark.parametrize("case", sorted(ORACLE.glob("*.json")), ids=lambda path: path.stem)
def test_kafka_streams_gives_what_the_page_shows(case: Path):
    recorded = json.loads(case.read_text(encoding="utf-8"))
    title = recorded["about"].partition(": ")[2]
    [program] = [program for found, program, _ in EXAMPLES if found == title]
    names = names_in(program)
    rows = [(row["topic"], row["key"], row["value"], row["timestamp"] // 1000) for row in recorded["input"]]
    assert names["rows"] == rows
    given = results(names["steps"], rows)
    theirs: list[Results] = [{topic: [] for topic in one} for one in given]
    for one in recorded["expected"]["output"]:
        key = Windowed(**one["key"]) if isinstance(one["key"], dict) else one["key"]
        theirs[one["after"]][one["topic"]].append((key, one["value"], one["timestamp"]))
    with_values = title not in WITHOUT_VALUES
    assert [comparable(one, with_values) for one in given] == [comparable(one, with_values) for one in theirs]
    assert any(one[topic] for one in theirs for topic in one)


def comparable(given: Results, with_values: bool) -> Results:
    """Results with values as letters and figures alone: joiners of cases put other signs between them."""
    return {
        topic: [
            (key, None if value is None else re.sub(r"\W", "", str(value)).replace("None", "null"), time)
            if with_values
            else (key, value is None, time)
            for key, value, time in some
        ]
        for topic, some in given.items()
    }


def test_kafka_streams_was_asked_about_every_operator_that_it_has():
    titles = {json.loads(case.read_text(encoding="utf-8"))["about"].partition(": ")[2] for case in ORACLE.glob("*")}
    assert titles | NOT_OF_KAFKA_STREAMS | OF_EACH_RECORD == {title for title, _, _ in EXAMPLES}
    assert WITHOUT_VALUES.keys() <= titles


def test_every_operator_of_the_dsl_is_used_in_an_example():
    classes = (KStream, KTable, KGroupedStream, KGroupedTable, TimeWindowedKStream, SessionWindowedKStream)
    operators = {name for one in classes for name in dir(one) if not name.startswith("_")}
    elsewhere = {"print", "parent_for", "queryable_store_name"}  # prints where it runs; not for programs; a name
    elsewhere |= {"to_spark_table", "to_dataframe"}  # docs/spark.md has them
    elsewhere |= {"to_sink"}  # docs/sinks.md has it
    programs = "".join(program for _, program, _ in EXAMPLES)
    titles = " ".join(title for title, _, _ in EXAMPLES)
    missing = {name for name in operators if f".{name}(" not in programs and name not in titles}
    assert missing <= elsewhere, missing - elsewhere
