"""docs/proposals.md says by which tests each point of the proposals is shown, and each is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_names_the_tests_that_are_marked():
    ran = subprocess.run([sys.executable, str(ROOT / "scripts" / "proposals.py"), "--check"])
    assert ran.returncode == 0, "run scripts/proposals.py"


def test_no_point_is_without_a_test():
    rows = [line.split(" | ") for line in (ROOT / "docs" / "proposals.md").read_text().splitlines() if "-" in line[:9]]
    points = [row for row in rows if row[0].startswith("| ") and len(row) == 3]
    assert len(points) == 99
    assert [row[0] for row in points if "](../tests/" not in row[2]] == []
