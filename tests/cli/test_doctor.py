"""``penstock doctor`` finds what a run needs, and says what to do where it does not."""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from pathlib import Path

import pytest


def java_in(folder: Path, script: str) -> None:
    """A Java that only says its version."""
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o755)


def checks(ran) -> dict[str, tuple[bool, str, str]]:
    return {row["name"]: (row["ok"], row["found"], row["remedy"]) for row in map(json.loads, ran.out)}


GET_JAVA = (
    "install one (Debian and Ubuntu: sudo apt-get install openjdk-17-jre-headless; Fedora: sudo dnf install "
    "java-21-openjdk-headless; macOS: brew install openjdk@21) or point JAVA_HOME at the folder of one"
)


def test_everything_is_there(penstock, folder, monkeypatch):
    java_in(folder / "jdk", """echo 'openjdk version "21.0.4" 2024-07-16' >&2""")
    monkeypatch.setenv("JAVA_HOME", "jdk")
    ran = penstock("doctor")
    assert (ran.code, ran.err) == (0, [])
    assert [line.split(":")[0] for line in ran.out] == [
        f"ok       {name}"
        for name in (
            "Python", "Java", "temporary files", "open files", "numba", "pyspark", "pyarrow", "rocksdict",
            "Spark's Python", "Spark's classes",
            "the log's folder", "the folder of state",
        )
    ]  # fmt: skip
    assert ran.out[1] == "ok       Java: Java 21.0.4 (jdk/bin/java, by JAVA_HOME)"
    assert not (folder / ".penstock").exists()


@pytest.mark.parametrize(
    ("script", "found", "remedy"),
    [
        ("""echo 'java version "1.8.0_392"' >&2""", "Java 1.8.0_392 (jdk/bin/java, by JAVA_HOME)",
         f"Spark needs Java 17 or newer: {GET_JAVA}"),
        ("""echo 'openjdk version "16"' >&2""", "Java 16 (jdk/bin/java, by JAVA_HOME)",
         f"Spark needs Java 17 or newer: {GET_JAVA}"),
        ("echo 'Error: could not find libjava.so' >&2; exit 1",
         "jdk/bin/java, by JAVA_HOME does not say its version: Error: could not find libjava.so",
         f"it may be broken; {GET_JAVA}"),
    ],
)  # fmt: skip
def test_a_java_that_will_not_do(penstock, folder, monkeypatch, script, found, remedy):
    java_in(folder / "jdk", script)
    monkeypatch.setenv("JAVA_HOME", "jdk")
    ran = penstock("doctor", "--json")
    assert ran.code == 1
    assert checks(ran)["Java"] == (False, found, remedy)


def test_no_java_at_all(penstock, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "nowhere")
    said = (
        f"none on the PATH (No such file or directory): programs run without. Spark needs Java 17 or newer: {GET_JAVA}"
    )
    assert checks(penstock("doctor", "--json"))["Java"] == (True, said, "")
    monkeypatch.setenv("PENSTOCK_ENGINE", "spark")
    ran = penstock("doctor")
    assert ran.code == 1
    assert ran.out[1:3] == [
        "MISSING  Java: none on the PATH (No such file or directory)",
        f"         Spark needs Java 17 or newer: {GET_JAVA}",
    ]


def test_folders_that_cannot_be_written(penstock, folder):
    (folder / "file").write_text("")
    ran = penstock("doctor", "--json", "--log-dir", "file/log", "--state-dir", "file")
    assert ran.code == 1
    user = os.environ.get("USER") or os.environ.get("USERNAME") or "this user"
    remedy = f"make {folder}/file writable for {user}, or choose another folder with"
    assert checks(ran)["the log's folder"] == (
        False, f"file/log: Not a directory in {folder}/file", f"{remedy} --log-dir",
    )  # fmt: skip
    assert checks(ran)["the folder of state"] == (
        False, f"file: Not a directory in {folder}/file", f"{remedy} --state-dir",
    )  # fmt: skip


def test_a_package_that_does_not_import(penstock, folder, monkeypatch):
    (folder / "rocksdict.py").write_text("raise ImportError('no wheel for this machine')")
    monkeypatch.delitem(sys.modules, "rocksdict", raising=False)
    monkeypatch.syspath_prepend(folder)
    ran = penstock("doctor", "--json")
    assert ran.code == 1
    assert checks(ran)["rocksdict"] == (
        False,
        "cannot be imported: ImportError: no wheel for this machine",
        f"install it again: {sys.executable} -m pip install --force-reinstall rocksdict",
    )


def test_without_spark_it_says_how_to_get_it_and_does_not_look_for_java(penstock, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    install = f"{sys.executable} -m pip install 'penstock-streams[spark]'"
    ran = penstock("doctor", "--json")
    assert ran.code == 0
    found = checks(ran)
    assert found["pyspark"] == (True, f"not installed, so programs run without Spark. For Spark: {install}", "")
    monkeypatch.setenv("PENSTOCK_ENGINE", "spark")
    ran = penstock("doctor", "--json")
    assert (ran.code, checks(ran)["pyspark"][2]) == (1, f"install it: {install}")
    assert found.keys() & {"Java", "Spark's Python", "Spark's classes"} == set()


def test_without_numba_it_says_what_is_slower(penstock, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    ran = penstock("doctor", "--json")
    assert ran.code == 0
    install = f"{sys.executable} -m pip install 'penstock-streams[compiled]'"
    said = f"not installed, so windows of some kinds take many times as long. Where it has a wheel: {install}"
    assert checks(ran)["numba"] == (True, said, "")


def test_a_python_of_sparks_that_has_no_penstock(penstock, folder, monkeypatch):
    python = folder / "python3"
    python.write_text("#!/bin/sh\necho has no penstock and no pyspark; exit 1\n")
    python.chmod(0o755)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    ran = penstock("doctor", "--json")
    assert ran.code == 1
    remedy = f"set PYSPARK_DRIVER_PYTHON and PYSPARK_PYTHON to {sys.executable}, or unset them"
    assert checks(ran)["Spark's Python"] == (False, f"{python} has no penstock and no pyspark", remedy)
    monkeypatch.setenv("PYSPARK_PYTHON", "nowhere/python3")
    assert checks(penstock("doctor", "--json"))["Spark's Python"] == (
        False, "nowhere/python3: No such file or directory", remedy,
    )  # fmt: skip


def test_a_machine_without_a_folder_for_temporary_files_and_with_low_limits(penstock, folder, monkeypatch):
    java_in(folder / "jdk", """echo 'openjdk version "21.0.4" 2024-07-16' >&2""")
    monkeypatch.setenv("JAVA_HOME", "jdk")
    limits = {resource.RLIMIT_NOFILE: (64, 256), resource.RLIMIT_AS: (3 << 30, 3 << 30)}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[kind])

    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    found = checks(penstock("doctor", "--json"))
    assert found["temporary files"][0] is False
    assert "tried" not in found["temporary files"][1]
    assert "set TMPDIR" in found["temporary files"][2]
    assert found["open files"] == (False, "256", "Spark may need 1,024: raise the limit (ulimit -n)")
    assert found["addresses"][:2] == (False, "3,072 MB")
