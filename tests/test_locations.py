"""Paths and URLs: every argument, setting and option takes what it can use, and refuses the rest under its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock import consume, open_store, produce, produce_columns
from penstock.cli.main import main
from penstock.errors import ConfigError
from penstock.files.locations import checkpoint_place, folder, log_place, scheme_of, spark_path
from penstock.log.file.log import FileLog
from penstock.log.open import open_log
from penstock.settings import Settings
from penstock.storage.opening import open_storage
from penstock.testing.broker import Broker

URLS = ["kafka://host:9092", "s3://bucket/x", "s3a://bucket/x", "file://host/x", "hdfs://name/x", "http://host/x"]
LOST_A_SLASH = ["kafka:/host:9092", "s3:/bucket/x", "hdfs:/x", "kafka:host:9092", "s3:bucket", "S3://bucket/x"]


@pytest.fixture(autouse=True)
def nothing_makes_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert [path.name for path in tmp_path.rglob("*") if ":" in path.name] == []


def without(*schemes: str) -> list[Any]:
    return [url for url in URLS + LOST_A_SLASH if not url.startswith(tuple(f"{scheme}://" for scheme in schemes))]


@pytest.mark.parametrize("url", without("kafka"))
@pytest.mark.parametrize(
    "use",
    [
        lambda log: produce([("a", 1)], "t", log=log),
        lambda log: produce([("a", 1)], "t", log=Path(log)),
        lambda log: produce_columns({"a": [1]}, "t", log=log),
        lambda log: consume("t", log=log),
        lambda log: Settings.load(log=log),
        lambda log: Settings.load(environment={"PENSTOCK_LOG": log}),
        open_log,
        FileLog,
    ],
)
def test_a_log_is_a_folder_or_kafka(url: str, use: Callable[[str], Any]):
    with pytest.raises(ConfigError, match=r"^log( \(\w+\))?: '"):
        use(url)


def test_the_address_of_a_broker_is_no_folder_unless_there_is_one(tmp_path: Path):
    with pytest.raises(ConfigError) as refused:
        open_log("localhost:9092")
    assert str(refused.value) == (
        "log: 'localhost:9092' looks like a Kafka broker. Write it as 'kafka://localhost:9092'; for a folder of this "
        "name, write './localhost:9092'"
    )
    assert log_place("./localhost:9092") == Path("localhost:9092")


@pytest.mark.parametrize("url", [*URLS, *LOST_A_SLASH])
@pytest.mark.parametrize("name", ["log_dir", "state_dir"])
def test_a_folder_is_no_url(url: str, name: str):
    with pytest.raises(ConfigError, match=rf"^{name} \(keyword\): "):
        Settings.load(**{name: url})
    with pytest.raises(ConfigError, match=rf"^{name} \(environment\): "):
        Settings.load(environment={f"PENSTOCK_{name.upper()}": url})
    with pytest.raises(ConfigError, match=rf"^{name} \(keyword\): "):
        Settings.load(**{name: Path(url)})


@pytest.mark.parametrize("url", [*without("s3", "s3a", "S3"), "memory:///x", "https://host/x"])
def test_a_checkpoint_is_a_folder_or_an_object_store(url: str):
    with pytest.raises(ConfigError, match=r"^checkpoint \(keyword\): "):
        Settings.load(checkpoint=url)
    with pytest.raises(ConfigError, match=r"^application: "):
        open_store(url, "counts")


def test_what_is_meant_is_understood():
    assert folder("file:///data/my%20app", "state_dir") == folder("file:/data/my app", "state_dir")
    assert Settings.load(state_dir="file:///data/app", log_dir="file://localhost/log").state_dir == Path("/data/app")
    assert log_place("KAFKA://host:9092") == "kafka://host:9092"
    assert log_place("2024-01-01T10:30") == Path("2024-01-01T10:30")
    assert checkpoint_place("https://account.blob.core.windows.net/c") == "https://account.blob.core.windows.net/c"
    assert spark_path("s3a://bucket/ck") == "s3a://bucket/ck"
    assert spark_path("dbfs:/ck") == "dbfs:/ck"
    assert [scheme_of(path) for path in ("C:/data", "a:b", "./s3://x", "x/kafka://y")] == [None] * 4


def test_topics_in_a_folder_given_as_a_url_are_the_same(tmp_path: Path):
    produce([("a", 1, 5)], "t", log=f"file://{tmp_path}/log")
    assert [record[:3] for record in consume("t", log=tmp_path / "log")] == [("a", 1, 5)]


@pytest.mark.parametrize("url", ["kafka://host:9092", "http://host/ck", "memory:///ck", "file://host/ck"])
def test_spark_keeps_no_progress_where_it_cannot_write(url: str):
    with pytest.raises(ConfigError, match=r"^checkpoint: "):
        spark_path(url)


def test_a_path_that_held_a_url_is_refused():
    with pytest.raises(ConfigError, match="lost a slash"):
        spark_path(Path("s3a://bucket/ck"))
    with pytest.raises(ConfigError, match="a Path cannot hold a URL"):
        checkpoint_place(Path("s3://bucket/ck"))


def test_a_url_that_lost_a_slash_is_no_storage():
    with pytest.raises(ConfigError, match=r"^checkpoint: 's3:/bucket'"):
        open_storage("s3:/bucket")


def test_a_broker_for_tests_keeps_its_topics_in_no_url():
    with pytest.raises(ConfigError, match=r"^folder: 's3:/bucket'"):
        Broker(Path("s3://bucket"))


def test_keys_in_a_url_are_not_shown():
    with pytest.raises(ConfigError) as error:
        log_place("s3://key:hush@bucket/x?secret=hush")
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("url", ["s3://bucket/x", "hdfs://name/x", "http://host/x", "s3:/x"])
@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        (["topics", "ls", "--log", "URL"], "--log"),
        (["topics", "cat", "t", "--log-dir", "URL"], "--log"),
        (["topics", "produce", "t", "--log", "URL"], "--log"),
        (["lag", "app", "--log", "URL"], "--log"),
        (["status", "app", "--log", "URL"], "--log"),
        (["ui", "app", "--log", "URL"], "--log"),
        (["serve", "app", "--log", "URL"], "--log"),
        (["reset", "app", "--log", "URL"], "--log"),
        (["rescale", "app", "--partitions", "2", "--log", "URL"], "--log"),
        (["doctor", "--state-dir", "URL"], "--state-dir"),
        (["config", "--state-dir", "URL"], "--state-dir"),
        (["config", "--set", "log_dir=URL"], "log_dir"),
        (["config", "--config", "URL"], "--config"),
        (["state", "export", "app", "counts", "URL.csv"], "FILE"),
    ],
)
def test_commands_name_the_option(arguments: list[str], parameter: str, url: str):
    result = CliRunner().invoke(main, [one.replace("URL", url) for one in arguments])
    assert result.exit_code == 2
    assert parameter in result.output
    assert "is not a path on this machine" in result.output.replace("\n", " ")


@pytest.mark.parametrize("command", [["status"], ["lag"], ["state", "ls"], ["reset"], ["ui"], ["serve"]])
def test_commands_of_an_application_take_no_url_that_is_no_checkpoint(command: list[str]):
    for url in ("kafka://host:9092", "hdfs://name/x", "http://host/x", "s3:/x"):
        result = CliRunner().invoke(main, [*command, url])
        assert result.exit_code != 0
        assert "application:" in result.output


@pytest.mark.parametrize("judge", [folder, log_place, checkpoint_place, spark_path])
@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("~/topics", r"place: only a shell takes ~ for the home folder\. Write '/home/ann/topics'"),
        (Path("~"), r"place: only a shell takes ~ for the home folder\. Write '/home/ann'"),
        ("  ", r"place: '  ' begins or ends with a blank\. Write it without"),
        ("/data/topics\n", r"place: '/data/topics\\n' begins or ends with a blank"),
        (Path("C:\\topics"), r"place: 'C:\\\\topics' is a path of Windows, and would be a folder of that name here"),
        ("D:/topics", r"place: 'D:/topics' is a path of Windows"),
        ("a\0b", r"place: 'a\\x00b' has a zero byte in it, and no path has one"),
    ],
)
def test_what_is_hardly_meant_as_a_folder_of_that_name_is_refused(
    judge: Any, where: Any, said: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", "/home/ann")
    with pytest.raises(ConfigError, match=said):
        judge(where, "place")


def test_other_names_that_begin_with_a_tilde_are_folders():
    assert folder("~backup/topics", "place") == Path("~backup/topics")
