"""The wheel: what the package index shows of it, and which environments it asks for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://example.org/penstock"


def metadata(folder: Path, **environment: str) -> Message:
    """The metadata of a wheel that is built under these variables."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, env={**os.environ, **environment}, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    return message_from_string(archive.read(name).decode())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Message:
    return metadata(tmp_path_factory.mktemp("plain"), PENSTOCK_REPOSITORY="")


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)]*)\)", text)


def test_the_wheel_says_what_the_package_index_shows(plain: Message):
    assert (plain["Name"], plain["Version"]) == ("penstock-streams", penstock.__version__)
    assert (plain["License-Expression"], plain["Requires-Python"]) == ("Apache-2.0", ">=3.11")
    assert plain.get_all("License-File") == ["LICENSE", "NOTICE"]
    assert "Programming Language :: Python :: 3.13" in plain.get_all("Classifier", [])
    assert {"kafka-streams", "stream-processing"} <= {*plain["Keywords"].split(",")}


def test_with_the_address_of_the_repository_all_links_of_the_readme_are_absolute(tmp_path: Path):
    found = metadata(tmp_path, PENSTOCK_REPOSITORY=REPOSITORY)
    version = penstock.__version__
    text = found.get_payload()
    assert f"]({REPOSITORY}/blob/v{version}/docs/running.md)" in text
    assert f"]({REPOSITORY}/raw/v{version}/docs/pictures/page-light.png)" in text
    assert [link for link in links(text) if not link.startswith("https://")] == []
    assert found.get_all("Project-URL") == [
        f"Repository, {REPOSITORY}",
        f"Documentation, {REPOSITORY}/blob/v{version}/docs/README.md",
        f"Changelog, {REPOSITORY}/blob/v{version}/CHANGELOG.md",
        f"Security, {REPOSITORY}/blob/v{version}/SECURITY.md",
    ]


def test_without_an_address_no_link_leads_nowhere(plain: Message):
    text = plain.get_payload()
    assert [link for link in links(text) if not link.startswith("https://")] == []
    assert "run a program, command line, operations, clusters, Kafka" in text
    assert plain.get_all("Project-URL") is None


def test_the_core_asks_for_neither_spark_nor_a_compiler_and_pyspark_gets_no_pandas_that_it_warns_of(plain: Message):
    needed = plain.get_all("Requires-Dist", [])
    core = {re.split(r"[<>=!~]", one)[0] for one in needed if "extra ==" not in one}
    assert core == {"pyarrow", "numpy", "rocksdict", "msgspec", "xxhash", "cloudpickle", "click", "rich"}
    assert "pandas<3,>=2.2; extra == 'connect'" in needed
    assert "pyspark<5,>=4.0; extra == 'spark'" in needed
    [numba] = [one for one in needed if one.startswith("numba") and "'spark'" in one]
    assert "platform_python_implementation == 'CPython'" in numba
    assert "python_version < '3.16'" in numba
