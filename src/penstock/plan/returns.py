"""Finds functions that should return a result and never do: a forgotten ``return``, which Python does not report."""

from __future__ import annotations

import dis
from typing import Any

from penstock.errors import TopologyError
from penstock.plan.functions import UserFunction

_IN_PLACE = frozenset(("append", "extend", "insert", "sort", "reverse", "clear", "update", "add", "discard", "remove"))
"""Methods of lists, dicts and sets that return None."""

_GENERATOR = 0x20 | 0x80 | 0x200
"""Code flags of generators and coroutines."""


def check_returns(function: UserFunction, method: str, what: str, initializer: Any = None) -> UserFunction:
    """Return the function, unless it can only return None.

    Raises:
        TopologyError: it can only return None, which would delete each aggregate.
    """
    if _returns_none(function.call) or (initializer in (list, dict, set) and _changes_in_place(function.call)):
        raise TopologyError(
            f"{method} at {function.where}: the {what} {function.name} at {function.location()} always returns None, "
            "which deletes the aggregate; it must return the new aggregate"
        )
    return function


def check_predicate(function: UserFunction, method: str, otherwise: str) -> UserFunction:
    """Return the function, unless it can only return None.

    Args:
        otherwise: the consequence for all records.

    Raises:
        TopologyError: it can only return None.
    """
    if _returns_none(function.call):
        raise TopologyError(
            f"{method} at {function.where}: the function {function.name} at {function.location()} always returns "
            f"None, so {otherwise}; it must return True or False"
        )
    return function


def _instructions(call: Any) -> list[dis.Instruction]:
    code = getattr(call, "__code__", None)
    if code is None or code.co_flags & _GENERATOR:
        return []
    return [one for one in dis.get_instructions(code) if one.opname not in ("RESUME", "PRECALL", "CACHE", "NOP")]


def _returns_none(call: Any) -> bool:
    steps = _instructions(call)
    returns = [at for at, step in enumerate(steps) if step.opname.startswith("RETURN_") and "GEN" not in step.opname]
    return bool(returns) and all(_is_none(steps, at) for at in returns)


def _is_none(steps: list[dis.Instruction], at: int) -> bool:
    if steps[at].is_jump_target:  # of several values the one that was chosen
        return False
    load = steps[at] if steps[at].opname == "RETURN_CONST" else steps[at - 1]
    return load.opname in ("RETURN_CONST", "LOAD_CONST") and load.argval is None


def _changes_in_place(call: Any) -> bool:
    """True if it does nothing but call a method that changes the aggregate, its last argument."""
    steps = _instructions(call)
    code = getattr(call, "__code__", None)
    if code is None or len(steps) < 4 or steps[-1].opname != "RETURN_VALUE" or steps[-2].opname != "CALL":
        return False
    aggregate = code.co_varnames[code.co_argcount - 1]
    begins = steps[0].argval == aggregate and steps[1].argval in _IN_PLACE
    return begins and not any("JUMP" in step.opname for step in steps)
