"""What a JVM needs of the machine it starts on, and why one does not start: Java itself is one reason of many."""

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
"""So many files a JVM of Spark's may have to open, with room to spare; it does not start with some 256."""
_SHOWN = 300
_SOCKET_NAME = 50
"""Characters of the name of a socket that Spark makes in the folder for temporary files."""
_MOST_OF_A_SOCKET = 107
"""Characters that the path of a socket may have."""

GET_JAVA = (
    "install one (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) or point "
    "JAVA_HOME at it"
)


def check_java() -> None:
    """Raise ``ConfigError`` when there is no Java at all."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which(str(Path(home, "bin", "java")) if home else "java") is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is none on the PATH"
        raise ConfigError(f"Spark did not start: it needs Java 17 or newer, and {where}: {GET_JAVA}")


def temporary_folder() -> Path:
    """Where temporary files go, of this process and of its JVM.

    Raises:
        ConfigError: no folder for them can be written.
    """
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no folder for temporary files that can be written ({error.strerror}): set TMPDIR to one"
        ) from None


def options_of_temporary_folder() -> dict[str, str]:
    """Spark's options by which a JVM uses it, too."""
    folder = temporary_folder()
    if "java.io.tmpdir" in os.environ.get("JAVA_TOOL_OPTIONS", ""):  # the user's own word
        return {}
    fits = len(str(folder)) + _SOCKET_NAME <= _MOST_OF_A_SOCKET
    return {} if fits else {"spark.python.unix.domain.socket.enabled": "false"}


def java_option(option: str, value: object) -> str:
    """An option of a JVM's as Spark's own options have it, whatever characters its value has.

    >>> print(java_option("-Dname=", 'a "b" c'))
    -Dname="a \\"b\\" c"
    """
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'{option}"{escaped}"'


def allow_open_files() -> None:
    """Have this process, and the JVM that it starts, open as many files as the JVM needs, if the system allows it."""
    most, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if allowed == resource.RLIM_INFINITY else min(OPEN_FILES, allowed)
    if most != resource.RLIM_INFINITY and most < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, allowed))


def limit_of(kind: int) -> int | None:
    """A limit of this process; None where there is none."""
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


def _java() -> str:
    return f"it needs Java 17 or newer: {GET_JAVA}"


_CAUSES = (
    (r"Too many open files", _open_files),
    (r"unable to create (new )?native thread|pthread_create failed|fork: ", _threads),
    (
        r"Could not reserve|insufficient memory|Cannot allocate memory|os::commit_memory|OutOfMemoryError|"
        r"Failed to (map|reserve|commit)|errno[=: ]*12\b",
        _memory,
    ),
    (r"Read-only file system|No space left on device|Failed to create (a )?(temp|local)|Disk quota exceeded", _folder),
    (
        r"UnsupportedClassVersion|class file version|JAVA_HOME is not set|not find libj|Unable to locate a Java",
        _java,
    ),
)


def cause(said: Sequence[str], code: int | None) -> str:
    """Why a JVM is not there, by what it said, and with which code it ended."""
    text = "".join(said)
    for pattern, told in _CAUSES:
        if found := re.search(f".*({pattern}).*", text):
            return f"{told()}. It said: {found[0].strip()[:_SHOWN]}"
    if limit_of(resource.RLIMIT_AS) is not None:
        return _memory()
    if (files := limit_of(resource.RLIMIT_NOFILE)) is not None and files < OPEN_FILES // 2:
        return _open_files()
    lines = [line.strip() for line in said if line.strip() and not line.startswith(("\t", " "))]
    telling = next((line for line in lines if re.search("Exception|Error|error", line)), lines[-1] if lines else "")
    how = "" if code is None else f"its JVM ended with code {code}. "
    what = f"It said: {telling[:_SHOWN]}. " if telling else "It said nothing. "
    return f"{how}{what}`penstock doctor` looks at Java, folders and limits"
