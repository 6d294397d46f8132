"""Makes what the package index shows: the README with links that lead somewhere, and the addresses of the project.

The links of the README are relative, and the package index has no files beside it. With PENSTOCK_REPOSITORY, the URL of
the repository, links and pictures become absolute ones, at the tag of the version. Without it a link becomes its text
and a picture is left out, so that nothing leads nowhere.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "PENSTOCK_REPOSITORY"
_LINK = re.compile(r"(!?)\[([^]]*)\]\((?![a-z]+:|#)([^)]*)\)")
"""A relative link, or a picture."""
_PAGES = {"Documentation": "docs/README.md", "Changelog": "CHANGELOG.md", "Security": "SECURITY.md"}


class CustomMetadataHook(MetadataHookInterface):
    """Gives the README and the addresses of the project to the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository, version = os.environ.get(REPOSITORY, "").rstrip("/"), metadata["version"]
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_links(readme, repository, version)}
        if repository:
            pages = {name: f"{repository}/blob/v{version}/{path}" for name, path in _PAGES.items()}
            metadata["urls"] = {"Repository": repository, **pages}


def with_links(text: str, repository: str, version: str) -> str:
    """Return a page whose relative links are absolute, or plain text without a repository."""

    def absolute(link: re.Match[str]) -> str:
        is_picture, shown, path = link.groups()
        if not repository:
            return "" if is_picture else shown
        return f"{is_picture}[{shown}]({repository}/{'raw' if is_picture else 'blob'}/v{version}/{path})"

    return _LINK.sub(absolute, text)
