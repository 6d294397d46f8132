"""Loads the user's program: from ``app.py:topology`` or ``package.module:name`` to a topology."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import click

from penstock.dsl.builder import StreamsBuilder
from penstock.engine.shared.program import ProgramFile
from penstock.errors import ConfigError, OldNameWarning, PenstockError
from penstock.plan.topology import Topology
from penstock.usage.callers import only_users, users_frames
from penstock.usage.java_names import of_module

_DEFAULT_NAME = "topology"
_NO_TOPOLOGY = f"end the program with {_DEFAULT_NAME} = builder.build(), or give its name, as in app.py:NAME"

T = TypeVar("T")

program_argument = click.argument("program", metavar="PROGRAM")

PROGRAM_HELP = (
    "PROGRAM is app.py:NAME or package.module:NAME. NAME is a Topology, a StreamsBuilder, or a function that returns "
    f"one of them. Without :NAME, the name is {_DEFAULT_NAME!r}."
)


def load_program(target: str) -> Topology:
    """Return the named topology.

    Args:
        target: ``app.py:name`` or ``package.module:name``; the name is that of a ``Topology``, of a
            ``StreamsBuilder``, or of a function without arguments that returns one of them.

    Raises:
        click.BadParameter: the file, module or name does not exist, or is something else.
        ConfigError: the program does not load; the message says where it fails.
        TopologyError: the topology cannot be built.
    """
    _show_warnings()
    place, name = _parts(target)
    value = _attribute(_module(place), name, place)
    if not isinstance(value, Topology | StreamsBuilder | type) and callable(value):
        value = _user_code(value, f"{name}() in {place}")
    if isinstance(value, StreamsBuilder):
        value = value.build()
    if not isinstance(value, Topology):
        raise _bad(
            f"{name!r} in {place} is {_described(value)}; name a Topology (what StreamsBuilder.build returns), a "
            "StreamsBuilder, or a function without arguments that returns one of them"
        )
    return value


def _show_warnings() -> None:
    """Show deprecated names in every file of the program, unless the user chose what to show: Python shows them in the
    file alone that it was started with, which is here the command line's own."""
    if not sys.warnoptions:
        warnings.filterwarnings("default", category=OldNameWarning)


def default_application_id(target: str) -> str:
    """Return the name of the program's file or module, in the characters that an application id may have.

    >>> default_application_id("jobs/flights.py:topology"), default_application_id("jobs.flights:late")
    ('flights', 'flights')
    """
    place, _ = _parts(target)
    stem = Path(place).stem if _is_file(place) else place.rpartition(".")[2]
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", stem).strip("-.") or "app"


def program_file(target: str, names_application: bool) -> ProgramFile | None:
    """Return the file of a loaded program; None if it has none.

    Args:
        names_application: whether its application id is the default one.
    """
    place, name = _parts(target)
    file = place if _is_file(place) else getattr(sys.modules.get(place), "__file__", None)
    return None if file is None else ProgramFile(Path(file).resolve(), name, names_application)


def _parts(target: str) -> tuple[str, str]:
    place, colon, name = target.rpartition(":")
    return (place, name) if colon and name.isidentifier() else (target.rstrip(":"), _DEFAULT_NAME)


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place or "\\" in place


def _module(place: str) -> ModuleType:
    """Return the module of a file or a name. Slots import it by its name, from the same folder."""
    if _is_file(place):
        path = Path(place).resolve()
        _check_file(path, place)
        folder, name = path.parent, path.stem
    else:
        folder, name = Path.cwd(), place
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    if _find(name) is None:
        raise _bad(f"there is no module {name!r}, in {folder} or installed; is it app.py:{_DEFAULT_NAME}?")
    return _user_code(lambda: importlib.import_module(name), place)


def _check_file(path: Path, place: str) -> None:
    if not path.is_file():
        raise _bad(f"there is no file {place} in {Path.cwd()}; change into its folder, or give its path")
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise _bad(f"{place} cannot be imported: name it like my_app.py, of letters, digits and _")
    other = _find(path.stem)
    if other not in (None, str(path), path.stem):  # the last is a folder without a module, which hides no file
        raise _bad(f"{place} has the name of another module, {other}; rename the file")


def _find(name: str) -> str | None:
    """Return the file of a module that can be imported by this name now."""
    importlib.invalidate_caches()  # else a file written a moment ago is not seen
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return None if spec is None else spec.origin or name


def _attribute(module: ModuleType, name: str, place: str) -> Any:
    if hasattr(module, name):
        return getattr(module, name)
    fitting = [key for key, value in vars(module).items() if isinstance(value, Topology | StreamsBuilder)]
    hint = f"did you mean {' or '.join(f'{place}:{key}' for key in fitting)}?" if fitting else _NO_TOPOLOGY
    raise _bad(f"there is no {name!r} in {place}; {hint}")


def _user_code(call: Callable[[], T], what: str) -> T:
    """Return the result of a call into the user's program; errors show the lines of that program."""
    try:
        return call()
    except PenstockError as error:
        frames = users_frames(error)
        if not frames or f"{frames[-1].filename}:" in str(error):
            raise
        frame = frames[-1]
        raise type(error)(f"{error}\n  the line: {frame.filename}:{frame.lineno}: {frame.line}") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{what} failed: {_own_lines(error)}") from error


def _own_lines(error: BaseException) -> str:
    """Return an error with the lines of the user's program that it came through."""
    if not users_frames(error) and not isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error}"
    told = traceback.TracebackException.from_exception(error)
    _leave_users(told)
    way = of_module(error.name or "") if isinstance(error, NameError) else ""
    return "\n" + "".join(told.format()).rstrip() + (way and "; ") + way


def _leave_users(told: traceback.TracebackException) -> None:
    """Remove the frames of libraries from an error, and from the errors before it."""
    told.stack = traceback.StackSummary.from_list(only_users(told.stack)) or None  # type: ignore[assignment]
    for before in (told.__cause__, told.__context__):
        if before is not None:
            _leave_users(before)


def _described(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"


def _bad(message: str) -> click.BadParameter:
    return click.BadParameter(message, param_hint="PROGRAM")
