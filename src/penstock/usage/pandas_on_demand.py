"""Keeps pyarrow from importing pandas into processes that do not use pandas.

With the first array that a process makes, pyarrow imports pandas, if pandas is installed, to recognize a ``Series``. In
every slot that takes 0.3 s of CPU and 36 MB. Nobody can have a ``Series`` before pandas is imported, so pyarrow looks
for pandas when the program imports it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pyarrow as pa


class _Finder:
    """The first of Python's finders of modules: it tells pyarrow once pandas is imported.

    Args:
        api: where pyarrow keeps whether there is pandas.
    """

    def __init__(self, api: Any):
        self._api = api
        self.hidden_from: int | None = None
        """The thread that does not find pandas."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "pandas":
            return None
        if threading.get_ident() == self.hidden_from:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        others = (one.find_spec(name, path, target) for one in list(sys.meta_path) if one is not self)
        spec = next((found for found in others if found is not None), None)
        if spec is not None and spec.loader is not None:
            self._listen(spec.loader)
        return spec

    def _listen(self, loader: Any) -> None:
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            with suppress(ValueError):  # a second import, after a first one failed
                sys.meta_path.remove(self)
            with suppress(Exception):  # pyarrow wants another version of pandas
                _ = self._api.pd  # has it look again

        loader.exec_module = exec_module


def import_pandas_on_demand() -> None:
    """Have pyarrow take up pandas when the program imports pandas, and not before."""
    api = getattr(pa.lib, "_pandas_api", None)
    if "pandas" in sys.modules or not hasattr(type(api), "pd"):
        return
    finder = _Finder(api)
    sys.meta_path.insert(0, finder)
    finder.hidden_from = threading.get_ident()
    try:
        pa.array([0])  # has it look for the first time
    finally:
        finder.hidden_from = None
