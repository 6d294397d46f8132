"""JSON with a JSON Schema in a registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from penstock.arrays import Binary, IntArray
from penstock.errors import PenstockError, SerdeError
from penstock.messages import describe
from penstock.serdes.json import JsonSerde, null_texts
from penstock.serdes.registry.client import needed
from penstock.serdes.registry.place import SchemaRegistry
from penstock.serdes.registry.serde import HEAD_SIZE, Read, Write, head_of
from penstock.serdes.registry.text import TextSchemaSerde


class JsonSchema(TextSchemaSerde):
    """JSON whose schemas are in a schema registry, as Confluent's serdes write it.

    Penstock checks values when it writes and reads them, against ``schema`` or else the latest schema of the subject.
    The check takes most of the time; ``validate=False`` leaves it out.

    Needs ``pip install 'penstock-streams[jsonschema]'``.

    Args:
        subject: the subject of the schemas in the registry, usually ``"<topic>-value"``.
        registry: its URL, or a :class:`SchemaRegistry`; by default the setting ``schema_registry``.
        schema: the schema of values: text, a ``Path`` of a file, or a dict.
        version: the version of the subject to take instead.
        type: the type of values that are read: ``dict``, a dataclass, or another type of :class:`JsonSerde`. Added
            fields get the defaults of the class.
        register: whether the start of the program registers a new schema. With False, an unknown schema is an error.
        validate: whether values are checked.

    Raises:
        ConfigError: an argument is wrong, or a library is missing.

    >>> JsonSchema("orders-value", registry="http://localhost:8081")
    <serde jsonschema[orders-value]>
    """

    def __init__(
        self,
        subject: str,
        registry: SchemaRegistry | str | None = None,
        schema: object = None,
        version: int | None = None,
        type: Any = Any,
        register: bool = True,
        validate: bool = True,
    ):
        needed("JsonSchema", "jsonschema", "jsonschema")
        super().__init__("JsonSchema", "JSON", subject, registry, register, schema, version)
        self.json = JsonSerde(type)
        self._validate = validate

    @property
    def gives_none(self) -> bool:
        return False  # for no bytes other than those that ``null_rows`` finds

    def null_rows(self, data: Binary) -> IntArray:
        rows = null_texts(data, HEAD_SIZE)
        return np.array([row for row in rows.tolist() if self._is_null(data[row].as_py())], np.int64)

    @property
    def leaves_out(self) -> bool:
        return self.json.leaves_out

    def left_out(self, data: bytes) -> list[str]:
        return self.json.left_out(data[HEAD_SIZE:])

    def _is_null(self, data: bytes) -> bool:
        """True if the schema accepts null. If not, the record does not decode, and the step that decodes it reports
        that."""
        try:
            return self.decode(data) is None
        except SerdeError:
            return False

    def reader(self, number: int) -> Read:
        self.written(number)
        decode, check, plain = self.json.decode, self.own().meaning, msgspec.json.decode
        if not self._validate:
            return lambda data: decode(data[HEAD_SIZE:])

        def read(data: bytes) -> Any:
            text = data[HEAD_SIZE:]
            check(plain(text))
            return decode(text)

        return read

    def writer(self) -> Write:
        head, check, encode, plain = head_of(self.own_id()), self.own().meaning, self.json.encode, msgspec.to_builtins
        if not self._validate:
            return lambda value: head + encode(value)

        def write(value: Any) -> bytes:
            check(plain(value))
            return head + encode(value)

        return write

    def understood(self, text: str, references: Any, kind: type[PenstockError]) -> Callable[[Any], None]:
        """Make a function that raises for a value that does not fit a schema."""
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for
        from referencing import Registry
        from referencing.jsonschema import DRAFT7

        try:
            schema = msgspec.json.decode(text)
            validator = validator_for(schema)
            validator.check_schema(schema)
        except (msgspec.DecodeError, SchemaError) as error:
            raise kind(f"{self.name}: it is no JSON Schema: {describe(error)}") from None
        others = [(one.name, self.client.version(one.subject, one.version).schema) for one in references or ()]
        resources = [(name, DRAFT7.create_resource(msgspec.json.decode(one.schema_str))) for name, one in others]
        errors_of = validator(schema, registry=Registry().with_resources(resources)).iter_errors

        def check(value: Any) -> None:
            for error in errors_of(value):
                raise SerdeError(f"{error.json_path}: {error.message}")

        return check
