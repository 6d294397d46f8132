"""JSON lines: records with one JSON text in each line of the value."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.serdes.formats.base import Format, Headers, Opened, Texts
from penstock.serdes.primitives import BYTES
from penstock.values.decoding import json_decoder


def json_lines(row: Any) -> Format:
    """The format of records that have several lines of JSON, for ``format=`` of ``stream``. Each line becomes a record.

    ``timestamp="at"`` takes the time of each line from its field ``at``. Penstock leaves out empty lines. If a line is
    not JSON, ``on_error`` decides about the whole record. Keys do not change.

    Args:
        row: the type of a line: dict, a dataclass, a ``msgspec.Struct``, a schema.

    Raises:
        ConfigError: an argument is wrong.

    >>> from penstock import StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> builder.stream("log", timestamp="at", format=json_lines(dict)).to("out")
    >>> driver = TopologyTestDriver(builder.build())
    >>> driver.pipe_input("log", "host", b'{"at": 5000, "n": 1}\\n{"at": 5001, "n": 2}\\n')
    >>> [(record.value["n"], record.timestamp) for record in driver.read_output("out")]
    [(1, 5000), (2, 5001)]
    """
    return JsonLines(row)


class JsonLines(Format):
    """See ``json_lines``."""

    only_streams = True
    has_several = True
    hint = "format=json_lines reads JSON, one text a line"

    def __init__(self, row: Any):
        super().__init__("json_lines", row, BYTES)

    def all(self, texts: Texts) -> Opened | None:
        if None in texts or any(map(_is_several, texts)):  # type: ignore[arg-type]
            return None
        return Opened(texts)

    def one(self, text: bytes | None, headers: Headers) -> Texts:
        return [None] if text is None else list(self._lines(text))

    def _lines(self, text: bytes) -> list[bytes]:
        lines = [line for line in text.split(b"\n") if line.strip()]
        for line in lines:
            self.opened(line, msgspec.Raw)
        return lines

    def row(self, value: Any, headers: Headers) -> Any:
        """The first line."""
        lines = [] if value is None else self._lines(value)
        return json_decoder(Any).decode(lines[0]) if lines else None


def _is_several(text: bytes) -> bool:
    return b"\n" in text or not text
