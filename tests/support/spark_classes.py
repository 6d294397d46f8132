"""Spark's classes in an archive, which JVMs map instead of reading and checking some ten thousand of them: a quarter of
the CPU of each start of Spark. ``make test`` makes it once.

    python tests/support/spark_classes.py

It lies in the environment, and is another one for another Java or another Spark.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

_PROGRAM = Path(__file__).parent.parent / "faults" / "program.py"
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


def archive() -> Path | None:
    """Where the archive is or will be; None without Java."""
    try:
        java = subprocess.run(["java", "-version"], capture_output=True).stderr
    except OSError:
        return None
    name = hashlib.sha256(java + version("pyspark").encode()).hexdigest()[:12]
    return Path(sys.prefix) / f"spark-classes-{name}.jsa"


def use(path: Path) -> None:
    """Have the JVMs that are started from now on, by this process and its children, map the archive."""
    os.environ.setdefault(_ARGUMENTS, _arguments(f"-XX:SharedArchiveFile={path}"))


def make(path: Path) -> None:
    """Run a small program on Spark, and keep the classes that it needed."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made.jsa"
        environment = {**os.environ, _ARGUMENTS: _arguments(f"-XX:ArchiveClassesAtExit={made}")}
        for arguments in (["--fill", "500"], ["--spark"]):
            command = [sys.executable, str(_PROGRAM), f"{folder}/program", *arguments]
            subprocess.run(command, env=environment, capture_output=True, check=True)  # until the JVM, too, has ended
        whole = path.with_suffix(f".{os.getpid()}")
        whole.write_bytes(made.read_bytes())
        whole.rename(path)


def _arguments(option: str) -> str:
    return f"--conf 'spark.driver.defaultJavaOptions={option} -Xlog:disable -Xlog:all=error:stderr' pyspark-shell"


if __name__ == "__main__":
    place = archive()
    if place is not None and not place.exists():
        print("Spark's classes go into an archive, for later starts: half a minute ...", flush=True)
        try:
            make(place)
        except subprocess.CalledProcessError as error:
            print(f"that failed, so Spark's starts take longer:\n{error.stderr.decode()[-2000:]}", file=sys.stderr)
