"""Sizes as people write them, and durations that do not fit."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.values.durations import MAX_MS, to_ms, to_signed_ms
from penstock.values.sizes import to_bytes


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, 0),
        (-1, -1),
        ("17", 17),
        ("17 B", 17),
        ("1 KB", 1024),
        ("1KiB", 1024),
        (" 64 mb ", 64 << 20),
        ("0.5 GB", 512 << 20),
        ("2 TiB", 2 << 40),
        ("-1", -1),
    ],
)
def test_a_size_is_a_number_and_a_unit(size: int | str, expected: int):
    assert to_bytes(size) == expected


@pytest.mark.parametrize("size", ["", "MB", "1 mile", "1 2 MB", "1,5 MB", "1 MB or so", "1e3", 1.5, True, None, b"1"])
def test_what_is_no_size_is_shown(size: Any):
    with pytest.raises(ConfigError, match=r"limit must be a number of bytes or text such as '64 MB', got ") as raised:
        to_bytes(size, "limit")
    assert str(raised.value).endswith(repr(size))


def test_tenths_are_exact():
    assert (to_ms("0.1 s"), to_ms("1.1 s"), to_ms("0.3 s and 0.6 s")) == (100, 1100, 900)
    assert to_bytes("1.1 KB") == 1126


@pytest.mark.parametrize("duration", [MAX_MS + 1, f"{MAX_MS + 1} ms", "9" * 400 + " days"])
def test_a_duration_beyond_64_bits_is_refused(duration: int | str):
    with pytest.raises(ConfigError, match=f"grace must not be longer than {MAX_MS} ms, got "):
        to_ms(duration, "grace")
    assert to_ms(MAX_MS) == to_ms(f"{MAX_MS} ms") == MAX_MS
    assert to_ms(timedelta.max) < MAX_MS


@pytest.mark.parametrize(
    ("duration", "ms"),
    [
        ("0.5 ms", "0.5"),
        ("0.0005 s", "0.5"),
        (timedelta(microseconds=1), "0.001"),
        (timedelta(microseconds=-1500), "1.5"),
        (timedelta(seconds=1) / 3, "333.333"),
    ],
)
def test_a_duration_with_a_part_of_a_millisecond_is_refused_and_not_rounded(duration: Any, ms: str):
    with pytest.raises(ConfigError, match=rf"^grace must be whole milliseconds, got .* \({re.escape(ms)} ms\)$"):
        to_signed_ms(duration, "grace")
