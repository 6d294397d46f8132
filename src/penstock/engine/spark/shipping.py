"""Sending the user's program to the slots.

Importable code goes by name, and the folders that this process imports from go along. What was defined in a script or
a notebook goes by value, through cloudpickle.
"""

from __future__ import annotations

import importlib
import io
import sys
from pathlib import Path
from typing import Any

import msgspec
from pyspark import cloudpickle

from penstock.engine.spark.unpicklable import culprit
from penstock.engine.spark.user_classes import as_it_travels, meta_parts, needs_own_way, take_apart
from penstock.errors import ConfigError
from penstock.messages import describe


def dumps(program: Any) -> bytes:
    """The program, and where its modules are, as bytes.

    Raises:
        ConfigError: something in it cannot travel; the message says what.
    """
    buffer = io.BytesIO()
    try:
        _Pickler(buffer).dump((_import_folders(), None))
        _Pickler(buffer).dump(program)
    except Exception as error:
        said = culprit(getattr(program, "topology", program), _pickle) or describe(error)
        raise ConfigError(
            f"the topology cannot be sent to the slots: {said}. Functions may only refer to what can be pickled; make "
            "connections, locks and sessions inside the function instead of around it"
        ) from error
    return buffer.getvalue()


def loads(data: bytes) -> Any:
    """The program, in a slot; its bytes came from this application's own driver, through Spark."""
    buffer = io.BytesIO(data)
    folders, _ = cloudpickle.load(buffer)
    sys.path.extend(folder for folder in folders if folder not in sys.path and Path(folder).is_dir())
    importlib.invalidate_caches()
    return cloudpickle.load(buffer)


def _import_folders() -> list[str]:
    """The folders of ``sys.path`` that are the user's own."""
    system = (sys.prefix, sys.base_prefix, sys.exec_prefix)
    own = [str(Path(folder or ".").resolve()) for folder in sys.path if not folder.endswith(".zip")]
    return [folder for folder in dict.fromkeys(own) if not folder.startswith(system)]


def _pickle(value: Any) -> None:
    _Pickler(io.BytesIO()).dump(value)


class _Pickler(cloudpickle.CloudPickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, msgspec.Meta):
            return meta_parts(obj)
        is_class = isinstance(obj, type)
        if is_class and needs_own_way(obj) and not _goes_by_name(obj):
            return take_apart(obj)
        reduced = super().reducer_override(obj)
        if is_class and isinstance(reduced, tuple) and len(reduced) == _WITH_SETTER:
            function, arguments, (state, slots), *rest = reduced
            return function, arguments, (as_it_travels(obj, state), slots), *rest
        return reduced


_WITH_SETTER = 6
"""How long what cloudpickle gives for a class is that it takes apart."""


def _goes_by_name(class_: type) -> bool:
    """Whether a class can be imported under its name, elsewhere too."""
    found: Any = None if class_.__module__ == "__main__" else sys.modules.get(class_.__module__)
    for name in class_.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is class_
