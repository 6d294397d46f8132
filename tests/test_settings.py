"""Settings: where they come from, every wrong value named before anything starts, secrets not shown."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder
from penstock.errors import ConfigError
from penstock.settings import MIB, Settings, StateSettings
from penstock.state.interface import IsolationLevel
from penstock.testing import TopologyTestDriver


def load(**keywords: Any) -> Settings:
    """Settings of these keywords alone."""
    return Settings.load(folder=Path("nowhere"), environment={}, **keywords)


def test_without_anything_given_there_are_defaults():
    assert load() == Settings(
        log_dir=Path(".penstock/log"),
        state_dir=None,
        checkpoint=None,
        statestore_cache_max_bytes=10 * MIB,
        statestore_uncommitted_max_records=-1,
        statestore_uncommitted_max_bytes=64 * MIB,
        commit_max_bytes=256 * MIB,
        chunk_records=32_768,
        on_error="fail",
        output_partitions=0,
        hot_max_bytes=128 * MIB,
        flush_rows=200_000,
        flush_interval=30_000,
        flush_commits=500,
        snapshot_bytes=1024 * MIB,
        snapshot_interval=300_000,
        snapshot_commits=5_000,
        block_cache_bytes=8 * MIB,
    )
    assert load().state == StateSettings()
    assert load().origins == {}


@pytest.mark.parametrize(
    ("variable", "meant"),
    [("PENSTOCK_ON_EROR", "PENSTOCK_ON_ERROR"), ("PENSTOCK_COMMIT_MAX_BYTE", "PENSTOCK_COMMIT_MAX_BYTES")],
)
def test_a_misspelt_variable_is_refused_with_what_was_meant(variable: str, meant: str):
    with pytest.raises(ConfigError, match=rf"unknown setting {variable} .* \(did you mean '{meant}'\?\)"):
        Settings.load(Path("nowhere"), {variable: "skip"})


def test_a_misspelt_keyword_is_refused_with_what_was_meant():
    with pytest.raises(ConfigError, match=r"unknown setting 'on_eror' \(keyword\) \(did you mean 'on_error'\?\)"):
        load(on_eror="skip")


def test_keywords_go_before_variables_and_those_before_files(tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text(
        "[tool.penstock]\nchunk_records = 1\nflush_rows = 1\nflush_commits = 1\non_error = 'skip'\n"
        "[tool.other]\nx = 1\n"
    )
    (tmp_path / "penstock.toml").write_text("flush_rows = 2\nflush_commits = 2\non_error = 'skip'\n")
    variables = {"PENSTOCK_FLUSH_COMMITS": "3", "PENSTOCK_ON_ERROR": "skip", "PENSTOCK_UNKNOWN": "x", "FLUSH_ROWS": "9"}

    settings = Settings.load(tmp_path, variables, on_error="dead_letter:broken", chunk_records=None)

    assert (settings.chunk_records, settings.flush_rows, settings.flush_commits) == (1, 2, 3)
    assert settings.on_error == "dead_letter:broken"
    assert settings.origins == {
        "chunk_records": "pyproject.toml",
        "flush_rows": "penstock.toml",
        "flush_commits": "environment",
        "on_error": "keyword",
    }


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [(1000, 1000), ("1000", 1000), ("64 MB", 64 * MIB), ("64MiB", 64 * MIB), ("1.5 gb", 1536 * MIB), ("2 kB", 2048)],
)
def test_sizes_may_be_text(tmp_path: Path, given: int | str, bytes_: int):
    assert load(hot_max_bytes=given).hot_max_bytes == bytes_
    assert Settings.load(tmp_path, {"PENSTOCK_HOT_MAX_BYTES": str(given)}).state.hot_max_bytes == bytes_
    (tmp_path / "penstock.toml").write_text(f"hot_max_bytes = {given!r}")
    assert Settings.load(tmp_path, {}).hot_max_bytes == bytes_


def test_paths_become_absolute_and_urls_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    resolved = load(log_dir="log", state_dir=Path("state"), checkpoint="commits").resolved()
    assert (resolved.log_dir, resolved.state_dir) == (tmp_path / "log", tmp_path / "state")
    assert resolved.checkpoint == str(tmp_path / "commits")
    assert load(checkpoint="s3://bucket/app").resolved().checkpoint == "s3://bucket/app"
    assert load().resolved().state_dir is None


# --- what is wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("chunk_records", "many", "chunk_records (keyword) must be a whole number, got 'many'"),
        ("chunk_records", 1.5, "chunk_records (keyword) must be a whole number, got 1.5"),
        ("chunk_records", True, "chunk_records (keyword) must be a whole number, got True"),
        ("chunk_records", [1], "chunk_records (keyword) must be a whole number, got [1]"),
        ("chunk_records", 0, "chunk_records must be at least 1, got 0"),
        ("chunk_records", 1 << 63, f"chunk_records must be less than 2**63, got {1 << 63}"),
        ("hot_max_bytes", 1 << 64, f"hot_max_bytes must be less than 2**63, got {1 << 64}"),
        ("output_partitions", 1 << 63, f"output_partitions must be less than 2**63, got {1 << 63}"),
        ("standby_replicas", 2, "standby_replicas must be 0 or 1, got 2"),
        ("standby_replicas", -1, "standby_replicas must not be negative, got -1"),
        ("commit_max_bytes", -1, "commit_max_bytes must be at least 1, got -1"),
        ("hot_max_bytes", 0, "hot_max_bytes must be at least 1, got 0"),
        (
            "hot_max_bytes",
            "much",
            "hot_max_bytes (keyword) must be a number of bytes or text such as '64 MB', got ",
        ),
        ("hot_max_bytes", "1 mile", "hot_max_bytes (keyword) must be a number of bytes or text such as '64 MB'"),
        ("block_cache_bytes", 0, "block_cache_bytes must be at least 1, got 0"),
        ("flush_rows", 0, "flush_rows must be at least 1, got 0"),
        ("flush_commits", 0, "flush_commits must be at least 1, got 0"),
        ("snapshot_commits", 499, "snapshot_commits (499) must not be less than flush_commits (500)"),
        ("flush_interval", 0, "flush_interval must be at least 1, got 0"),
        ("snapshot_bytes", 0, "snapshot_bytes must be at least 1, got 0"),
        ("snapshot_interval", "-1 s", "snapshot_interval"),
        ("statestore_cache_max_bytes", -1, "statestore_cache_max_bytes must not be negative, got -1"),
        ("statestore_cache_max_bytes", "-1 MB", "statestore_cache_max_bytes must not be negative, got -1048576"),
        ("statestore_uncommitted_max_records", 0, "must be at least 1, or -1 for no limit, got 0"),
        ("statestore_uncommitted_max_bytes", -2, "must be at least 1, or -1 for no limit, got -2"),
        ("output_partitions", -1, "output_partitions must not be negative, got -1"),
        ("on_error", "explode", "on_error must be 'fail', 'skip' or 'dead_letter:<topic>', got 'explode'"),
        ("on_error", "dead_letter", "on_error must be 'fail', 'skip' or 'dead_letter:<topic>', got 'dead_letter'"),
        ("on_error", "skip:t", "on_error must be 'fail', 'skip' or 'dead_letter:<topic>', got 'skip:t'"),
        ("on_error", 5, "on_error (keyword) must be text, got 5"),
        ("log_dir", 5, "log_dir (keyword) must be a path, got 5"),
        ("log_dir", "", "log_dir (keyword) must not be empty"),
        ("state_dir", ["a"], "state_dir (keyword) must be a path, got ['a']"),
        ("checkpoint", 5, "checkpoint (keyword) must be text, got 5"),
        ("checkpoint", "", "checkpoint (keyword) must not be empty"),
        (
            "log_dri",
            "x",
            "unknown setting 'log_dri' (keyword) (did you mean 'log_dir'?)",
        ),
        ("commit_interval_ms", 5, "unknown setting 'commit_interval_ms' (keyword): here it is commit_interval, in "),
        ("bootstrap.servers", "h:9092", "unknown setting 'bootstrap.servers' (keyword): here it is log, such as "),
        ("commit.interval", 5, "unknown setting 'commit.interval' (keyword) (did you mean 'commit_interval'?)"),
        ("origins", {}, "unknown setting 'origins' (keyword); `penstock config` lists all"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: Any, message: str):
    with pytest.raises(ConfigError, match=re.escape(message)):
        load(**{name: value})


def test_a_wrong_value_says_where_it_came_from(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"flush_rows \(environment\) must be a whole number, got 'few'"):
        Settings.load(tmp_path, {"PENSTOCK_FLUSH_ROWS": "few"})
    (tmp_path / "penstock.toml").write_text("flush_rows = 'few'")
    with pytest.raises(ConfigError, match=r"flush_rows \(penstock.toml\) must be a whole number, got 'few'"):
        Settings.load(tmp_path, {})
    (tmp_path / "penstock.toml").write_text("flush_row = 1")
    with pytest.raises(
        ConfigError,
        match=r"unknown setting 'flush_row' \(penstock.toml\) \(did you mean 'flush_rows'\?\)",
    ):
        Settings.load(tmp_path, {})
    (tmp_path / "penstock.toml").write_text("flush_rows = = 1")
    with pytest.raises(ConfigError, match=rf"{tmp_path}/penstock.toml is not TOML: .* line 1"):
        Settings.load(tmp_path, {})


def test_wrong_settings_stop_the_start_of_a_topology_before_anything_is_made(tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    topology = builder.build()
    with pytest.raises(ConfigError, match="chunk_records must be at least 1, got 0"):
        TopologyTestDriver(topology, chunk_records=0)
    with pytest.raises(ConfigError, match="unknown setting 'chunks'"):
        topology.start(application_id="app", log=tmp_path / "log", state_dir=tmp_path / "state", chunks=1)
    assert list(tmp_path.iterdir()) == []


# --- secrets -------------------------------------------------------------------------------------------------------


def test_a_url_with_keys_is_not_shown():
    settings = load(checkpoint="s3://key:secret@bucket/app?secret_access_key=abc", chunk_records=5)
    assert "chunk_records=5" in repr(settings)
    assert ("secret" in repr(settings), "abc" in repr(settings), "bucket" in str(settings)) == (False, False, False)


def test_settings_do_not_change():
    with pytest.raises(FrozenInstanceError):
        load().chunk_records = 5  # type: ignore[misc]


@pytest.mark.kip("44-01")
def test_what_queries_see_follows_the_guarantee_unless_it_is_said():
    assert Settings().queries_see == "read_committed"
    assert Settings(processing_guarantee="at_least_once").queries_see == "read_uncommitted"
    said = Settings.load(environment={"PENSTOCK_DEFAULT_INTERACTIVE_QUERY_ISOLATION_LEVEL": "READ_UNCOMMITTED"})
    assert said.queries_see == "read_uncommitted"
    given = Settings.load(environment={}, default_interactive_query_isolation_level=IsolationLevel.READ_COMMITTED)
    assert given.queries_see == given.default_interactive_query_isolation_level == "read_committed"
    assert Settings.load(environment={}, enable_transactional_statestores="false").queries_see == "read_uncommitted"
    assert Settings().statestore_uncommitted_max_bytes == 64 << 20


@pytest.mark.kip("44-01")
def test_a_level_that_would_have_no_meaning_is_refused():
    with pytest.raises(ConfigError, match="has a meaning only with enable_transactional_statestores"):
        Settings(enable_transactional_statestores=False, default_interactive_query_isolation_level="read_committed")
    with pytest.raises(ConfigError, match="must be one of read_committed, read_uncommitted; got 'serializable'"):
        Settings.load(environment={}, default_interactive_query_isolation_level="serializable")


def test_a_current_folder_that_was_removed_has_no_files_of_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Spark's Python processes keep the folder their JVM was started in, whatever becomes of it."""
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert Settings.load(environment={}, chunk_records=7) == Settings(chunk_records=7)
