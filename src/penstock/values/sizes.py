"""Sizes in the forms that users write: ``1024``, ``"64 MB"``."""

from __future__ import annotations

import re
from decimal import Decimal

from penstock.errors import ConfigError

_UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_SIZE = re.compile(r"(-?\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)


def to_bytes(size: int | str, what: str = "size") -> int:
    """Bytes of a size.

    Args:
        size: an int of bytes, or text of a number and a unit (B, KB, MB, GB, TB; a KB is 1024 bytes, as is a KiB).
        what: the argument's name, for the error message.

    Raises:
        ConfigError: the size cannot be understood.

    >>> to_bytes("64 MB"), to_bytes("1.5 KiB"), to_bytes(250)
    (67108864, 1536, 250)
    """
    if isinstance(size, int) and not isinstance(size, bool):
        return _fitting(size, size, what)
    match = _SIZE.fullmatch(size.strip().lower()) if isinstance(size, str) else None
    unit = None if match is None else _UNITS.get(match[2].replace("ib", "b"))
    if match is None or unit is None:
        raise ConfigError(f"{what} must be a number of bytes or text such as '64 MB', got {size!r}")
    return _fitting(int(Decimal(match[1]) * unit), size, what)


def _fitting(nbytes: int, size: int | str, what: str) -> int:
    if nbytes >= 1 << 63:
        raise ConfigError(f"{what} must be less than 2**63 bytes, got {size!r}")
    return nbytes
