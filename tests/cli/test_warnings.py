"""Warnings of the command line: deprecated names are seen in every file of a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PENSTOCK = str(Path(sys.executable).with_name("penstock"))

SIZES = """
from penstock import TimeWindows

hours = TimeWindows.of("1 hour")
"""

PROGRAM = """
import warnings
from penstock import StreamsBuilder
from sizes import hours

warnings.warn("of somebody else", DeprecationWarning)
builder = StreamsBuilder()
builder.stream("visits", value=str).group_by_key().windowed_by(hours).count("counts")
topology = builder.build()
"""

SAID = "OldNameWarning: TimeWindows.of(size) is deprecated (KIP-633); use TimeWindows.of_size_and_grace(size, grace)"


def ran(folder: Path, *arguments: str, **environment: str) -> list[str]:
    """What ``penstock run`` says of a program whose topic is not there."""
    (folder / "sizes.py").write_text(SIZES)
    (folder / "visits.py").write_text(PROGRAM)
    command = [PENSTOCK, "run", "visits.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ, **environment})
    assert done.returncode == 1, done.stderr
    return done.stderr.splitlines()


@pytest.mark.kip("KS-19")
def test_a_deprecated_name_is_seen_at_its_line_whichever_file_of_the_program_it_is_in(folder: Path):
    first, line, *others = ran(folder)
    assert (first, line) == (f"{folder / 'sizes.py'}:4: {SAID}", '  hours = TimeWindows.of("1 hour")')
    assert not any("of somebody else" in line for line in others)


@pytest.mark.kip("KS-19")
def test_the_user_decides_by_pythons_own_means(folder: Path):
    assert not any("OldNameWarning" in line for line in ran(folder, PYTHONWARNINGS="ignore"))


@pytest.mark.kip("KS-19")
def test_where_logs_are_json_a_warning_is_a_line_of_them(folder: Path):
    first, *_ = map(json.loads, ran(folder, "--log-format", "json"))
    assert (first["level"], first["logger"]) == ("WARNING", "py.warnings")
    assert SAID in first["message"]
