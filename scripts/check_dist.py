"""Check what ``make dist`` has made: the wheel in an empty environment runs the program at the top of the README.

python scripts/check_dist.py dist
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = (
    "penstock/py.typed",
    "penstock/watch/page/index.html",
    "penstock/watch/page/app.js",
    "pyspark_penstock/__init__.py",
)
SOURCES = ("README.md", "LICENSE", "NOTICE", "pyproject.toml", "src/penstock/__init__.py")
EXPECTED = "quick\t1\nfox\t1\nthe\t2\nlazy\t1\ndog\t1\n"


def main(folder: Path) -> None:
    """Check the wheel and the source archive in a folder."""
    [wheel], [source] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    _check_names(wheel, source)
    with tempfile.TemporaryDirectory(prefix="penstock-dist-") as empty:
        _check_program(wheel, Path(empty))
    print(f"{wheel.name} and {source.name} are as they should be.")


def _check_names(wheel: Path, source: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    missing = [name for name in NEEDED if name not in names]
    odd = [name for name in names if not re.match(r"penstock/|pyspark_penstock|penstock_streams-.*\.dist-info/", name)]
    with tarfile.open(source) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    missing += [name for name in SOURCES if name not in inside]
    if missing or odd:
        raise SystemExit(f"missing: {missing}; should not be there: {odd}")


def program_of_the_readme() -> str:
    """Return the first program of the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    program = re.search(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    assert program is not None
    return program[1]


def _check_program(wheel: Path, empty: Path) -> None:
    venv.create(empty / "env", with_pip=True)
    install = [str(empty / "env/bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
    penstock = str(empty / "env/bin/penstock")
    for engine, what in (("local", str(wheel)), ("spark", f"{wheel}[spark]")):
        _run([*install, what], empty)
        folder = empty / engine
        folder.mkdir()
        (folder / "app.py").write_text(program_of_the_readme())
        _run([penstock, "doctor"], folder)
        _run([penstock, "topics", "produce", "lines", "--value", "str"], folder, "the quick fox\nthe lazy dog\n")
        _run([penstock, "run", "app.py:topology", "--available-now"], folder)
        found = _run([penstock, "topics", "cat", "counts"], folder)
        if found != EXPECTED:
            raise SystemExit(f"the README's program gives {found!r} on engine {engine}, not {EXPECTED!r}")


def _run(command: list[str], folder: Path, given: str = "") -> str:
    done = subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
