"""Install the wheel beside each supported Python and PySpark, and run the README, DataFrames and the tests there.

python scripts/matrix.py dist                                 all that this machine has
python scripts/matrix.py dist --python 3.12 --spark 4.0 4.3   some of them
python scripts/matrix.py dist --quick                         the README alone

Prints a table in Markdown, as docs/spark.md has it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from check_dist import EXPECTED, program_of_the_readme

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SPARKS = ("4.0", "4.1", "4.2", "4.3")
OF_SPARK = (
    "tests/spark/test_frames_in.py",
    "tests/spark/test_dataframes_reading.py",
    "tests/spark/test_schemas.py",
    "tests/spark/test_streams.py",
    "tests/batch/test_exchange.py",
    "tests/batch/test_run_batch.py",
)
"""Programs, DataFrames in and out, batches."""
_LIMITS = ("no_larger_than_it_may_be", "goes_on_running_reads_in_such", "examples_of_the_docs")
_FILTERS = ("last_hour_is_all", "filters_on_offsets", "lets_nothing_through", "other_filters_are_sparks")
_TIMES_OF_DAY = ("every_type_comes_back", "next_wider_types_in_spark")
_RANDOM = ("sixty_columns_of_random_types",)
NOT_IN = {"4.0": (*_LIMITS, *_FILTERS, *_TIMES_OF_DAY, *_RANDOM), "4.1": (*_LIMITS, *_RANDOM)}
"""Tests, by parts of their names, that need what a version of Spark lacks. ``maxOffsetsPerTrigger`` needs 4.2. 4.0
gives no filters to Python sources and has no type for a time of the day. ``createDataFrame`` of 4.1 takes times without
a zone inside maps for local ones, so the DataFrame differs from the rows that the test compares it with.
"""
WITHOUT = {"3.14": ("datasketches",)}
"""Packages of tests that have no wheel for a version of Python."""
NEEDED = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "polars", "duckdb", "datasketches", "httpx")
PATIENCE = 1800.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path)
    parser.add_argument("--python", nargs="*", default=PYTHONS)
    parser.add_argument("--spark", nargs="*", default=SPARKS)
    parser.add_argument("--quick", action="store_true", help="the README alone")
    given = parser.parse_args()
    [wheel] = given.dist.resolve().glob("*.whl")
    print("| Python | PySpark | README | tests | seconds |\n|---|---|---|---|---|", flush=True)
    failed = [
        f"{python} with PySpark {spark}"
        for python in given.python
        for spark in given.spark
        if not _cell(wheel, python, spark, given.quick)
    ]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def _cell(wheel: Path, python: str, spark: str, is_quick: bool) -> bool:
    """Whether all went well with a version of Python and of Spark, or the machine has not that Python."""
    if (executable := shutil.which(f"python{python}")) is None:
        print(f"| {python} | {spark} | not on this machine | | |", flush=True)
        return True
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-matrix-") as folder:
        env = Path(folder) / "env"
        needed = [] if is_quick else [package for package in NEEDED if package not in WITHOUT.get(python, ())]
        what = [f"{wheel}[kafka,obstore]", f"pyspark[connect]=={spark}.*", *needed]
        try:
            _install(executable, env, what)
            version = _run([str(env / "bin/python"), "-c", "import pyspark; print(pyspark.__version__)"], ROOT).strip()
            readme = _readme(env, Path(folder))
            tests = "" if is_quick else _tests(env, spark)
        except subprocess.CalledProcessError as error:
            print(f"| {python} | {spark} | {error.cmd[:4]} failed | | |\n{error.stdout}", flush=True)
            return False
    print(f"| {python} | {version} | {readme} | {tests} | {time.monotonic() - start:.0f} |", flush=True)
    return readme == "as printed" and tests != "failed"


def _install(python: str, env: Path, what: list[str]) -> None:
    """Make an environment, by uv where that is on the PATH: it takes a tenth of pip's time."""
    if uv := shutil.which("uv"):
        _run([uv, "venv", "--quiet", "--python", python, str(env)], ROOT)
        _run([uv, "pip", "install", "--quiet", "--python", str(env / "bin/python"), *what], ROOT)
    else:
        _run([python, "-m", "venv", str(env)], ROOT)
        _run([str(env / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", *what], ROOT)


def _readme(env: Path, folder: Path) -> str:
    (folder / "app.py").write_text(program_of_the_readme())
    penstock = str(env / "bin/penstock")
    words = "the quick fox\nthe lazy dog\n"
    _run([penstock, "topics", "produce", "lines", "--value", "str"], folder, words)
    _run([penstock, "run", "app.py:topology", "--available-now", "--engine", "spark"], folder)
    printed = _run([penstock, "topics", "cat", "counts"], folder)
    return "as printed" if sorted(printed.splitlines()) == sorted(EXPECTED.splitlines()) else f"differs: {printed!r}"


def _tests(env: Path, spark: str) -> str:
    left_out = " or ".join(NOT_IN.get(spark, ()))
    chosen = ["-k", f"not ({left_out})"] if left_out else []
    ran = subprocess.run(
        [str(env / "bin/python"), "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *chosen, *OF_SPARK],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environment(), timeout=PATIENCE,
    )  # fmt: skip
    if ran.returncode:
        print(ran.stdout[-4000:])
        return "failed"
    return "passed"


def _run(command: list[str], folder: Path, given: str | None = None) -> str:
    return subprocess.run(
        command, cwd=folder, input=given, text=True, check=True, env=_environment(), timeout=PATIENCE,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT if "install" in command else None,
    ).stdout  # fmt: skip


def _environment() -> dict[str, str]:
    """That of this process, without what leads Python to the sources."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


if __name__ == "__main__":
    main()
