import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the program that is killed, and the harness around it

import harness


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The input topic, not processed."""
    return harness.prepared(tmp_path_factory.mktemp("base"), 12_000)


@pytest.fixture(scope="session")
def undisturbed(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What comes out when nothing is killed."""
    return harness.undisturbed(base, tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture(scope="session")
def small_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shorter input topic, for runs on Spark, whose commits take longer."""
    return harness.prepared(tmp_path_factory.mktemp("small"), 8_000)


@pytest.fixture(scope="session")
def small_undisturbed(small_base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What comes out of the shorter topic when nothing is killed."""
    return harness.undisturbed(small_base, tmp_path_factory.mktemp("undisturbed"))
