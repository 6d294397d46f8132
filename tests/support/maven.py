"""Jars for tests, which Maven gets once."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

_GET = "org.apache.maven.plugins:maven-dependency-plugin:2.8:get"


@cache
def jar(group: str, name: str, version: str) -> str:
    """The path of a jar; the test is left out where Maven cannot get it."""
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"tests with {name} need Maven")
    file = Path.home() / f".m2/repository/{group.replace('.', '/')}/{name}/{version}/{name}-{version}.jar"
    if not file.exists():
        command = [maven, "-q", "-B", _GET, "-Dtransitive=false", f"-Dartifact={group}:{name}:{version}"]
        got = subprocess.run(command, capture_output=True, timeout=300)
        if got.returncode:
            pytest.skip(f"tests with {name} are left out: Maven cannot get it: {got.stdout.decode()[-300:]}")
    return str(file)
