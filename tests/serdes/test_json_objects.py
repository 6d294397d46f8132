"""JSON objects written from columns: with machine code and without it, the same as msgspec writes each of them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import numba  # noqa: F401 - machine code is used where Numba is there already
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns import json_objects
from penstock.columns.json_objects import written

TEXTS = st.text(st.sampled_from('aé\n"\\\x01 €'), max_size=4)
VALUES = {
    "whole": st.integers(-(2**63), 2**64 - 1) | st.none(),
    "float": st.floats() | st.none(),
    "truth": st.booleans() | st.none(),
    "text": TEXTS | st.none(),
    "plain": st.text("abcé ", max_size=4),
}


@st.composite
def columns(draw: st.DrawFn) -> dict[str, Any]:
    """Columns of the same length, some of them as Arrow arrays of text that begin somewhere in their buffers."""
    count = draw(st.integers(1, 6))
    found: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4)):
        values = draw(st.lists(VALUES[name], min_size=count, max_size=count))
        if name in ("text", "plain") and draw(st.booleans()):
            found[f'{name} "{len(found)}"'] = pa.array([*draw(st.lists(TEXTS, max_size=3)), *values], pa.string())[
                -count:
            ]
        else:
            found[f'{name} "{len(found)}"'] = values
    return found


@pytest.mark.parametrize("way", ["machine code", "Arrow"])
@given(given_columns=columns())
def test_each_object_is_what_msgspec_writes(way: str, given_columns: dict[str, Any]) -> None:
    names = list(given_columns)
    lists = [one.to_pylist() if isinstance(one, pa.Array) else one for one in given_columns.values()]
    expected = [msgspec.json.encode(dict(zip(names, row, strict=True))) for row in zip(*lists, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        if way == "Arrow":
            patch.setattr(json_objects, "_compiled", lambda *_: None)
        assert written(names, list(given_columns.values())).to_pylist() == expected


def test_objects_that_are_too_long_for_arrow_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = b'{"n":1,"id":"abc"}'
    monkeypatch.setattr(json_objects, "_MOST", len(longest))
    assert written(["n", "id"], [[1], ["abc"]]).to_pylist() == [longest]
    assert written(["n", "id"], [[10], ["abc"]]) is None


def test_writing_objects_does_not_import_numba() -> None:
    use = "from penstock.columns.json_objects import written; written(['n'], [[1]])"
    program = f"import sys; {use}; print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
