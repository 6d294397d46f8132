"""The machine's requirements for a JVM, and the reasons why one does not start, such as a missing Java."""

from __future__ import annotations

import os
import re
import resource
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from penstock.errors import ConfigError

OPEN_FILES = 1_024
"""How many files one of Spark's JVMs may have to open, with some reserve; it does not start with about 256."""
_SHOWN = 300
_SOCKET_NAME = 50
"""Length of the name of a socket that Spark makes in the folder for temporary files."""
_MOST_OF_A_SOCKET = 107
"""Longest path of a socket."""

GET_JAVA = (
    "install one (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) or point "
    "JAVA_HOME at it"
)


def check_java() -> None:
    """Raise ``ConfigError`` when there is no Java."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which(_java_of(home)) is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is none on the PATH"
        if home and Path(_java_of(home)).is_file():
            where = f"{_java_of(home)}, of JAVA_HOME, may not be run (chmod +x)"
        raise ConfigError(f"Spark did not start: it needs Java 17 or newer, and {where}: {GET_JAVA}")


def _java_of(home: str | None) -> str:
    return str(Path(home, "bin", "java")) if home else "java"


def temporary_folder() -> Path:
    """Return the folder for temporary files of this process and of its JVM.

    Raises:
        ConfigError: no such folder is writable, or Spark would take its path apart.
    """
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no folder for temporary files that can be written ({error.strerror}): set TMPDIR to one"
        ) from None
    if "," in str(folder):  # Spark's spark.local.dir is a list
        raise ConfigError(
            f"the folder for temporary files is {str(folder)!r}, and Spark takes its path apart at each comma: set "
            "TMPDIR to a folder without one"
        )
    return folder


def options_of_temporary_folder() -> dict[str, str]:
    """Return Spark's options for the temporary folder: no sockets in it if their paths would be too long."""
    folder = temporary_folder()
    if "java.io.tmpdir" in os.environ.get("JAVA_TOOL_OPTIONS", ""):  # set by the user
        return {}
    fits = len(str(folder)) + _SOCKET_NAME <= _MOST_OF_A_SOCKET
    return {} if fits else {"spark.python.unix.domain.socket.enabled": "false"}


def java_option(option: str, value: object) -> str:
    """Return an option of a JVM as part of Spark's options, with its value quoted.

    >>> print(java_option("-Dname=", 'a "b" c'))
    -Dname="a \\"b\\" c"
    """
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'{option}"{escaped}"'


def allow_open_files() -> None:
    """Raise this process's limit of open files to what its JVM needs, if the system allows it."""
    most, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if allowed == resource.RLIM_INFINITY else min(OPEN_FILES, allowed)
    if most != resource.RLIM_INFINITY and most < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, allowed))


def limit_of(kind: int) -> int | None:
    """Return a limit of this process; None if unlimited."""
    most = resource.getrlimit(kind)[0]
    return None if most == resource.RLIM_INFINITY else most


def _open_files() -> str:
    return f"this process may open only {limit_of(resource.RLIMIT_NOFILE)} files. Allow it {OPEN_FILES} (ulimit -n)"


def _memory() -> str:
    most = limit_of(resource.RLIMIT_AS)
    if most is not None:
        return f"this process may use only {most >> 20} MB of addresses, and a JVM reserves gigabytes (ulimit -v)"
    return "there is too little memory for a JVM on this machine, or in this container"


def _threads() -> str:
    return f"this user may have only {limit_of(resource.RLIMIT_NPROC)} processes and threads. Allow more (ulimit -u)"


def _folder() -> str:
    return f"it cannot write files. Temporary ones go to {temporary_folder()}: set TMPDIR to a folder with room"


def _local_dirs() -> str:
    named = os.environ.get("SPARK_LOCAL_DIRS")
    where = f"SPARK_LOCAL_DIRS ({named})" if named else "spark.local.dir, or TMPDIR where that is not set"
    return f"it can make no folder in {where}: name one that it can write to"


def _java() -> str:
    return f"it needs Java 17 or newer: {GET_JAVA}"


def _no_java() -> str:
    home = os.environ.get("JAVA_HOME")
    what = f"{_java_of(home)}, of JAVA_HOME," if home else f"{shutil.which('java')}, the java of the PATH,"
    return f"it needs Java 17 or newer, and {what} does not run programs: {GET_JAVA}"


def _options() -> str:
    return "its Java does not take an option that it is given"


_LAUNCHER_SAID_NOTHING = r".*line \d+: CMD: bad array subscript\s*"
"""The words of Spark's script where Java did not run its launcher. Java's own words are before them."""

_CAUSES = (
    (r"Too many open files", _open_files),
    (r"unable to create (new )?native thread|pthread_create failed|fork: ", _threads),
    (
        r"Could not reserve|insufficient memory|Cannot allocate memory|os::commit_memory|OutOfMemoryError|"
        r"Failed to (map|reserve|commit)|errno[=: ]*12\b",
        _memory,
    ),
    (r"Failed to create any local dir", _local_dirs),
    (r"Read-only file system|No space left on device|Failed to create (a )?(temp|local)|Disk quota exceeded", _folder),
    (
        r"UnsupportedClassVersion|class file version|JAVA_HOME is not set|not find libj|Unable to locate a Java",
        _java,
    ),
    (r"Unrecognized (VM )?option|Invalid (maximum|initial) heap|Too small (maximum|initial) heap", _options),
    (r"Could not find agent library|Error opening zip file or JAR manifest|Improperly specified VM option", _options),
    (r"Conflicting .*collector combinations", _options),
)


def _from_variables(text: str) -> str:
    """The variables whose options Java took, without their values, which may hold secrets."""
    names = dict.fromkeys(re.findall(r"Picked up (\w+):", text))
    return f"; it has options from {' and '.join(names)}: correct or unset them" if names else ""


def cause(said: Sequence[str], code: int | None) -> str:
    """Return why a JVM is missing, given its output and its exit code."""
    text = "".join(said)
    for pattern, told in _CAUSES:
        if found := re.search(f".*({pattern}).*", text):
            return f"{told()}{_from_variables(text)}. It said: {found[0].strip()[:_SHOWN]}"
    if found := re.search(_LAUNCHER_SAID_NOTHING, text):
        before = text[: found.start()].strip().splitlines()
        return f"{_no_java()}. " + (f"It said: {before[-1].strip()[:_SHOWN]}" if before else "It said nothing")
    if limit_of(resource.RLIMIT_AS) is not None:
        return _memory()
    if (files := limit_of(resource.RLIMIT_NOFILE)) is not None and files < OPEN_FILES // 2:
        return _open_files()
    kept = [line for line in said if not re.match(r"(NOTE: )?Picked up \w+:", line)]
    lines = [line.strip() for line in kept if line.strip() and not line.startswith(("\t", " "))]
    at = next((at for at, line in enumerate(lines) if re.search("Exception|Error|error", line)), len(lines) - 1)
    telling = lines[at] if lines else ""
    causes = [line for line in lines if line.startswith("Caused by: ")]
    if telling.startswith("Exception in thread") and causes:  # the last one is where it began
        telling = causes[-1]
    if telling.startswith("Error occurred during initialization") and at + 1 < len(lines):  # the next line says which
        telling += f": {lines[at + 1]}"
    how = "" if code is None else f"its JVM ended with code {code}. "
    what = f"It said: {telling[:_SHOWN]}. " if telling else "It said nothing. "
    variables = _from_variables(text).removeprefix("; it")
    what += f"It{variables}. " if variables else ""
    return f"{how}{what}`penstock doctor` looks at Java, folders and limits"
