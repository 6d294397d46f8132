"""Check what ``make dist`` has made: in empty environments the wheel runs the program at the top of the README.

python scripts/check_dist.py dist [--without-spark]

It does so with each supported Python that is here, without Java on the PATH; then on Spark, with this Python.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = (
    "penstock/py.typed",
    "penstock/watch/page/index.html",
    "penstock/watch/page/app.js",
    "pyspark_penstock/__init__.py",
)
SOURCES = ("README.md", "LICENSE", "NOTICE", "pyproject.toml", "hatch_build.py", "src/penstock/__init__.py")
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
MOST_MB = 450
"""How much room an environment without Spark may take."""
EXPECTED = "quick\t1\nfox\t1\nthe\t2\nlazy\t1\ndog\t1\n"


def main(folder: Path) -> None:
    """Check the wheel and the source archive in a folder."""
    [wheel], [source] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    _check_names(wheel, source)
    for python in pythons():
        with tempfile.TemporaryDirectory(prefix="penstock-dist-") as empty:
            _check_without_spark(python, wheel, Path(empty))
    if "--without-spark" not in sys.argv:
        with tempfile.TemporaryDirectory(prefix="penstock-dist-") as empty:
            _install(sys.executable, f"{wheel}[spark]", Path(empty))
            _check_program(Path(empty), "spark", dict(os.environ))
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


def pythons() -> list[str]:
    """Return the supported Pythons of this machine, this one among them."""
    found = {}
    for name in (sys.executable, *PYTHONS):
        command = shutil.which(name)
        if command is None:
            continue
        asked = [command, "-c", "import ensurepip, sys; print(*sys.version_info[:2], sys._base_executable)"]
        said = subprocess.run(asked, capture_output=True, text=True)
        if not said.returncode:  # a shim may have nothing behind it
            major, minor, path = said.stdout.strip().split(" ", 2)
            found.setdefault((int(major), int(minor)), path)
    return [path for version, path in sorted(found.items()) if version >= (3, 11)]


def _check_without_spark(python: str, wheel: Path, empty: Path) -> None:
    seconds = _install(python, str(wheel), empty)
    site = next((empty / "env/lib").glob("python*/site-packages"))
    megabytes = sum(path.lstat().st_blocks for path in site.rglob("*")) * 512 / 1e6
    version = _run([str(empty / "env/bin/python"), "--version"], empty).strip()
    _check_program(empty, "local", {"PATH": str(empty / "env/bin"), "HOME": str(empty)})
    print(f"{version}: installed in {seconds:.0f} s, {megabytes:.0f} MB; runs without Java", flush=True)
    if megabytes > MOST_MB:
        raise SystemExit(f"that is more than {MOST_MB} MB")


def _install(python: str, what: str, empty: Path) -> float:
    """Install into an empty environment. Return how many seconds it took."""
    began = time.monotonic()
    _run([python, "-m", "venv", str(empty / "env")], empty)
    _run([str(empty / "env/bin/pip"), "install", "--quiet", "--disable-pip-version-check", what], empty)
    return time.monotonic() - began


def _check_program(empty: Path, engine: str, environment: dict[str, str]) -> None:
    """Run the first program of the README."""
    penstock = str(empty / "env/bin/penstock")
    folder = empty / "words"
    folder.mkdir()
    (folder / "app.py").write_text(program_of_the_readme())

    def run(*arguments: str, given: str = "") -> str:
        return _run([penstock, *arguments], folder, given, environment)

    run("doctor")
    run("topics", "produce", "lines", "--value", "str", given="the quick fox\nthe lazy dog\n")
    run("run", "app.py:topology", "--available-now")
    found = run("topics", "cat", "counts")
    if found != EXPECTED:
        raise SystemExit(f"the README's program gives {found!r} on engine {engine}, not {EXPECTED!r}")


def _run(command: list[str], folder: Path, given: str = "", environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
