"""Finds the place in the user's code that called Penstock."""

from __future__ import annotations

import dataclasses
import os
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep
_PYTHON = sysconfig.get_path("stdlib") + os.sep
_INSTALLED = f"{os.sep}site-packages{os.sep}"


class Place(str):
    """A file and line, with the call in that line."""

    call: object = None


def caller() -> str:
    """The file and line of the user's code that called into Penstock."""
    frame = _users_frame()
    place = Place(f"{frame.f_code.co_filename}:{frame.f_lineno}")
    place.call = hash(frame.f_code), frame.f_lasti
    return place


def warn_caller(text: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that called into Penstock, once for each line as Python does."""
    frame = _users_frame()
    here = frame.f_globals
    warnings.warn_explicit(
        text,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=here.get("__name__"),
        registry=here.setdefault("__warningregistry__", {}),
    )


def _users_frame() -> FrameType:
    """Return the innermost frame of the user's code, or the outermost frame if all frames are Penstock's."""
    frame = sys._getframe(1)
    while _is_own(frame) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def is_same_call(one: str, other: str) -> bool:
    """Return whether two places are the same call, which has run twice: in a loop, or in a cell of a notebook."""
    call = getattr(one, "call", None)
    return one == other and call is not None and call == getattr(other, "call", None)


def _is_own(frame: FrameType) -> bool:
    """Return whether a frame runs this package's code, also through ``dataclasses``; constructors made there have no
    file.
    """
    file = frame.f_code.co_filename
    return (
        file == dataclasses.__file__
        or is_own_file(file)
        or (file == "<string>" and frame.f_globals.get("__name__", "").startswith("penstock."))
    )


def is_own_file(filename: str) -> bool:
    """Return whether a source file belongs to this package, not to the user."""
    return filename.startswith(_PACKAGE)


def users_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of the user's code that an error came through."""
    return only_users(traceback.extract_tb(error.__traceback__))


def only_users(frames: Iterable[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Return the frames of the user's code: not those of Penstock and of Python, nor of installed libraries, unless the
    code itself is installed."""
    others = [one for one in frames if not _is_of_python(one.filename) and not is_own_file(one.filename)]
    return [one for one in others if _INSTALLED not in one.filename] or others


def _is_of_python(filename: str) -> bool:
    return filename.startswith("<frozen ") or (filename.startswith(_PYTHON) and _INSTALLED not in filename)
