"""The options of ``KStream.print``: the destination, and the text of a record."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.files.locations import folder
from penstock.plan.functions import check_type, user_function
from penstock.plan.names import check_name, check_name_if_given
from penstock.plan.options import Options, option
from penstock.processor import RecordContext
from penstock.usage.calls import refuse_result


@dataclass(frozen=True)
class Printed(Options):
    """The destination of ``KStream.print``, and the text of a record.

    >>> Printed.to_file("seen.txt").with_label("orders").label
    'orders'
    """

    file: str | None = None
    """None for standard output."""
    label: str | None = None
    name: str | None = None
    mapper: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        check_name_if_given(self.name)
        if self.label is not None:
            check_type(self.label, str, "the label of Printed")
        if self.mapper is not None:
            user_function(self.mapper, "with_key_value_mapper", ("key", "value"), context=True)

    @option
    def to_sys_out(self) -> Printed:
        """To standard output: that of the process whose task has the record, which on Spark is a worker's."""
        return self._but(file=None)

    @option
    def to_file(self, path: str | Path) -> Printed:
        """To a file, at whose end lines are added; on a cluster each machine has its own.

        Args:
            path: its path, or ``file:///path``.

        Raises:
            ConfigError: that is no path on a machine.
        """
        return self._but(file=str(folder(path, "Printed.to_file")))

    @option
    def with_label(self, label: str) -> Printed:
        """With this in front of each record, in brackets; by default it is the name of the step above."""
        return self._but(label=label)

    @option
    def with_name(self, name: str) -> Printed:
        """With a name for the step."""
        return self._but(name=check_name(name))

    @option
    def with_key_value_mapper(self, mapper: Callable[..., Any]) -> Printed:
        """With a function of (key, value), or (key, value, context), that gives the text for a record."""
        return self._but(mapper=mapper)

    def printer(self, step: str) -> Callable[..., None]:
        """Return the function that prints the records of a step."""
        return _Printer(self.file, self.label or step, self.mapper)


@dataclass(frozen=True)
class _Printer:
    """Prints records. It opens its file for each record, since it is pickled, and several processes may write."""

    file: str | None
    label: str
    mapper: Callable[..., Any] | None

    def __call__(self, key: Any, value: Any, *context: RecordContext) -> None:
        seen = f"{key}, {value}" if self.mapper is None else self.mapper(key, value, *context)
        refuse_result(seen)
        line = f"[{self.label}]: {seen}\n"
        if self.file is None:
            sys.stdout.write(line)
            sys.stdout.flush()
        else:
            with open(self.file, "a", encoding="utf-8") as file:
                file.write(line)
