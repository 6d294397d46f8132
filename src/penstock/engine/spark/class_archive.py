"""An archive of Spark's classes, which JVMs map instead of loading and verifying some ten thousand of them.

It halves the start time of Spark. The first JVM for a given Java and Spark writes it at its end, into the user's cache
folder. Where that fails, starts only take longer. A JVM ignores an unfit archive. An archive fits only the very files
of Spark that it was made from, so each environment has its own.

    python -m penstock.engine.spark.class_archive

makes it at once.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from penstock.engine.spark.surroundings import java_option
from penstock.storage.base import checksum

_PREFIX = "spark-classes-"
_WHOLE_BYTES = 1 << 20
_AT_REST_SECONDS = 30.0
"""A JVM takes seconds to write an archive; its first bytes come last."""
_KEPT = 4
"""How many environments' archives are kept, the newest."""
_QUIETLY = "-Xlog:disable -Xlog:all=error:stderr"


def folder() -> Path:
    """Return the folder of archives."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def archive() -> Path | None:
    """Return the archive's path for this Java and this Spark, whether it exists or not; None without Java."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "")
    try:
        text = f"{_identity(java)} {_identity(spark_home() / 'jars')}"
    except OSError:
        return None
    return folder() / f"{_PREFIX}{hashlib.sha256(text.encode()).hexdigest()[:12]}.jsa"


def _identity(path: Path) -> str:
    """Return a file's path, size and time, which a JVM compares for the files behind an archive."""
    place = path.resolve(strict=True)
    facts = place.stat()
    return f"{place} {facts.st_size} {facts.st_mtime_ns}"


def spark_home() -> Path:
    """Return where PySpark looks for Spark, without the cost of importing it."""
    home = os.environ.get("SPARK_HOME")
    spec = None if home else find_spec("pyspark")
    return Path(home or (spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else ""))


_given_up: set[int] = set()
"""Processes whose Java keeps no archives."""


def give_up() -> None:
    """Have no archive in this process: its Java cannot make one, as where it has none of its own classes."""
    _given_up.add(os.getpid())


def java_options() -> str:
    """Return the options to map the archive, or to write one when the JVM ends; empty if neither works."""
    if os.getpid() in _given_up:
        return ""
    try:
        place = archive()
        if place is None:
            return ""
        if _is_there(place):
            return f"{java_option('-XX:SharedArchiveFile=', place)} -Xshare:auto {_QUIETLY}"
        place.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(place.parent, os.W_OK):
            return ""
    except (OSError, RuntimeError):  # there may be no home folder
        return ""
    return f"{java_option('-XX:ArchiveClassesAtExit=', _made(place))} {_QUIETLY}"


def state() -> str:
    """Return the archive's state for ``penstock doctor``."""
    options, place = java_options(), archive()
    if place is not None and place.exists():
        return f"{place} ({place.stat().st_size >> 20} MB)"
    if options:
        return f"no archive yet: the first program on Spark makes one in {folder()} when it ends"
    return f"cannot be kept in {folder()}: Spark takes a second or two longer to start"


def remove() -> bool:
    """Remove the archive, with which a JVM crashed. Return whether one existed."""
    place = archive()
    if place is None or not place.exists():
        return False
    _forget(place)
    return True


def forget_made() -> None:
    """Remove this JVM's new archive: its start failed, so classes would be missing from it."""
    place = archive()
    if place is not None:
        with suppress(OSError):
            _made(place).unlink(missing_ok=True)


def _made(place: Path) -> Path:
    """Return the path where the JVM of this process writes an archive."""
    return place.with_name(f"{place.stem}-{os.getpid()}.made")


def _forget(place: Path) -> None:
    for file in (place, _sum_of(place)):
        file.unlink(missing_ok=True)


def _sum_of(place: Path) -> Path:
    return place.with_suffix(".sum")


def _checksum(file: Path) -> str:
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return f"{checksum(data):016x}"


def _is_there(place: Path, at_rest: float = _AT_REST_SECONDS) -> bool:
    """Return whether an intact archive exists. If necessary, a JVM's finished archive is taken.

    A damaged archive would crash JVMs, and is removed.

    Args:
        at_rest: for how many seconds a JVM's archive must not have changed.
    """
    if place.exists():
        with suppress(OSError, ValueError):  # it predates checksums, is gone by now, or is empty
            if _sum_of(place).read_text() == _checksum(place):
                return True
        _forget(place)
    for made in place.parent.glob(f"{place.stem}-*.made"):
        facts = made.stat()
        if facts.st_size >= _WHOLE_BYTES and time.time() - facts.st_mtime >= at_rest:
            _sum_of(place).write_text(_checksum(made))
            made.replace(place)
            _remove_old(place.parent)
            return True
    return False


def _remove_old(place: Path) -> None:
    """Remove archives of environments that have not made one for long, and unfinished ones."""
    for kind in ("jsa", "sum", "made"):
        newest_first = sorted(place.glob(f"{_PREFIX}*.{kind}"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in newest_first[_KEPT:]:
            old.unlink(missing_ok=True)


def make() -> Path | None:
    """Run a small program on Spark, and archive the classes that it loads. Return None if that fails."""
    place = archive()
    if place is None or _is_there(place):
        return place
    ran = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True)
    if ran.returncode == 0 and _is_there(place, at_rest=0):
        return place
    print(ran.stderr[-2000:], file=sys.stderr)
    return None


_PROGRAM = """
import tempfile
from pathlib import Path
from pyspark.sql import SparkSession
from penstock import StreamsBuilder, produce
from penstock.engine.spark import private

def use_data_frames(folder):
    # as programs do that begin or end with them: their classes take longer to load than all others
    spark = SparkSession.builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse").getOrCreate()
    rows = spark.createDataFrame([("a", 1), ("b", 2), ("a", 3)], "k string, n int")
    for format in ("parquet", "json"):
        rows.write.format(format).save(f"{folder}/{format}")
        spark.read.format(format).schema("k string, n int").load(f"{folder}/{format}").groupBy("k").sum("n").collect()
    rows.join(rows.withColumnRenamed("n", "m"), "k").orderBy("k").collect()
    stream = spark.readStream.schema("k string, n int").json(f"{folder}/json").writeStream.trigger(availableNow=True)
    stream = stream.option("checkpointLocation", f"{folder}/checkpoint")
    stream.foreachBatch(lambda some, number: some.collect()).start().awaitTermination()
    spark.read.format("penstock").options(log=f"{folder}/log", topic="out").load().collect()
    spark.stop()

with tempfile.TemporaryDirectory() as folder:
    produce([("a", "x"), ("b", "y")], "in", value=str, log=f"{folder}/log", partitions=2)
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().count().to_stream().to("out")
    streams = builder.build().start(
        "archive", log=f"{folder}/log", state_dir=Path(folder, "state"), trigger="available-now", slots=2
    )
    streams.await_termination()
    use_data_frames(folder)
    gateway = private.gateway()
    jvm = gateway.proc
    gateway.shutdown()
    jvm.stdin.close()
    jvm.wait(120)  # it writes the archive now
"""


if __name__ == "__main__":
    print("Spark's classes go into an archive, for faster starts ...", flush=True)
    print(make() or "that did not work, so Spark takes longer to start")
