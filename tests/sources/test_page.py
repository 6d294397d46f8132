"""The programs of docs/sources.md do what the page says."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
from pathlib import Path
from typing import Any

import pytest

from support import readme

FIRST, *OTHERS = readme.blocks("python", readme.page("sources.md"))


def test_the_first_program_prints_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(FIRST, "sources.md", "exec"), {"__name__": "__main__"})
    assert f"It prints `{printed.getvalue().strip()}`." in readme.page("sources.md")


@pytest.mark.parametrize("snippet", OTHERS)
def test_the_other_programs_can_be_built(snippet: str):
    known: dict[str, Any] = {"__name__": __name__}
    exec(compile(snippet, "sources.md", "exec"), known)
    if "builder" in known:
        known["builder"].build()


def test_a_signature_of_github_is_verified():
    known: dict[str, Any] = {"__name__": __name__}
    exec(OTHERS[-2], known)
    signature = "sha256=" + hmac.new(b"...", b"{}", hashlib.sha256).hexdigest()
    assert known["signed_by_github"]({"x-hub-signature-256": signature}, b"{}")
    assert not known["signed_by_github"]({"x-hub-signature-256": signature}, b"{ }")
    assert not known["signed_by_github"]({}, b"{}")
