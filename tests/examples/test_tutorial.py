"""docs/tutorial: each program runs, each command prints what its page shows.

The blocks of a page are carried out in their order. A block with a title is a file, one of ``console`` is typed line by
line, one of ``sh`` runs in a terminal of its own until the page ends.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.errors import ConfigError
from penstock.testing import broker
from support import readme

PAGES = sorted((readme.ROOT / "docs" / "tutorial").glob("*.md"))
FENCE = re.compile(r'^```(\w+)(?: title="([\w.]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
FOLDER = "/home/you/shop"
"""Where the pages have their programs."""
OF_A_RUN = {
    r"(made|started at) \d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{3}Z| UTC)": r"\1 TIME",
    r"(receipts is at|as of) commit \d+": r"\1 commit NUMBER",
    r"process \d+ on \S+,": "process NUMBER on HOST,",
    r"GETPID .* Coordinator load in progress: retrying\n": "",
}
"""What differs from run to run: how many commits a program makes, too, and what a broker that has just started says."""
BROKER, BUCKETS, PAGE = "127.0.0.1:43211", "127.0.0.1:5555", "127.0.0.1:8093"


class Block(NamedTuple):
    """A block of a page: its language, the name of the file that it is, if any, and its text."""

    language: str
    file: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in FENCE.findall(page.read_text(encoding="utf-8"))]


def steps(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, and what is shown below each."""
    return re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)


class Reader:
    """Somebody who follows the pages in a folder, at ports that are free.

    Args:
        folder: where the files go.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        own = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PENSTOCK_"))}
        self._environment = {**own, "PATH": path, "COLUMNS": "200"}
        buckets, page = broker.free_ports(2)
        self._places = {FOLDER: str(folder.resolve()), BUCKETS: f"127.0.0.1:{buckets}", PAGE: f"127.0.0.1:{page}"}
        self._terminals: list[subprocess.Popen[str]] = []

    def write(self, block: Block) -> None:
        (self._folder / block.file).write_text(self._here(block.text), encoding="utf-8")

    def file(self, name: str) -> str:
        """The text of a file in the folder."""
        return (self._folder / name).read_text(encoding="utf-8").strip()

    def type(self, command: str) -> str:
        """What a command prints, with what differs from run to run blanked."""
        if command.startswith("export "):
            pairs = (pair.partition("=") for pair in shlex.split(self._here(command))[1:])
            self._environment.update({name: value for name, _, value in pairs})
            return ""
        told = subprocess.PIPE, subprocess.STDOUT
        ran = subprocess.run(
            ["sh", "-c", self._here(command)],
            cwd=self._folder,
            env=self._environment,
            stdout=told[0],
            stderr=told[1],
            timeout=300,
        )
        return plain(self._there(ran.stdout.decode()))

    def open_terminal(self, command: str) -> None:
        """Run a command until the page ends, and wait until it answers."""
        port = {"moto_server": BUCKETS, "penstock ui": PAGE}.get(" ".join(command.split()[:2]).partition(" -")[0])
        words = shlex.split(command)
        if port is not None:
            option = "-p" if words[0] == "moto_server" else "--port"
            words = [word for word in words if word not in ("-p", "5555")]
            words += [option, self._places[port].partition(":")[2]]
        running = subprocess.Popen(
            words, cwd=self._folder, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._terminals.append(running)
        if port is not None:
            wait_for(f"http://{self._places[port]}")
        else:
            assert running.stdout is not None
            self._places[BROKER] = running.stdout.readline().split()[0].removeprefix("kafka://")

    def leave(self) -> None:
        for running in reversed(self._terminals):
            running.terminate()
            try:
                running.wait(30)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()

    def _here(self, text: str) -> str:
        for shown, real in self._places.items():
            text = text.replace(shown, real)
        return text

    def _there(self, text: str) -> str:
        for shown, real in self._places.items():
            text = text.replace(real, shown)
        return text


def wait_for(url: str) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            assert time.monotonic() < until, url
            time.sleep(0.1)
        else:
            return


def plain(text: str) -> str:
    for pattern, word in OF_A_RUN.items():
        text = re.sub(pattern, word, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    somebody = Reader(tmp_path)
    yield somebody
    somebody.leave()


def test_the_pages_are_four_and_every_block_is_carried_out():
    assert [page.name[:2] for page in PAGES] == ["1-", "2-", "3-", "4-"]
    for page in PAGES:
        assert len(blocks(page)) == page.read_text(encoding="utf-8").count("\n```") // 2
        assert all(block.file or block.language in ("console", "sh") for block in blocks(page)), page


def test_what_installs_it_is_what_the_readme_says():
    [install] = [block.text for block in blocks(PAGES[0]) if block.language == "sh"]
    assert install == readme.blocks("sh")[0]


@pytest.mark.parametrize("name", ["shop.py", "receipts.py"])
def test_a_program_in_the_test_driver_gives_what_its_page_shows(name: str, reader: Reader):
    [page] = [page for page in PAGES if name in {block.file for block in blocks(page)}]
    for block in blocks(page):
        if block.file:
            reader.write(block)
    command = f"python try_{name}"
    [shown] = [shown for block in blocks(page) for typed, shown in steps(block.text) if typed == command]
    assert reader.type(command) == plain(shown)


def test_the_picture_of_late_records_is_the_one_that_the_command_of_its_page_draws(reader: Reader):
    typed = []
    for block in (block for page in PAGES[:2] for block in blocks(page)):
        if block.file:
            reader.write(block)
        typed += [command for command, _ in steps(block.text)]
    for command in typed:
        if command.startswith("penstock topics produce"):
            reader.type(command)
    [why] = [command for command in typed if command.startswith("penstock why")]
    reader.type(f"{why} --svg tea.svg")
    shown = readme.ROOT / "docs" / "pictures" / "tea.svg"
    assert reader.file("tea.svg") == shown.read_text(encoding="utf-8").strip()


@pytest.mark.slow
@pytest.mark.timeout(1500)  # an hour of a newcomer's, some thirty commands, half of which start Spark
def test_who_follows_the_pages_sees_what_they_show(reader: Reader):
    *in_a_folder, over_kafka = PAGES
    for page in in_a_folder:
        follow(page, reader)
    needs_a_broker_and_an_object_store()
    follow(over_kafka, reader)


def follow(page: Path, reader: Reader) -> None:
    for block in blocks(page):
        if block.file:
            reader.write(block)
        elif block.language == "console":
            for command, shown in steps(block.text):
                assert reader.type(command) == plain(shown), f"{page.name}: {command}"
        elif page != PAGES[0]:  # whose block installs Penstock
            reader.open_terminal(block.text)


def needs_a_broker_and_an_object_store() -> None:
    for package in ("confluent_kafka", "obstore", "moto", "prometheus_client"):
        pytest.importorskip(package, reason="the tutorial's last page needs Kafka, an object store and Prometheus")
    try:
        broker.class_path()
    except ConfigError as error:
        pytest.skip(f"the tutorial's last page is left out: {error}")
