"""What programs read of the command line: logs and errors as JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.command import tell
from penstock.cli.logs import JsonFormatter, json_line, log_as_json
from penstock.cli.terminal import say
from penstock.errors import ConfigError


@pytest.fixture
def json_logs() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers, root.level
    log_as_json()
    yield
    root.handlers, root.level = before[0], before[1]


def test_what_is_said_and_what_is_logged_is_one_object_a_line(json_logs: None, capsys: pytest.CaptureFixture[str]):
    log_as_json()  # now that stderr is the test's
    say("at work")
    logging.getLogger("app").warning("%d are late", 7, extra={"node": "hourly"})
    try:
        raise ValueError("s3://key:secret@bucket is shut")
    except ValueError:
        logging.getLogger("app").exception("it failed")
    said, late, failed = map(json.loads, capsys.readouterr().err.splitlines())
    assert (said["level"], said["logger"], said["message"]) == ("INFO", "penstock.cli", "at work")
    assert (late["level"], late["message"], late["node"]) == ("WARNING", "7 are late", "hourly")
    assert failed["error"].endswith("ValueError: s3://****@bucket is shut")


def test_what_extra_gives_is_masked_and_takes_the_place_of_nothing(json_logs: None, capsys: pytest.CaptureFixture[str]):
    log_as_json()  # now that stderr is the test's
    places = {"first": "s3://key:secret@bucket", "others": ["kafka://me:secret@host"]}
    extra = {"places": places, "where": Path("x"), "level": "s3://key:secret@bucket", "error": "none"}
    logging.getLogger("app").info("at work", extra=extra)
    told = json.loads(capsys.readouterr().err)
    assert (told["level"], told["message"], told["error"], told["where"]) == ("INFO", "at work", "none", "x")
    assert told["places"] == {"first": "s3://****@bucket", "others": ["kafka://****@host"]}


def test_a_line_without_a_logger_is_like_the_others():
    told = json.loads(json_line("WARNING", "Ended at once"))
    assert (told["level"], told["logger"], told["message"]) == ("WARNING", "penstock.cli", "Ended at once")


def test_a_record_has_its_time(json_logs: None):
    record = logging.makeLogRecord({"msg": "so", "created": 1_795_000_000.25})
    assert json.loads(JsonFormatter().format(record))["time"] == "2026-11-18T11:06:40.250Z"


def test_with_json_errors_are_json_too(penstock):
    ran = penstock("status", "nothing-here", "--json")
    assert ran.code == 1
    [line] = ran.err
    told = json.loads(line)
    assert told["type"] == "ConfigError"
    assert "found no commit of an application 'nothing-here'" in told["error"]


def test_without_json_errors_are_for_people(penstock):
    ran = penstock("status", "nothing-here")
    assert ran.err[0].startswith("Error: found no commit of an application 'nothing-here'")


def test_where_logs_are_json_an_error_is_a_line_of_the_log(json_logs: None, capsys: pytest.CaptureFixture[str]):
    log_as_json()  # now that stderr is the test's
    tell(ConfigError("there is none"), as_json=False)
    told = json.loads(capsys.readouterr().err)
    assert (told["level"], told["message"], told["type"]) == ("ERROR", "there is none", "ConfigError")
