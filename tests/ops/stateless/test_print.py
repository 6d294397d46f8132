"""``print``: records as text, to look at (KS-18)."""

import pickle

import pytest

from penstock import Printed
from penstock.errors import ConfigError, TopologyError
from support.flows import Run, source

pytestmark = pytest.mark.kip("KS-18")

ROWS = [("a", 1, 10), (None, 2, 5), ("b", None, 7)]


def test_print_writes_a_line_for_each_record_with_the_name_of_the_step_above(run: Run, capsys):
    builder, stream = source(value=int)
    stream.filter(lambda key, value: value != 2, name="not-2").print()
    stream.to("out")
    assert run(builder, ROWS).output() == ROWS
    assert capsys.readouterr().out == "[not-2]: a, 1\n[not-2]: b, None\n"
    assert "Processor: KSTREAM-PRINTER-0000000002" in builder.build().describe()


def test_printed_says_where_to_under_which_label_and_how(run: Run, tmp_path):
    file = tmp_path / "seen.txt"
    file.write_text("before\n")
    printed = Printed.to_file(file).with_label("in").with_key_value_mapper(lambda key, value: f"{key} has {value}")
    builder, stream = source(value=int)
    stream.print(printed.with_name("shown"))
    stream.to("out")
    assert run(builder, ROWS).output() == ROWS
    assert file.read_text() == "before\n[in]: a has 1\n[in]: None has 2\n[in]: b has None\n"
    assert "Processor: shown" in builder.build().describe()


def test_printed_to_standard_output_takes_a_label_too(run: Run, capsys, tmp_path):
    builder, stream = source(value=int)
    stream.print(Printed.to_file(tmp_path / "never.txt").to_sys_out().with_label("in"))
    stream.to("out")
    assert run(builder, ROWS[:1]).output() == ROWS[:1]
    assert capsys.readouterr().out == "[in]: a, 1\n"


def test_what_prints_travels_to_workers_and_writes_there(tmp_path):
    printer = pickle.loads(pickle.dumps(Printed.to_file(tmp_path / "seen.txt").printer("step")))
    printer("a", 1)
    assert (tmp_path / "seen.txt").read_text() == "[step]: a, 1\n"


def test_what_cannot_be_printed_to_is_refused():
    _, stream = source(value=int)
    with pytest.raises(TopologyError, match=r"what print takes at .* must be of type Printed; got 'seen.txt'"):
        stream.print("seen.txt")
    with pytest.raises(TopologyError, match=r"with_key_value_mapper at .* takes a function of \(key, value\)"):
        stream.print(Printed.with_key_value_mapper(lambda value: value))
    with pytest.raises(ConfigError, match=r"Printed\.to_file takes a path or a URL, got ''"):
        Printed.to_file("")
    with pytest.raises(ConfigError, match=r"Printed\.to_file: 's3://bucket/seen' is not a path on this machine"):
        Printed.to_file("s3://bucket/seen")


def test_a_file_may_be_given_as_a_url(tmp_path):
    Printed.to_file(f"file://{tmp_path}/seen.txt").printer("step")("a", 1)
    assert (tmp_path / "seen.txt").read_text() == "[step]: a, 1\n"
