"""Compiles record-by-record rules into machine code with Numba.

Numba is imported with this module, so only modules with such rules import it, and only topologies that need these
import them. The machine code is cached; if no cache folder is writable, each process compiles again, which takes some
seconds. Any number of processes may do either at once. If Numba cannot be imported, the rules run as plain Python: the
same results, but much slower.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import platform
import stat
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from penstock.arrays import IntArray

try:
    import numba
except ImportError:  # not installed, or not available for this version of Python
    numba = None

F = TypeVar("F", bound=Callable[..., Any])

IS_COMPILED = numba is not None
"""Whether rules are machine code here, and not plain Python."""
_OPTIONS: dict[str, Any] = {"nogil": True}
_LOCK = threading.Lock()

if numba is None and os.environ.get("PENSTOCK_SLOT") in (None, "slot-0"):  # one of all slots says it
    warnings.warn(
        "Numba is not installed, so sliding windows, sessions and suppressions run as plain Python: the results are "
        "the same, but they take many times as long. Where Numba has a wheel, pip install 'penstock-streams[compiled]'",
        RuntimeWarning,
        stacklevel=1,
    )
elif numba is not None and hasattr(numba.core.options.DefaultOptions, "_nrt"):
    # Without Numba's runtime nothing can be allocated, and no references are counted: that took most of the time. A
    # later Numba may do without this option, which is not documented: then the rules are slower.
    _OPTIONS["_nrt"] = False


def compiled(*examples: Any) -> Callable[[F], F]:
    """Compile a function of numbers, arrays of numbers and tuples of these, at once, or load it from the cache.

    Functions that it calls must be ``inlined`` and in the same module: the cache notices changes in that file only.

    Args:
        examples: for each parameter a value of its type.

    >>> import numpy as np
    >>> @compiled(np.zeros(1, np.int64), 0)
    ... def count_above(numbers, limit):
    ...     found = 0
    ...     for number in numbers:
    ...         found += number > limit
    ...     return found
    >>> count_above(np.array([3, 5, 8]), 4)
    2
    """

    def compile_(function: F) -> F:
        if numba is None:
            return function
        types = tuple(numba.typeof(example) for example in examples)
        for base in _bases():
            try:
                return _cached(function, types, own_folder(base / _version(function)))
            except Exception:  # the cache is not writable, the disk is full, or a file is damaged: compile without it
                continue
        return numba.njit(types, **_OPTIONS)(function)  # type: ignore[no-any-return]

    return compile_


def inlined(function: F) -> F:
    """Compile a function that compiled functions of its module call."""
    return function if numba is None else numba.njit(forceinline=True, **_OPTIONS)(function)


def constant(number: int) -> int:
    """Return an int64. Numba gives a plain literal its own type and compiles every caller again for it."""
    return np.int64(number)  # type: ignore[return-value]


def table(size: int, kind: np.dtype[Any]) -> Any:
    """Return rows of zeros, whose fields compiled functions know as attributes.

    >>> table(2, np.dtype([("start", "i8"), ("count", "i8")]))["start"]
    array([0, 0])
    """
    rows = np.zeros(size, kind)
    return rows.view(np.recarray) if numba is None else rows


def column(rows: Any, name: str) -> IntArray:
    """Return a field of all rows, in a separate array.

    >>> column(table(2, np.dtype([("start", "i4")])), "start")
    array([0, 0])
    """
    return np.ascontiguousarray(rows[name], np.int64)


def _cached(function: F, types: tuple[Any, ...], folder: Path) -> F:
    with _LOCK:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)
        try:
            return numba.njit(types, **_OPTIONS, cache=True)(function)  # type: ignore[no-any-return]
        finally:
            numba.config.CACHE_DIR = before


def _bases() -> Iterator[Path]:
    """Yield the possible cache folders, best first."""
    named = os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    yield from (Path(folder) / "penstock" for folder in named if folder)
    home = os.environ.get("HOME")
    if home:
        yield Path(home) / ".cache" / "penstock"
    yield Path(tempfile.gettempdir()) / f"penstock-compiled-{os.getuid()}"


def _version(function: Callable[..., Any]) -> str:
    """Return a digest of everything that the machine code depends on: cache files of one name are always the same."""
    import llvmlite.binding as llvm

    source = inspect.getsource(inspect.getmodule(function) or function)
    parts = (
        source,
        Path(__file__).read_text(),
        numba.__version__,
        platform.python_version(),
        llvm.get_host_cpu_name(),
        platform.machine(),
    )
    features = llvm.get_host_cpu_features().flatten()
    return hashlib.blake2b("\0".join((*parts, features)).encode(), digest_size=12).hexdigest()


def own_folder(folder: Path) -> Path:
    """Return a folder that only this user can write, created if necessary, because its files are unpickled.

    Raises:
        PermissionError: others can write it.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    for one in (folder.parent, folder):
        found = one.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise PermissionError(f"others than this user can write into {one}")
    return folder
