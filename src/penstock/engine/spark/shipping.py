"""Sending the user's program to the slots.

Importable code goes by name, and the folders that this process imports from go along. What was defined in a script or
a notebook goes by value, through cloudpickle; ``msgspec.Struct`` classes need some help with that, because their
fields exist only from the moment the class is made.
"""

from __future__ import annotations

import importlib
import io
import sys
import typing
from pathlib import Path
from typing import Any

import msgspec
from pyspark import cloudpickle

from penstock.errors import ConfigError


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
        raise ConfigError(
            f"the topology cannot be sent to the slots: {error}. Functions may only refer to what can be pickled; "
            "make connections, locks and sessions inside the function instead of around it"
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


class _Pickler(cloudpickle.CloudPickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and issubclass(obj, msgspec.Struct) and obj.__module__ == "__main__":
            return _make_struct, _parts(obj)
        return super().reducer_override(obj)


_CONFIG = (
    "frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults", "forbid_unknown_fields",
    "weakref", "dict", "cache_hash", "tag", "tag_field",
)  # fmt: skip


def _parts(struct: type[msgspec.Struct]) -> tuple[str, list[Any], dict[str, Any], dict[str, Any]]:
    """What a Struct class is made of."""
    types = typing.get_type_hints(struct, include_extras=True)
    fields: list[Any] = []
    for field in msgspec.structs.fields(struct):
        spec: tuple[Any, ...] = (field.name, types[field.name])
        if field.default is not msgspec.NODEFAULT:
            spec = (*spec, field.default)
        elif field.default_factory is not msgspec.NODEFAULT:
            spec = (*spec, msgspec.field(default_factory=field.default_factory))
        fields.append(spec)
    methods = {name: value for name, value in vars(struct).items() if callable(value) and not name.startswith("__")}
    config = {name: getattr(struct.__struct_config__, name) for name in _CONFIG}
    return struct.__name__, fields, methods, config


def _make_struct(name: str, fields: list[Any], methods: dict[str, Any], config: dict[str, Any]) -> Any:
    return msgspec.defstruct(name, fields, namespace=methods, module="__main__", **config)
