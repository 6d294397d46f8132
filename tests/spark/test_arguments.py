"""Mistakes in what a program is started with: refused before Spark starts, and in words of the user's."""

from __future__ import annotations

import os
import sqlite3
import threading
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import types as spark_types

from penstock import StreamsBuilder, produce, produce_columns, write
from penstock.engine.shipping.shipping import dumps
from penstock.engine.spark import jvm, streams
from penstock.errors import ConfigError, PenstockError, TopologyError
from penstock.log.memory import MemoryLog

LOCK = threading.Lock()
CONNECTION = sqlite3.connect(":memory:")


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Spark must not be started at all."""
    monkeypatch.setattr(streams, "context_for", lambda *_: pytest.fail("Spark was started"))
    monkeypatch.setattr(jvm, "begin", lambda _: None)
    monkeypatch.chdir(tmp_path)


def topology(function: Any = str) -> Any:
    produce([("a", 1)], "in", value=int)
    builder = StreamsBuilder()
    builder.stream("in", value=int).map_values(function).to("out")
    return builder.build()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"trigger": "often"},
            "start: trigger: cannot read 'often' as a duration.*; or 'available-now' to process all present records "
            "and stop",
        ),
        ({"trigger": -5}, "start: trigger must not be negative, got -5"),
        ({"slots": 0}, "start: slots is a number of processes, an int of at least 1; got 0 of type int"),
        ({"slots": "4"}, "start: slots is a number of processes, an int of at least 1; got '4' of type str"),
        ({"on_progress": "print"}, r"start: on_progress is a function of \(progress\), .*; got 'print'"),
        ({"spark": "local"}, "start: spark is a SparkSession; got 'local' of type str; make one with"),
        ({"drop": 5}, r'drop is a list of names, as in \["store"\]; got 5'),
        ({"drop": None}, r"drop is a list of names, .*; got None"),
        ({"drop": [5]}, r"drop is a list of names, .*; got \[5\]"),
        ({"rename": 5}, r"rename maps old names to new ones, .*; got 5"),
        ({"rename": {"old": 5}}, r"rename maps old names to new ones, .*; got \{'old': 5\}"),
        ({"log": 5}, "log takes a path or a URL, got 5"),
        ({"log": "s3://bucket"}, "log: 's3://bucket' is not a path on this machine"),
        ({"trigger": float("nan")}, "start: trigger must be an int of milliseconds, .*; got nan"),
        ({"slots": float("nan")}, "start: slots is a number of processes, an int of at least 1; got nan of type float"),
        ({"on_progress": 5}, r"start: on_progress is a function of \(progress\), .*; got 5"),
        ({"state_restore_listener": 5}, "start: state_restore_listener is a StateRestoreListener, got 5"),
        ({"standby_update_listener": 5}, "start: standby_update_listener is a StandbyUpdateListener, got 5"),
        ({"state_listener": 5}, "state_listener is a function of .*; got 5"),
        ({"uncaught_exception_handler": 5}, "uncaught_exception_handler is a function of .*; got 5"),
        ({"on_eror": "skip"}, r"unknown setting 'on_eror' \(keyword\) \(did you mean 'on_error'\?\)"),
    ],
)
def test_wrong_arguments_are_refused_before_spark_starts(arguments: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        topology().start("app", **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"spark": 5}, "run_batch takes a SparkSession; got 5 of type int"),
        ({"sources": 5}, "run_batch takes a dict of a DataFrame for each topic; got 5 of type int"),
        ({"sources": []}, r"run_batch takes a dict of a DataFrame for each topic; got \[\] of type list"),
        ({"sources": {"in": 5}}, "run_batch: topic 'in': it takes a DataFrame of Spark; got 5 of type int"),
        ({"sources": {5: 5}}, "run_batch: there is a DataFrame for topic 5, which the topology does not read"),
        ({"key": 5}, "run_batch: key is the name of a column, or several: .*; got 5"),
        ({"value": ["a"]}, r"run_batch: value is the name of a column; got \['a'\]"),
        ({"timestamp": len}, "run_batch: timestamp is the name of a column; got <built-in function len>"),
        ({"order": 5}, "run_batch: order is the column that says in which order rows arrived, or two.*; got 5"),
        ({"timestamp_unit": "min"}, "run_batch: timestamp_unit is one of s, ms, us, ns; got 'min'"),
        ({"log": 5}, "log takes a path or a URL, got 5"),
        ({"log": "s3://bucket"}, "log: 's3://bucket' is not a path on this machine"),
        ({"partitions": float("nan")}, "run_batch: partitions is a number from 1 on; got nan"),
        ({"partitions": True}, "run_batch: partitions is a number from 1 on; got True"),
        ({"stores": 5}, "run_batch: there is no store 5"),
        ({"stores": [5]}, "run_batch: there is no store 5"),
        ({"application_id": 5}, "5 cannot be an application's id: use 1 to 249"),
        ({"application_id": "app", "batch": 5}, "run_batch: batch is a name for the rows of this batch, .*; got 5"),
        ({"batch": "b"}, "run_batch: batch='b' names a batch of an application"),
        ({"seed": 5}, "5 cannot be an application's id: use 1 to 249"),
        ({"seed": "app", "then": 5}, "run_batch: then is a dict of a place for each topic; got 5"),
        ({"then": {"in": 0}}, "run_batch: then= says where a live program continues after a seed"),
        ({"on_eror": "skip"}, r"unknown setting 'on_eror' \(keyword\)"),
    ],
)
def test_wrong_arguments_of_a_batch_are_refused_before_spark_is_asked(arguments: dict[str, Any], message: str):
    spark = SimpleNamespace(createDataFrame=lambda *_: pytest.fail("Spark was asked"))
    with pytest.raises(PenstockError, match=message):
        topology().run_batch(**{"spark": spark, "log": "log", **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"df": 5}, "write takes a DataFrame of Spark; got 5 of type int"),
        ({"topic": 5}, "a topic's name is text, such as 'orders'; got 5 of type int"),
        ({"topic": "a/b"}, "'a/b' cannot be a topic's name"),
        ({"key": 5}, "write: key is the name of a column, or several: .*; got 5"),
        ({"key": ["k", "other"]}, "write: there is no column 'other'; the columns are k, v, at"),
        ({"value": "other"}, "write: there is no column 'other'; the columns are k, v, at"),
        ({"timestamp": len}, "write: there is no column <built-in function len>; the columns are k, v, at"),
        ({"timestamp_unit": "min"}, "write: timestamp_unit is one of s, ms, us, ns; got 'min'"),
        ({"log": 5}, "log takes a path or a URL, got 5"),
        ({"log": "s3://bucket"}, "log: 's3://bucket' is not a path on this machine"),
        ({"log": MemoryLog()}, "write: Spark needs a log that its processes share, not a MemoryLog"),
        ({"partitions": float("nan")}, "topic 'out': a topic has at least 1 partition, got partitions=nan"),
        ({"partitions": "many"}, "topic 'out': a topic has at least 1 partition, got partitions='many'"),
        ({"checkpoint": 5}, "write: checkpoint takes a path or a URL, got 5"),
        ({"checkpoint": "kafka://host"}, "write: checkpoint: Spark cannot keep its progress in 'kafka://host'"),
    ],
)
def test_wrong_arguments_of_write_are_refused_before_spark_is_asked(arguments: dict[str, Any], message: str):
    schema = _schema()
    frame = SimpleNamespace(isStreaming=False, schema=schema, columns=schema.names)
    with pytest.raises(ConfigError, match=message):
        write(**{"df": frame, "topic": "out", "key": "k", "value": "v", "timestamp": "at", "log": "log", **arguments})
    assert not Path("log").exists(), "nothing was made"


def _schema() -> spark_types.StructType:
    """That of a DataFrame with a column of keys, one of values and one of times."""
    kinds = {"k": spark_types.StringType(), "v": spark_types.StringType(), "at": spark_types.LongType()}
    return spark_types.StructType([spark_types.StructField(name, kind) for name, kind in kinds.items()])


def test_an_application_without_a_name_is_refused():
    with pytest.raises(TopologyError, match=r"None cannot be an application's id"):
        topology().start(None)


def look_up(value):
    return CONNECTION.execute("select ?", (value,)).fetchone()


def indirectly(value):
    return look_up(value)


class Client:
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def ask(self, value):
        return value

    @wraps(max)
    def ask_decorated(self, value):
        return value


def in_main(function: Any) -> Any:
    """The function as it would be in a script, where it does not go by name."""
    function.__module__ = "__main__"
    return function


def test_what_cannot_be_pickled_is_named_with_step_function_and_variable():
    lock = threading.Lock()

    def locked(value):
        with lock:
            return value

    with pytest.raises(ConfigError) as failure:
        topology(locked).start("app")
    line = locked.__code__.co_firstlineno
    assert "step KSTREAM-MAPVALUES-0000000001 at " in str(failure.value)
    assert f"locked at {__file__}:{line} uses 'lock' of type _thread.lock, which cannot be pickled" in str(
        failure.value
    )
    assert "inside the function instead of around it" in str(failure.value)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (in_main(look_up), "'CONNECTION' of type sqlite3.Connection"),
        (in_main(indirectly), "'look_up', which uses 'CONNECTION' of type sqlite3.Connection"),
        (partial(max, threading.Lock()), "'argument 0' of type _thread.lock"),
        (Client().ask, "'self.lock' of type _thread.lock"),
        (Client().ask_decorated, "'self.lock' of type _thread.lock"),
        (lambda value, lock=LOCK: value, "'a default' of type _thread.lock"),
    ],
)
def test_what_cannot_be_pickled_is_found_wherever_it_is(function: Any, said: str):
    with pytest.raises(ConfigError) as failure:
        dumps(topology(function))
    assert said in str(failure.value)


@pytest.mark.parametrize("write", [
    lambda count: produce([("a", 1)], "in", value=int, partitions=count),
    lambda count: produce_columns({"k": ["a"], "v": [1]}, "in", key="k", value="v", partitions=count),
])  # fmt: skip
def test_another_number_of_partitions_than_a_topic_has_is_refused(write: Any):
    produce([("a", 1)], "in", value=int, partitions=2)
    with pytest.raises(
        ConfigError, match="topic 'in' exists with 2 partitions, not 3: the number is fixed when a topic"
    ):
        write(3)
    assert write(2) == write(None) == 1


def test_a_topic_has_at_least_one_partition():
    with pytest.raises(ConfigError, match="a topic has at least 1 partition, got partitions=0"):
        produce([("a", 1)], "in", partitions=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"topik": "in"},
            r"has no option 'topik' \(did you mean 'topic'\?\); the options are topic, log, typed, ",
        ),
        ({"topic": "in", "path": "x"}, "has no option 'path'; the options are"),
        ({"log": "x"}, r'needs .option\("topic", name\)'),
    ],
)
def test_wrong_options_of_the_data_source_are_refused(options: dict[str, str], message: str):
    from penstock.engine.spark.dataframes import PenstockSource

    with pytest.raises(ConfigError, match=message):
        PenstockSource(options).streamReader(None)


def test_rows_are_no_data_frame():
    with pytest.raises(
        ConfigError, match=r"write takes a DataFrame of Spark; got \[1, 2\] of type list\. penstock\.pro"
    ):
        write([1, 2], "out")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"state_dir": "file/state"}, r"state_dir \(--state-dir\) is .*/file/state, and .*/file is no folder"),
        ({"checkpoint": "file"}, r"checkpoint \(--checkpoint\) is .*/file, and .*/file is no folder"),
        ({"log": "file/log"}, r"log \(--log\) is .*/file/log, and .*/file is no folder"),
        ({"state_dir": "closed/state"}, r"state_dir \(--state-dir\) .*/closed cannot be written by this user"),
    ],
)
def test_folders_that_cannot_be_are_told_before_a_jvm_is_begun(
    arguments: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir()
    access = os.access
    monkeypatch.setattr(os, "access", lambda place, how: Path(place).name != "closed" and access(place, how))
    monkeypatch.setattr(jvm, "begin", lambda _: pytest.fail("a JVM was begun"))
    with pytest.raises(ConfigError, match=f"{said}; nothing was started"):
        topology().start("app", **arguments)
