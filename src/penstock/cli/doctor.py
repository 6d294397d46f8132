"""``penstock doctor``: checks everything that a run needs, and says how to fix problems."""

from __future__ import annotations

import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import click

from penstock.cli.command import Command
from penstock.cli.options import LocalPath, json_option, log_option, log_settings
from penstock.cli.terminal import count, print_json, stdout
from penstock.errors import ConfigError, PenstockError
from penstock.frames.spark_python import DRIVER, WORKERS, lookup_python
from penstock.log.cluster import SCHEME, Kafka
from penstock.log.open import open_log
from penstock.settings import Settings

_PYTHON = (3, 11)
_JAVA = 17
_CLUSTER_PATIENCE = "10 seconds"
_PACKAGES = ("pyspark", "pyarrow", "rocksdict")
_GET_SPARK = f"{sys.executable} -m pip install 'penstock-streams[spark]'"
_GET_JAVA = (
    "install one (Debian and Ubuntu: sudo apt-get install openjdk-17-jre-headless; Fedora: sudo dnf install "
    "java-21-openjdk-headless; macOS: brew install openjdk@21) or point JAVA_HOME at the folder of one"
)


class Check(NamedTuple):
    """One check: its subject, the finding, and how to fix it."""

    name: str
    found: str
    remedy: str = ""

    @property
    def is_well(self) -> bool:
        return not self.remedy


@click.command(cls=Command)
@log_option
@click.option("--state-dir", type=LocalPath(), help="The folder of an application's state.")
@json_option
@click.pass_context
def doctor(context: click.Context, log_dir: Path | None, state_dir: Path | None, as_json: bool) -> None:
    """Check what a run needs, and say how to fix problems.

    The command looks at Python, Java, the packages and the folders. If something is missing, the exit code is 1. The
    setting engine decides whether Spark must be installed.

    \b
    Examples:
      penstock doctor
      penstock doctor --state-dir /var/lib/orders
    """
    is_well = True
    for check in _checks(Settings.load(**log_settings(log_dir), state_dir=state_dir)):
        is_well = is_well and check.is_well
        if as_json:
            print_json({**check._asdict(), "ok": check.is_well})
        else:
            _print(check)
    context.exit(0 if is_well else 1)


def _print(check: Check) -> None:
    mark, style = ("ok     ", "green") if check.is_well else ("MISSING", "red")
    console = stdout()
    console.print(mark, style=style, end="  ")
    console.print(f"{check.name}: {check.found}", markup=False, soft_wrap=True)
    if not check.is_well:
        console.print(f"         {check.remedy}", markup=False, soft_wrap=True)


def _checks(settings: Settings) -> Iterator[Check]:
    has_spark, wants_spark = find_spec("pyspark") is not None, settings.engine in ("spark", "micro-batch")
    yield python()
    if has_spark:
        yield java(wants_spark)
        yield temporary_files()
        yield from limits()
    if not has_spark and not wants_spark:
        yield Check("pyspark", f"not installed, so programs run without Spark. For Spark: {_GET_SPARK}")
    yield compiler()
    for name in _PACKAGES[not has_spark and not wants_spark :]:
        yield package(name)
    if has_spark:
        yield sparks_python()
        yield classes()
    if str(settings.topics_in).startswith(SCHEME):
        yield cluster(str(settings.topics_in))
    else:
        yield folder("the log's folder", Path(settings.topics_in), "--log-dir")
    yield folder("the folder of state", settings.state_dir or Path(".penstock"), "--state-dir")


def python() -> Check:
    """Check that this Python is new enough."""
    found = f"Python {platform.python_version()} ({sys.executable})"
    if sys.version_info >= _PYTHON:
        return Check("Python", found)
    return Check("Python", found, "Penstock needs Python 3.11 or newer: make a virtual environment with one")


def java(is_needed: bool) -> Check:
    """Check that the Java Spark would use exists, if it is needed, and is new enough."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else "java"
    where = f"{command}, by JAVA_HOME" if home else "on the PATH"
    try:
        ran = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        found, remedy = f"none {where} ({error.strerror})", f"Spark needs Java {_JAVA} or newer: {_GET_JAVA}"
        return Check("Java", found, remedy) if is_needed else Check("Java", f"{found}: programs run without. {remedy}")
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', ran.stderr + ran.stdout)
    if match is None:
        said = (ran.stderr or ran.stdout).strip().partition("\n")[0]
        return Check("Java", f"{where} does not say its version: {said}", f"it may be broken; {_GET_JAVA}")
    found = f"Java {match[1]} ({where})"
    return Check("Java", found, "" if int(match[2]) >= _JAVA else f"Spark needs Java {_JAVA} or newer: {_GET_JAVA}")


def temporary_files() -> Check:
    """Check that a folder for temporary files exists, which Java uses as well."""
    from penstock.engine.spark.surroundings import temporary_folder

    try:
        place = temporary_folder()
    except ConfigError as error:
        return Check("temporary files", str(error), "set TMPDIR to a folder that can be written")
    return Check("temporary files", f"{place} can be written")


def limits() -> Iterator[Check]:
    """Check that this process, and so a JVM, may open enough files and use enough memory."""
    from penstock.engine.spark import surroundings

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = surroundings.OPEN_FILES
    shown = "as many as there are" if most == resource.RLIM_INFINITY else f"{most:,}"
    is_enough = most == resource.RLIM_INFINITY or most >= wanted
    yield Check("open files", shown, "" if is_enough else f"Spark may need {wanted:,}: raise the limit (ulimit -n)")
    memory = surroundings.limit_of(resource.RLIMIT_AS)
    if memory is not None:
        remedy = "a JVM reserves gigabytes of addresses that it does not use: lift the limit (ulimit -v unlimited)"
        yield Check("addresses", f"{memory >> 20:,} MB", remedy)


def package(name: str) -> Check:
    """Check that a package that a run needs can be imported."""
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        remedy = _GET_SPARK if name == "pyspark" else f"{sys.executable} -m pip install {name}"
        return Check(name, f"cannot be imported: {error}", f"install it: {remedy}")
    except Exception as error:  # wheels for another machine raise many kinds of errors
        remedy = f"install it again: {sys.executable} -m pip install --force-reinstall {name}"
        return Check(name, f"cannot be imported: {type(error).__name__}: {error}", remedy)
    return Check(name, version(name))


def compiler() -> Check:
    """Say whether the rules that go record by record are machine code."""
    if find_spec("numba") is not None:
        return Check("numba", version("numba"))
    get = f"{sys.executable} -m pip install 'penstock-streams[compiled]'"
    return Check(
        "numba", f"not installed, so windows of some kinds take many times as long. Where it has a wheel: {get}"
    )


def cluster(url: str) -> Check:
    """Check that a Kafka cluster can be reached and accepts this user."""
    kafka = Kafka(url, timeout=_CLUSTER_PATIENCE)
    try:
        topics = open_log(kafka).topics()
    except PenstockError as error:
        return Check("Kafka", f"{kafka.url} cannot be used", str(error))
    return Check("Kafka", f"{kafka.url}, {count(len(topics), 'topic')}")


def classes() -> Check:
    """Say whether Spark's classes are in an archive, which makes its start shorter."""
    from penstock.engine.spark import class_archive

    return Check("Spark's classes", class_archive.state())


def sparks_python() -> Check:
    """Check that the Python with which Spark looks for ``format("penstock")`` has Penstock."""
    python = lookup_python()
    name, remedy = "Spark's Python", f"set {DRIVER} and {WORKERS} to {sys.executable}, or unset them"
    try:
        ran = subprocess.run([python, "-c", _HAS_PENSTOCK], capture_output=True, text=True, check=False)
    except OSError as error:
        return Check(name, f"{python}: {error.strerror}", remedy)
    if ran.returncode == 0:
        return Check(name, f"{python} has Penstock")
    lacks = ran.stdout.strip() or "does not run"
    return Check(name, f"{python} {lacks}", remedy)


_HAS_PENSTOCK = """
import importlib.util, sys
missing = [name for name in ("penstock", "pyspark") if importlib.util.find_spec(name) is None]
print("has no " + " and no ".join(missing))
sys.exit(bool(missing))
"""


def folder(name: str, path: Path, option: str) -> Check:
    """Check that files can be created in a folder, which may not exist yet."""
    there = path.resolve()
    while not there.exists():
        there = there.parent
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        remedy = f"make {there} writable for {_user()}, or choose another folder with {option}"
        return Check(name, f"{path}: {error.strerror} in {there}", remedy)
    return Check(name, f"{path} can be written")


def _user() -> str:
    return os.environ.get("USER") or os.environ.get("USERNAME") or "this user"
