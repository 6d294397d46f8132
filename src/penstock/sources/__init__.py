"""Sources: files, databases and services whose records come into a program, each record exactly once.

``StreamsBuilder.source`` takes one. A source of your own is a :class:`Source`, which opens a :class:`SourceReader`;
ready ones are here, too.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from penstock.sources.files.source import FileSource
    from penstock.sources.http.source import HttpSource
    from penstock.sources.outbox import PostgresOutbox
    from penstock.sources.protocol import Source, SourceBatch, SourceContext, SourceReader

_NAMES = {
    "FileSource": "files.source",
    "HttpSource": "http.source",
    "PostgresOutbox": "outbox",
    "Source": "protocol",
    "SourceBatch": "protocol",
    "SourceContext": "protocol",
    "SourceReader": "protocol",
}
__all__ = [
    "FileSource",
    "HttpSource",
    "PostgresOutbox",
    "Source",
    "SourceBatch",
    "SourceContext",
    "SourceReader",
]


def __getattr__(name: str) -> _Any:
    """Import a public name on first use, so that no source costs anything to those who do not use it."""
    if name in _NAMES:
        value = globals()[name] = getattr(_import_module(f"penstock.sources.{_NAMES[name]}"), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
