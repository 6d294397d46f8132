"""Options and argument types that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.errors import ConfigError
from penstock.files.locations import folder, log_place
from penstock.log.base import Log
from penstock.log.cluster import SCHEME
from penstock.log.contract.topics import NO_LIMIT
from penstock.log.open import open_log
from penstock.settings import Settings
from penstock.usage.setting_names import meant

if TYPE_CHECKING:
    from penstock.query.application import ApplicationStores

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

TYPES = click.Choice(["str", "int", "float", "bytes", "json"])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


class LogPlace(click.ParamType):  # type: ignore[type-arg]
    """A folder, or the URL of a Kafka cluster."""

    name = "place"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Path | str:
        return _judged(self, value, log_place, parameter, context)


class LocalPath(click.Path):
    """A file or a folder of this machine."""

    def __init__(self, **options: Any):
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        return super().convert(_judged(self, value, folder, parameter, context), parameter, context)


def _judged(type_: Any, value: Any, judge: Callable[[object, str], T], *where: Any) -> T:
    """Return the path or URL, or fail with an error that names the parameter."""
    try:
        return judge(value, "")
    except ConfigError as error:
        told = str(error).removeprefix(": ")
    raise type_.fail(told, *where)


log_option = click.option(
    "--log",
    "--log-dir",
    "log_dir",
    type=LogPlace(),
    metavar="FOLDER|kafka://HOST:PORT",
    help="The place of the topics. [default: the setting log or log_dir, else .penstock/log]",
)


def program_settings_options(function: F) -> F:
    """Add the options for settings of a program's behaviour, and ``--set`` for all others."""
    for option in (
        click.option(
            "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Set any setting; `penstock config` lists them."
        ),
        click.option(
            "--config",
            "config_file",
            envvar="PENSTOCK_CONFIG",
            type=LocalPath(exists=True, dir_okay=False),
            help="A file with settings. [default: penstock.toml and pyproject.toml]",
        ),
        click.option("--on-error", metavar="fail|skip|dead_letter:TOPIC", help="What to do with a record that fails."),
        log_option,
    ):
        function = option(function)
    return function


def settings_options(function: F) -> F:
    """Add the options that name the program's application and the place of its state."""
    for option in (
        click.option("--checkpoint", metavar="URL", help="The place of the checkpoint: a folder or an object store."),
        click.option("--state-dir", type=LocalPath(), help="The folder of the application's state."),
    ):
        function = option(function)
    return program_settings_options(function)


def load_settings(pairs: tuple[str, ...], config_file: Path | None, **options: Any) -> Settings:
    """Return the settings of ``settings_options``, the environment and the files.

    Raises:
        click.UsageError: the command line is wrong.
        ConfigError: the environment or a file is wrong.
    """
    log = log_settings(options.pop("log_dir", None))
    given = {**options, **log, **dict(map(_setting, pairs))}
    Settings.load(config_file=config_file)
    try:
        return Settings.load(config_file=config_file, **given)
    except ConfigError as error:
        raise click.UsageError(str(error).replace(" (keyword)", "")) from None


def _setting(pair: str) -> tuple[str, str]:
    """Return the name and the value in NAME=VALUE."""
    known = [item.name for item in fields(Settings) if item.name != "origins"]
    name, equals, value = pair.partition("=")
    name = name.strip().replace("-", "_")
    if not equals:
        raise click.BadParameter(f"write it like --set chunk_records=1000; got {pair!r}", param_hint="'--set'")
    if name not in known:
        raise click.BadParameter(f"there is no setting {name!r}{meant(name, known)}", param_hint="'--set'")
    return name, value.strip()


def log_settings(place: Path | str | None) -> dict[str, Any]:
    """Return the settings that say where the topics are."""
    if place is None:
        return {}
    return {"log": place} if isinstance(place, str) else {"log": str(place), "log_dir": place}


def open_file_log(place: Path | str | None) -> Log:
    """Return the log in a folder or of a cluster, by default that of the settings."""
    return open_log(Settings.load(**log_settings(place)).topics_in)


def log_of(stores: ApplicationStores, log_dir: Path | str | None) -> Log:
    """Return the log: the given one, else the one that the application's last start used."""
    start = stores.commits.start_of(stores.commits.newest())
    written = "" if start is None or start.picture is None else start.picture.log
    if log_dir is None and (written.startswith(SCHEME) or Path(written).is_dir()):
        said = Settings.load().topics_in  # a cluster's options are not written down
        return open_log(said if str(said).startswith(SCHEME) else written)
    return open_file_log(log_dir)


def complete_topic(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics whose names begin so, for the shell's completion."""
    names = open_file_log(context.params.get("log_dir")).topics()
    return [name for name in names if name.startswith(incomplete)]


def read_by(
    read: Callable[[str], int], no_limit: str | None = None
) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    """Return an option's callback that parses a duration or a size, or a word for no limit."""

    def callback(_: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
        if value is None:
            return None
        if value == no_limit:
            return NO_LIMIT
        try:
            amount = read(value)
        except ConfigError as error:
            raise click.BadParameter(str(error)) from None
        if amount < 0:
            raise click.BadParameter(f"it must not be negative, got {value!r}")
        return amount

    return callback
