"""A hook of mkdocs: the pages outside docs/, the sources that pages lead to, and the links to both."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

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
BOOSTS = {"decisions": 0.3, "reference": 2, "tutorial": 1.5}
"""How much the search prefers the pages of a folder."""
LINK = re.compile(r"\[([^\]]*)\]\(([^)#:\s]+)((?:#[^)]*)?)\)")


def on_config(config: Any) -> Any:
    """Every decision stands in the nav, by its number."""
    [decisions] = [entry["Decisions"] for entry in config.nav if "Decisions" in entry]
    decisions += [f"decisions/{path.name}" for path in sorted((ROOT / "docs" / "decisions").glob("0*.md"))]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Bring in the pages outside docs/, and each source that a page leads to."""
    docs_readme = files.get_file_from_path("README.md")
    if docs_readme is not None:
        files.remove(docs_readme)
    for path, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text(encoding="utf-8")))
    sources = {
        target
        for file in files.documentation_pages()
        for _, link, _ in LINK.findall(file.content_string)
        if (target := _target(file.src_uri, link)) is not None and _is_source(target)
    }
    for source in sorted(sources):
        files.append(File.generated(config, _page_of(source), content=_shown(source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links within the repository become links within the site; a folder without a page is no link."""
    uri = page.file.src_uri
    if uri.startswith("source/"):
        return markdown
    if uri == "README.md":
        page.meta["hide"] = ["navigation"]
    if (folder := posixpath.dirname(uri)) in BOOSTS:
        page.meta["search"] = {"boost": BOOSTS[folder]}
    return LINK.sub(lambda link: _relinked(uri, link), markdown)


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
