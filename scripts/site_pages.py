"""Build the documentation as a site: the pages of docs/, those outside of it, and the sources that pages lead to.

.venv/bin/python scripts/site_pages.py FOLDER

Zensical reads one folder of pages and a configuration. This script makes both in a temporary folder, with links of the
repository turned into links of the site.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "README.md",
    "docs/README.md": "documentation.md",
    "bench/RESULTS.md": "figures.md",
    "CHANGELOG.md": "changelog.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Pages that lie elsewhere in the repository than in the site: the README is the front page."""
ORIGINS = {page: path for path, page in PAGES.items()}
LINK = re.compile(r"\[([^\]]*)\]\(([^)#:\s]+)((?:#[^)]*)?)\)")


def build(site: Path) -> int:
    """Build the site into a folder. Return the exit code, which is not 0 if a link leads nowhere."""
    with tempfile.TemporaryDirectory(prefix="penstock-site-") as folder:
        staged = Path(folder)
        write_pages(staged / "docs")
        config = staged / "mkdocs.yml"
        config.write_text(yaml.safe_dump(configured(), sort_keys=False), encoding="utf-8")
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(config)]
        code = subprocess.run(command, cwd=staged).returncode
        if code == 0:
            shutil.rmtree(site, ignore_errors=True)
            shutil.move(staged / "site", site)
        return code


def configured() -> dict[str, Any]:
    """Return the configuration with absolute paths, and with every decision in the nav, by its number."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    [decisions] = [entry["Decisions"] for entry in config["nav"] if "Decisions" in entry]
    decisions += [f"decisions/{path.name}" for path in sorted((ROOT / "docs" / "decisions").glob("0*.md"))]
    [strings] = [one["mkdocstrings"] for one in config["plugins"] if "mkdocstrings" in one]
    python = strings["handlers"]["python"]
    python["paths"] = [str(ROOT / path) for path in python["paths"]]
    options = python["options"]
    options["extensions"] = [str(ROOT / path) for path in options["extensions"]]
    return config


def write_pages(folder: Path) -> None:
    """Write the pages and files of the site into a folder."""
    pages = {page: (ROOT / path).read_text(encoding="utf-8") for path, page in PAGES.items()}
    for path in (ROOT / "docs").rglob("*"):
        name = path.relative_to(ROOT / "docs").as_posix()
        if path.suffix == ".md":
            pages.setdefault(name, path.read_text(encoding="utf-8"))  # the front page is the README of the repository
        elif path.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / name)
    sources = {
        target
        for page, text in pages.items()
        for _, link, _ in LINK.findall(text)
        if (target := _target(page, link)) is not None and _is_source(target)
    }
    shown = {page: _relinked_page(page, text) for page, text in pages.items()}
    shown |= {_page_of(source): _shown(source) for source in sources}
    for page, text in shown.items():
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        (folder / page).write_text(text, encoding="utf-8")


def _relinked_page(page: str, text: str) -> str:
    """Links within the repository become links within the site; a folder without a page is no link."""
    head = "---\nhide: [navigation]\n---\n" if page == "README.md" else ""
    return head + LINK.sub(lambda link: _relinked(page, link), text)


def _relinked(uri: str, link: re.Match[str]) -> str:
    target = _target(uri, link[2])
    if target is None:
        return link[1] if (ROOT / _path(uri, link[2])).is_dir() else link[0]
    relative = posixpath.relpath(_page_of(target), posixpath.dirname(uri) or ".")
    return f"[{link[1]}]({relative}{link[3]})"


def _target(uri: str, link: str) -> str | None:
    """The path in the repository of the file that a link leads to; of a folder, its README's."""
    path = _path(uri, link)
    if (ROOT / path).is_dir():
        path += "/README.md"
    return path if not path.startswith("..") and (ROOT / path).is_file() else None


def _path(uri: str, link: str) -> str:
    origin = ORIGINS.get(uri, f"docs/{uri}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), link))


def _is_source(path: str) -> bool:
    return path not in PAGES and not path.startswith("docs/")


def _page_of(path: str) -> str:
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def _shown(path: str) -> str:
    """A page that shows a file, and is not searched."""
    text = (ROOT / path).read_text(encoding="utf-8")
    body = text if path.endswith(".md") else f"# {path}\n\n~~~~{Path(path).suffix[1:]}\n{text}\n~~~~\n"
    return f"---\nsearch:\n  exclude: true\n---\n{body}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.exit(build(Path(sys.argv[1])))
