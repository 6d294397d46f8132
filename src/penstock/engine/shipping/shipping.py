"""Sends the user's program to the slots.

Importable code is sent by name, together with the folders that this process imports from. Code of a script or a
notebook is sent by value, through cloudpickle.
"""

from __future__ import annotations

import importlib
import io
import sys
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import cloudpickle
import msgspec

from penstock.engine.shipping.by_value import goes_by_name, reduced, with_members
from penstock.engine.shipping.proof import problem_of
from penstock.engine.shipping.unpicklable import culprit
from penstock.engine.shipping.user_classes import as_it_travels, meta_parts, needs_own_way, take_apart
from penstock.errors import ConfigError
from penstock.messages import describe


def dumps(program: Any) -> bytes:
    """Return the program, and the places of its modules, as bytes.

    Raises:
        ConfigError: something in it cannot be sent; the message names it.
    """
    try:
        data = _packed(_import_folders()) + _packed(program)
        if problem := problem_of(data, loads):
            raise UnpicklingError(f"in another process: {problem}")
    except Exception as error:
        said = culprit(getattr(program, "topology", program), _check) or describe(error)
        raise ConfigError(
            f"the topology cannot be sent to the slots: {said}. Functions may only refer to what can be pickled; make "
            "connections, locks and sessions inside the function instead of around it"
        ) from error
    return data


def loads(data: bytes) -> Any:
    """Return the program in a slot. Its bytes came from this application's own driver, through Spark."""
    buffer = io.BytesIO(data)
    folders = cloudpickle.load(buffer)
    sys.path.extend(folder for folder in folders if folder not in sys.path and Path(folder).is_dir())
    importlib.invalidate_caches()
    return cloudpickle.load(buffer)


def _import_folders() -> list[str]:
    """Return the folders of ``sys.path`` that belong to the user."""
    system = (sys.prefix, sys.base_prefix, sys.exec_prefix)
    own = [str(Path(folder or ".").resolve()) for folder in sys.path if not folder.endswith(".zip")]
    return [folder for folder in dict.fromkeys(own) if not folder.startswith(system)]


def _packed(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


def _check(value: Any) -> None:
    """Raise the error of packing a value, or of unpacking it elsewhere."""
    if problem := problem_of(_packed([]) + _packed(value), loads):
        raise UnpicklingError(f"in another process: {problem}")


class _Pickler(cloudpickle.CloudPickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, msgspec.Meta):
            return meta_parts(obj)
        if (given := reduced(obj)) is not None:
            return given
        is_class = isinstance(obj, type)
        if is_class and needs_own_way(obj) and not goes_by_name(obj):
            return take_apart(obj)
        usual = super().reducer_override(obj)
        if is_class and isinstance(usual, tuple) and len(usual) == _WITH_SETTER:
            function, arguments, (attributes, slots), _, _, set_state = usual
            state, set_state = with_members(obj, (as_it_travels(obj, attributes), slots), set_state)
            return function, arguments, state, None, None, set_state
        return usual


_WITH_SETTER = 6
"""The length of cloudpickle's reduction of a class that it takes apart."""
