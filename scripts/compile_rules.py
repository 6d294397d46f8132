"""Compile all rules of Penstock into the user's cache, once, before several processes of tests would do so at once."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def main() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        if re.search(r"^@compiled\(", path.read_text(), re.MULTILINE):
            import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))


if __name__ == "__main__":
    main()
