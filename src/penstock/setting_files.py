"""Reads settings from ``penstock.toml`` and ``pyproject.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError


def files_of(folder: Path, config_file: Path | None) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the settings in each existing file, with the file's name."""
    own = folder / "penstock.toml" if config_file is None else config_file
    found = [("pyproject.toml", _toml(folder / "pyproject.toml").get("tool", {}).get("penstock", {}))]
    found.append((own.name, _toml(own)))
    return found


_parsed = lru_cache(maxsize=4)(tomllib.loads)
"""A test suite makes thousands of settings, and parsing a project's file takes longer than everything else."""


def _toml(file: Path) -> dict[str, Any]:
    try:
        return _parsed(file.read_text())
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not TOML: {error}; write settings like chunk_records = 1000") from None
