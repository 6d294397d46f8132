"""Where ``run``, ``serve`` and ``ui`` listen and who is answered: options, and variables in their place."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import click
import pytest

from cli.conftest import Penstock
from penstock.cli.access import Access, access
from penstock.cli.run import _port
from penstock.cli.run import run as run_command
from penstock.query.application import ApplicationStores
from penstock.query.guard import Guarded
from support.watched import SOLD, Shop, shop_topology

TOKEN = "0123456789abcdef-of-a-test"

PROGRAM = """
from penstock import StreamsBuilder
builder = StreamsBuilder()
builder.stream("in").to("out")
topology = builder.build()
"""


@pytest.fixture(autouse=True)
def program(folder: Path) -> None:
    (folder / "app.py").write_text(PROGRAM)


@pytest.mark.parametrize("command", ["run app.py --ui", "run app.py --serve", "ui app", "serve app"])
def test_an_address_beyond_this_machine_wants_a_token_before_anything_is_begun(penstock: Penstock, command: str):
    for host in ("0.0.0.0", "::", "10.1.2.3", "machine.example"):
        ran = penstock(*command.split(), "--host", host)
        assert (ran.code, ran.out) == (2, [])
        assert ran.err[-1] == (
            f"Error: at {host}, everybody who reaches this machine could read all stores and topics: set a token in a "
            "file (--token-file) or the variable PENSTOCK_TOKEN, or let everybody read with --no-token"
        )


def test_a_token_comes_from_a_file_or_a_variable_which_other_processes_do_not_inherit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    (folder / "token").write_text(f"{TOKEN}\n")
    assert access("0.0.0.0", folder / "token", False) == Access("0.0.0.0", TOKEN, False)
    monkeypatch.setenv("PENSTOCK_TOKEN", TOKEN)
    with pytest.raises(click.UsageError, match="as well; give one of them"):
        access("0.0.0.0", folder / "token", False)
    monkeypatch.setenv("PENSTOCK_TOKEN", TOKEN)
    assert access("localhost", None, False) == Access("localhost", TOKEN, False)
    assert "PENSTOCK_TOKEN" not in os.environ
    assert access("0.0.0.0", None, True) == Access("0.0.0.0", None, True)


@pytest.mark.parametrize("token", ["short", "with a blank in the middle", "ein-längerer-schlüssel"])
def test_what_is_no_token_is_refused_and_not_shown(penstock: Penstock, monkeypatch: pytest.MonkeyPatch, token: str):
    monkeypatch.setenv("PENSTOCK_TOKEN", token)
    ran = penstock("ui", "app", "--host", "0.0.0.0")
    assert (ran.code, token in "".join(ran.err)) == (2, False)
    assert "needs at least 16 characters of ASCII, and no blanks" in ran.err[-1]


def test_variables_stand_for_the_options_of_run(monkeypatch: pytest.MonkeyPatch):
    variables = {"APPLICATION_ID": "mine", "SLOTS": "3", "UI": "true", "SERVE": "no", "HOST": "::1", "NO_TOKEN": "1"}
    for name, value in variables.items():
        monkeypatch.setenv(f"PENSTOCK_{name}", value)
    given = run_command.make_context("run", ["app.py", "--slots", "2"]).params
    names = ("application_id", "slots", "shows_page", "serve", "host", "no_token")
    assert [given[name] for name in names] == ["mine", 2, True, False, "::1", True]
    monkeypatch.setenv("PENSTOCK_UI_PORT", "9000")
    assert _port(True, None, "PENSTOCK_UI_PORT", 8093) == 9000
    assert _port(True, 1, "PENSTOCK_UI_PORT", 8093) == 1
    assert _port(False, None, "PENSTOCK_UI_PORT", 8093) is None
    monkeypatch.setenv("PENSTOCK_UI_PORT", "tcp://10.0.0.1:80")
    with pytest.raises(click.UsageError, match="PENSTOCK_UI_PORT is a number from 0 to 65535, got 'tcp:"):
        _port(True, None, "PENSTOCK_UI_PORT", 8093)


def test_the_configuration_shows_them_without_the_token(penstock: Penstock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PENSTOCK_SLOTS", "3")
    monkeypatch.setenv("PENSTOCK_TOKEN", TOKEN)
    assert [line.split() for line in penstock("config").out[-2:]] == [
        ["slots", "3", "PENSTOCK_SLOTS"],
        ["token", "****", "PENSTOCK_TOKEN"],
    ]


def test_an_occupied_port_is_found_before_spark_starts(penstock: Penstock):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for option in ("--ui-port", "--serve-port"):
            ran = penstock("run", "app.py", option, str(port))
            said = f"cannot listen at 127.0.0.1, port {port}: Address already in use; give another {option}, 0 takes"
            assert ran == (1, [], [f"Error: {said} a free one"])


@pytest.mark.parametrize("command", ["ui", "serve"])
def test_a_port_that_is_taken_leaves_no_copy_of_a_store_open(
    folder: Path, penstock: Penstock, command: str, monkeypatch: pytest.MonkeyPatch
):
    closed: list[ApplicationStores] = []
    monkeypatch.setattr(ApplicationStores, "close", lambda stores: closed.append(stores))
    shop = Shop(folder, shop_topology())
    shop.sell(*SOLD)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ran = penstock(command, "checkpoint", "--log", "log", "--port", str(taken.getsockname()[1]))
    assert (ran.code, "Address already in use" in ran.err[-1], len(closed)) == (1, True, 1)


@pytest.mark.parametrize("options", ["--host 0.0.0.0", "--no-token", "--token-file app.py"])
def test_options_of_a_server_are_refused_where_none_is_started(penstock: Penstock, options: str):
    ran = penstock("run", "app.py", *options.split())
    [option, *_] = options.split()
    assert (ran.code, ran.err[-1]) == (
        2,
        f"Error: {option} is for --ui and --serve: add one of them, or leave {option} out",
    )


@pytest.mark.parametrize("host", ["http://localhost", "localhost:80", "", "a b", "[::1]:80", "machine/x"])
def test_an_address_has_no_scheme_and_no_port(penstock: Penstock, host: str):
    ran = penstock("serve", "app", "--host", host, "--no-token")
    assert (ran.code, ran.err[-1]) == (
        2,
        f"Error: the address to listen at is a name or an IP address, without scheme and port; got {host!r}",
    )


def test_a_request_without_a_host_is_told_so():
    guard = Guarded(None, "127.0.0.1")
    assert guard._host_refusal({"headers": []}) == (
        400,
        {"error": "the request has no Host header: ask for this server as localhost"},
    )
