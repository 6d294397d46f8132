"""A program that is told to stop while it awaits calls: they end, their commit counts, and it leaves cleanly."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from penstock import consume, produce

PROGRAM = """
import asyncio
from pathlib import Path

from penstock import StreamsBuilder


async def slow(value: int) -> int:
    Path("begun").touch()
    while not Path("go on").exists():
        await asyncio.sleep(0.01)
    return value * 10


builder = StreamsBuilder()
builder.stream("in", value=int).map_values_async(slow, retries=3).to("out")
topology = builder.build()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_program_that_is_told_to_stop_lets_its_calls_end(number: signal.Signals, tmp_path: Path):
    (tmp_path / "app.py").write_text(PROGRAM)
    produce([("a", 1), ("b", 2)], "in", value=int, partitions=1, log=tmp_path / "log")
    command = [sys.executable, "-m", "penstock", "run", "app.py", "--engine", "local", "--log-dir", "log"]
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # which a shell's background jobs ignore
    )
    assert running.stdout is not None
    while not (tmp_path / "begun").exists() and running.poll() is None:
        time.sleep(0.02)
    running.send_signal(number)
    said = [running.stdout.readline()]
    while said[-1] and not said[-1].startswith("stopping"):
        said.append(running.stdout.readline())
    (tmp_path / "go on").touch()  # the calls have waited for it until now
    rest, _ = running.communicate(timeout=120)
    assert running.returncode == 0, [*said, rest]
    assert "commit 1: 2 records read" in rest
    assert "Traceback" not in rest
    assert [(record.key, record.value) for record in consume("out", log=tmp_path / "log")] == [("a", 10), ("b", 20)]
