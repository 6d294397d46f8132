"""``penstock config`` tells every setting and where it comes from; what is wrong is refused where it stands."""

from __future__ import annotations

import json
from dataclasses import fields

import click
import pytest

from penstock.cli.main import main
from penstock.settings import OF_COMMANDS, Settings


def settings(ran) -> dict[str, tuple[object, str]]:
    assert (ran.code, ran.err) == (0, [])
    rows = map(json.loads, ran.out)
    return {row["name"]: (row["value"], row["origin"]) for row in rows}


def test_every_setting_is_told_with_its_default(penstock):
    found = settings(penstock("config", "--json"))
    assert list(found) == [item.name for item in fields(Settings) if item.name != "origins"]
    assert {origin for _, origin in found.values()} == {"default"}
    assert found["log_dir"] == (".penstock/log", "default")
    assert found["state_dir"] == (".penstock/<application id>", "default")


def test_options_go_before_the_environment_before_files(penstock, folder, monkeypatch):
    (folder / "pyproject.toml").write_text("[tool.penstock]\nchunk_records = 1\nflush_rows = 1\nhot_max_bytes = 1\n")
    (folder / "penstock.toml").write_text("chunk_records = 2\nflush_rows = 2\ncommit_max_bytes = 2\n")
    monkeypatch.setenv("PENSTOCK_CHUNK_RECORDS", "3")
    monkeypatch.setenv("PENSTOCK_COMMIT_MAX_BYTES", "3")
    found = settings(penstock("config", "--json", "--set", "chunk-records=4", "--on-error", "skip"))
    assert {name: told for name, told in found.items() if told[1] != "default"} == {
        "chunk_records": (4, "command line"),
        "commit_max_bytes": (3, "PENSTOCK_COMMIT_MAX_BYTES"),
        "flush_rows": (2, "penstock.toml"),
        "hot_max_bytes": (1, "pyproject.toml"),
        "on_error": ("skip", "command line"),
    }


def test_a_settings_file_is_given_in_place_of_penstock_toml(penstock, folder):
    (folder / "penstock.toml").write_text("chunk_records = 1\nflush_rows = 1\n")
    (folder / "small.toml").write_text("chunk_records = 2\n")
    found = settings(penstock("config", "--json", "--config", "small.toml"))
    assert (found["chunk_records"], found["flush_rows"][1]) == ((2, "small.toml"), "default")


def test_a_variable_names_the_file(penstock, folder, monkeypatch):
    (folder / "small.toml").write_text("chunk_records = 2\n")
    monkeypatch.setenv("PENSTOCK_CONFIG", "small.toml")
    assert settings(penstock("config", "--json"))["chunk_records"] == (2, "small.toml")


def test_people_read_a_table(penstock):
    out = penstock("config", "--set", "chunk_records=10").out
    assert out[0].split() == ["setting", "value", "from"]
    assert ["chunk_records", "10", "command", "line"] in [line.split() for line in out]


def test_every_option_of_run_that_says_how_it_runs_can_be_a_variable():
    context = click.Context(main)
    run = main.get_command(context, "run")
    assert run is not None
    by_hand = {"ui_port": "PENSTOCK_UI_PORT", "serve_port": "PENSTOCK_SERVE_PORT", "log_dir": "PENSTOCK_LOG"}
    of_the_call = {"pairs", "program"}
    known = {one.name for one in fields(Settings)}
    left = {option.name for option in run.params if not option.envvar} - known - by_hand.keys() - of_the_call
    assert left == set()


def test_every_variable_that_is_an_option_of_a_command_is_known(penstock, monkeypatch):
    variables = {
        str(option.envvar).removeprefix("PENSTOCK_").lower()
        for name in main.commands_in
        for option in main.get_command(click.Context(main), name).params
        if option.envvar
    }
    assert variables | {"token"} == set(OF_COMMANDS)
    monkeypatch.setenv("PENSTOCK_LOG_FORMAT", "json")
    assert settings(penstock("config", "--json"))["log_format"] == ("json", "PENSTOCK_LOG_FORMAT")


def test_secrets_are_masked(penstock):
    url = "s3://key:secret@bucket/app?region=eu&secret_access_key=abc"
    ran = penstock("config", "--json", "--checkpoint", url)
    assert settings(ran)["checkpoint"] == ("s3://****@bucket/app?region=eu&secret_access_key=****", "command line")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "chunk_records = \n",
            "small.toml is not TOML: Invalid value (at line 1, column 17); write settings like chunk_records = 1000",
        ),
        ('chunk_records = "many"\n', "chunk_records (small.toml) must be a whole number, got 'many'"),
        ("chunk_records = 0\n", "chunk_records must be at least 1, got 0"),
    ],
)
def test_a_wrong_file_is_a_failure(penstock, folder, text, message):
    (folder / "small.toml").write_text(text)
    assert penstock("config", "--config", "small.toml") == (1, [], [f"Error: {message}"])


def test_an_unknown_setting_in_a_file_is_named(penstock, folder):
    (folder / "penstock.toml").write_text("chunks = 5\n")
    code, out, err = penstock("config")
    assert (code, out, len(err)) == (1, [], 1)
    assert err[0] == "Error: unknown setting 'chunks' (penstock.toml) (did you mean 'chunk_bytes'?)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "chunk_records"], "Invalid value for '--set': write it like --set chunk_records=1000; got "
                                     "'chunk_records'"),
        (["--set", "chunk_records=0"], "chunk_records must be at least 1, got 0"),
        (["--on-error", "cry"], "on_error must be 'fail', 'skip' or 'dead_letter:<topic>', got 'cry'"),
        (["--config", "nowhere.toml"], "Invalid value for '--config': File 'nowhere.toml' does not exist."),
    ],
)  # fmt: skip
def test_wrong_options_are_wrong_usage(penstock, options, message):
    code, out, err = penstock("config", *options)
    assert (code, out, err[-1]) == (2, [], f"Error: {message}")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("chunks", " (did you mean 'chunk_bytes'?)"),
        ("commit-interval-ms", ": here it is commit_interval, in milliseconds or as text such as '1 s'"),
        ("buffer_size", "; similar ones are input_buffer_max_bytes. `penstock config` lists all"),
        ("retention", "; `penstock config` lists all"),
    ],
)
def test_an_unknown_setting_is_refused_with_those_that_are_like_it(penstock, name, hint):
    code, _, err = penstock("config", "--set", f"{name}=5")
    told = f"Error: Invalid value for '--set': there is no setting {name.replace('-', '_')!r}{hint}"
    assert (code, err[-1]) == (2, told)
