"""Put a built site beside those of other versions, which the head of each page then lists.

.venv/bin/python scripts/site_versions.py SITE FOLDER [VERSION]
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

LIST = Path("assets") / "versions.js"
FRONT = (
    '<!doctype html><meta charset="utf-8"><title>Penstock</title>'
    '<meta http-equiv="refresh" content="0; url={}/index.html">'
)


def add(site: Path, folder: Path, version: str) -> list[str]:
    """Copy a site into the folder of its version, and tell every version of all. Return the versions, newest first.

    A version that is there already is replaced.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+-]*", version):
        raise SystemExit(f"a version is letters, digits, dots, + and -; got {version!r}")
    if not (site / LIST).is_file():
        raise SystemExit(f"{site} is no site that `make docs` has built: it has no {LIST}")
    if (folder / version).exists():
        shutil.rmtree(folder / version)
    shutil.copytree(site, folder / version)
    found = sorted((one.parents[1].name for one in folder.glob(f"*/{LIST}")), key=_order, reverse=True)
    for one in found:
        (folder / one / LIST).write_text(f"var penstockVersions = {json.dumps(found)};\n", encoding="utf-8")
    (folder / "index.html").write_text(FRONT.format(found[0]), encoding="utf-8")
    return found


def _order(version: str) -> list[tuple[int, int, str]]:
    """Versions by their numbers; a pre-release comes before its release."""
    parts = re.findall(r"\d+|[A-Za-z]+", version)
    return [(1, int(part), "") if part.isdigit() else (-1, 0, part) for part in parts] + [(0, 0, "")]


def main() -> None:
    """Add a site to a folder."""
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    site, folder = map(Path, sys.argv[1:3])
    if len(sys.argv) == 4:
        version = sys.argv[3]
    else:
        from penstock import __version__ as version
    print(f"{folder / 'index.html'} has {', '.join(add(site, folder, version))}.")


if __name__ == "__main__":
    main()
