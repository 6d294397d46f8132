"""``penstock topology`` draws the program that is named; a name that is wrong is refused with what to write instead."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HELLO = """
from penstock import StreamsBuilder

builder = StreamsBuilder()
builder.stream("in").filter(lambda key, value: True).to("out")
topology = builder.build()

def make():
    return builder

def broken():
    return 1 / 0

number = 5
"""

DESCRIPTION = """\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [in])
      --> KSTREAM-FILTER-0000000001
    Processor: KSTREAM-FILTER-0000000001 (stores: [])
      --> KSTREAM-SINK-0000000002
      <-- KSTREAM-SOURCE-0000000000
    Sink: KSTREAM-SINK-0000000002 (topic: out)
      <-- KSTREAM-FILTER-0000000001
""".splitlines()


@pytest.fixture(autouse=True)
def app(folder: Path) -> None:
    (folder / "hello.py").write_text(HELLO)


@pytest.mark.parametrize(
    "program",
    [
        "hello.py",
        "hello.py:topology",
        "hello.py:builder",
        "hello.py:make",
        "./hello.py:topology",
        "hello",
        "hello:make",
    ],
)
def test_a_program_is_a_topology_a_builder_or_a_function_in_a_file_or_a_module(penstock, program):
    code, out, err = penstock("topology", program)
    assert (code, [line for line in out if line], err) == (0, DESCRIPTION, [])


def test_a_program_imports_what_lies_beside_it(penstock, folder):
    (folder / "jobs").mkdir()
    (folder / "jobs" / "late.py").write_text("from rules import builder as topology")
    (folder / "jobs" / "rules.py").write_text(HELLO)
    assert penstock("topology", "jobs/late.py").out[:2] == DESCRIPTION[:2]


def test_a_picture_is_drawn_in_mermaid(penstock):
    mermaid = penstock("topology", "hello.py", "--mermaid")
    assert mermaid == penstock("topology", "hello.py", "--format", "mermaid")
    assert mermaid.out[:2] == ["flowchart TD", '  subgraph sub0["Sub-topology 0"]']


def test_json_has_a_step_a_line(penstock):
    source, keep, sink = "KSTREAM-SOURCE-0000000000", "KSTREAM-FILTER-0000000001", "KSTREAM-SINK-0000000002"
    common = {"sub_topology": 0, "stores": []}
    assert list(map(json.loads, penstock("topology", "hello.py", "--json").out)) == [
        {**common, "kind": "source", "name": source, "predecessors": [], "topics": ["in"]},
        {**common, "kind": "processor", "name": keep, "predecessors": [source], "topics": []},
        {**common, "kind": "sink", "name": sink, "predecessors": [keep], "topics": ["out"]},
    ]


def refusal(ran) -> str:
    code, out, err = ran
    assert (code, out) == (2, [])
    return err[-1].removeprefix("Error: Invalid value for PROGRAM: ")


def test_a_program_that_is_not_there_is_refused(penstock, folder):
    assert (
        refusal(penstock("topology", "goodbye.py"))
        == f"there is no file goodbye.py in {folder}; change into its folder, or give its path"
    )
    assert refusal(penstock("topology", "goodbye")) == (
        f"there is no module 'goodbye', in {folder} or installed; is it app.py:topology?"
    )


def test_a_name_that_is_not_there_is_refused_with_those_that_are(penstock):
    assert refusal(penstock("topology", "hello.py:flow")) == (
        "there is no 'flow' in hello.py; did you mean hello.py:builder or hello.py:topology?"
    )


@pytest.mark.parametrize(("name", "kind"), [("number", "of type int"), ("StreamsBuilder", "the class StreamsBuilder")])
def test_something_else_than_a_topology_is_refused(penstock, name, kind):
    assert refusal(penstock("topology", f"hello.py:{name}")) == (
        f"'{name}' in hello.py is {kind}; name a Topology (what StreamsBuilder.build returns), a StreamsBuilder, or a "
        "function without arguments that returns one of them"
    )


def test_a_file_that_hides_behind_another_module_is_refused(penstock, folder):
    (folder / "calendar.py").write_text(HELLO)
    import calendar

    assert refusal(penstock("topology", "calendar.py")) == (
        f"calendar.py has the name of another module, {calendar.__file__}; rename the file"
    )


@pytest.mark.parametrize("name", ["late flights.py", "flights.v2.py"])
def test_a_file_that_cannot_be_imported_is_refused(penstock, folder, name):
    (folder / name).write_text(HELLO)
    assert refusal(penstock("topology", name)) == (
        f"{name} cannot be imported: name it like my_app.py, of letters, digits and _"
    )


def test_an_error_in_the_program_is_told_with_its_own_lines(penstock, folder):
    assert penstock("topology", "hello.py:broken") == (
        1,
        [],
        [
            "Error: broken() in hello.py failed:",
            "Traceback (most recent call last):",
            f'  File "{folder}/hello.py", line 12, in broken',
            "    return 1 / 0",
            "           ~~^~~",
            "ZeroDivisionError: division by zero",
        ],
    )


def test_an_error_inside_a_library_is_told_with_the_lines_of_the_program_alone(penstock, folder):
    (folder / "rates.py").write_text("import json\n\nrates = json.loads('{')\n")
    assert penstock("topology", "rates.py") == (
        1,
        [],
        [
            "Error: rates.py failed:",
            "Traceback (most recent call last):",
            f'  File "{folder}/rates.py", line 3, in <module>',
            "    rates = json.loads('{')",
            "            ^^^^^^^^^^^^^^^",
            "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ],
    )


def test_a_mistake_that_no_step_knows_of_is_told_with_its_line(penstock, folder):
    (folder / "hours.py").write_text(
        'from penstock import *\n\nhours = TimeWindows.of_size_and_grace("1 hour", "10 minuts")\n'
    )
    code, out, err = penstock("topology", "hours.py")
    assert (code, out, err) == (
        1,
        [],
        [
            "Error: the grace period: 'minuts' in '10 minuts' is no unit of time; use ms, s, min, h, d or w",
            f'  the line: {folder}/hours.py:3: hours = TimeWindows.of_size_and_grace("1 hour", "10 minuts")',
        ],
    )


def test_a_mistake_that_is_found_inside_pythons_own_modules_is_told_with_the_users_line_alone(penstock, folder):
    (folder / "long_names.py").write_text(
        "from penstock import StreamsBuilder\nbuilder = StreamsBuilder()\n"
        "builder.stream('in', value=str).group_by_key().count(store='x' * 210).to_stream().to('out')\n"
        "topology = builder.build()\n"
    )
    code, _, err = penstock("topology", "long_names.py")
    assert (code, [line[:250] for line in err]) == (
        1,
        [f"Error: the store '{'x' * 210}' at {folder}/long_names.py:3 has a name of 210 letters"[:250]],
    )


def test_a_program_with_a_wrong_syntax_is_told_with_the_line(penstock, folder):
    (folder / "wrong.py").write_text("topology = (\n")
    assert penstock("topology", "wrong.py") == (
        1,
        [],
        [
            "Error: wrong.py failed:",
            f'  File "{folder}/wrong.py", line 1',
            "    topology = (",
            "               ^",
            "SyntaxError: '(' was never closed",
        ],
    )


def test_a_folder_with_the_name_of_the_program_hides_nothing(penstock, folder, tmp_path_factory, monkeypatch):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "hello").mkdir()
    monkeypatch.syspath_prepend(elsewhere)
    assert penstock("topology", "hello.py").code == 0


def test_a_topology_that_cannot_be_built_is_one_message(penstock, folder):
    (folder / "empty.py").write_text("from penstock import StreamsBuilder\ntopology = StreamsBuilder()\n")
    assert penstock("topology", "empty.py") == (
        1,
        [],
        ["Error: the topology is empty: begin with builder.stream(topic) or builder.table(topic)"],
    )


def test_debug_shows_where_an_error_was_raised(folder):
    penstock = str(Path(sys.executable).with_name("penstock"))
    plain, debug = (
        subprocess.run([penstock, "topology", "hello.py:broken", *options], cwd=folder, capture_output=True, text=True)
        for options in ([], ["--debug"])
    )
    assert (plain.returncode, debug.returncode) == (1, 1)
    assert "command.py" not in plain.stderr
    assert "command.py" in debug.stderr
