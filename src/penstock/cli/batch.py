"""``penstock batch``: runs a program once over its present input, as a batch job on Spark, for schedulers."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.command import Command
from penstock.cli.options import json_option, load_settings, settings_options
from penstock.cli.program import PROGRAM_HELP, default_application_id, load_program, program_argument
from penstock.cli.terminal import count, say
from penstock.errors import ConfigError
from penstock.messages import nearest
from penstock.plan.topology import Topology
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.engine.batch.result import BatchResult

_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".orc": "orc"}

_OTHER_FILE_SYSTEMS = ("HADOOP_CONF_DIR", "SPARK_CONF_DIR")
"""Variables whose folders may give Spark another file system for plain paths."""


@click.command(cls=Command, epilog=PROGRAM_HELP)
@program_argument
@click.option(
    "--application-id", metavar="ID", help="The application whose next commit this batch is. [default: the file's name]"
)
@click.option(
    "--batch", "name", metavar="NAME", help="A name for the rows of --input. Rows with the same name count once."
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="TOPIC=PATH",
    help="Read files in place of a topic; each row is a record.",
)
@click.option(
    "--format", "format_", metavar="FORMAT", help="The format of the files. [default: by their names, or parquet]"
)
@click.option("--key", metavar="COLUMN", help="The column with the keys.")
@click.option("--value", metavar="COLUMN", help="The column with the values. [default: the whole row, as JSON]")
@click.option("--timestamp", metavar="COLUMN", help="The column with the times.")
@click.option(
    "--order",
    metavar="COLUMN[,COLUMN]",
    help="The columns that give the order of arrival: an offset, or partition and offset.",
)
@click.option("--partitions", type=click.IntRange(min=1), help="The number of partitions of new topics. [default: 8]")
@settings_options
@json_option
def batch(
    program: str,
    application_id: str | None,
    name: str | None,
    inputs: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Run a program once over all new records, as a Spark batch.

    The batch reads all records that came into the program's topics after the last commit, and the rows of the files
    that --input names. It makes one commit. Run it again to process later records. If you give files, give a name with
    --batch, too: if a scheduler repeats the job, rows with the same name still count once.

    \b
    Examples:
      penstock batch app.py
      penstock batch app.py --input orders=lake/2026-11-25.parquet --batch 2026-11-25 --key customer --timestamp at
    """
    settings = load_settings(**{name: options.pop(name) for name in _SETTINGS})
    topology = load_program(program)
    id_ = application_id or default_application_id(program)
    files = dict(map(_input, inputs))
    _check_inputs(files, topology)
    if not as_json:
        say("starting Spark ...")
    with _session(settings, id_) as spark:
        began = time.monotonic()
        frames = {topic: _read(spark, path, options["format_"]) for topic, path in files.items()}
        result = topology.run_batch(
            spark,
            frames,
            **(_columns(options) if frames else {}),
            application_id=id_,
            batch=name,
            partitions=options["partitions"],
            **{setting: getattr(settings, setting) for setting in settings.origins},
        )
        (_tell_json if as_json else _tell)(id_, name, result, time.monotonic() - began)


_SETTINGS = ("pairs", "config_file", "on_error", "log_dir", "checkpoint", "state_dir")


def _session(settings: Settings, application_id: str) -> Any:
    from penstock.engine.spark.session import session_for  # importing PySpark takes long

    return session_for(application_id, (settings.state_dir or Path(".penstock") / application_id) / "spark.log")


def _columns(options: dict[str, Any]) -> dict[str, Any]:
    order = options["order"]
    columns = {name: options[name] for name in ("key", "value", "timestamp")}
    return columns | {"order": order.split(",") if order and "," in order else order}


def _tell_json(id_: str, name: str | None, result: BatchResult, seconds: float) -> None:
    told = {"application_id": id_, "commit": result.commit, "batch": name, "is_repeated": result.is_repeated}
    figures = {"records": result.records, "seconds": round(seconds, 3)}
    click.echo(json.dumps({**told, **figures, "losses": [loss.to_dict() for loss in result.losses]}))


def _tell(id_: str, name: str | None, result: BatchResult, seconds: float) -> None:
    if result.is_repeated:
        say(f"{id_}: batch {name!r} counts already; nothing was done, the application is at commit {result.commit}")
        return
    if not result.records:
        say(f"{id_}: there is nothing new; the application is at commit {result.commit}")
        return
    say(f"{id_}: commit {result.commit}, {count(result.records, 'record')}, {seconds:.1f} s")
    for loss in result.losses:
        say(f"  {loss.described}")


def _input(given: str) -> tuple[str, str]:
    topic, equals, path = given.partition("=")
    if not equals or not topic or not path:
        raise _bad(f"write it like --input orders=lake/orders; got {given!r}")
    return topic, path


def _check_inputs(files: dict[str, str], topology: Topology) -> None:
    """Refuse before Spark starts, which takes seconds, what is certain to fail."""
    for topic, path in files.items():
        if not topology.has_patterns and topic not in topology.source_topics:
            raise _bad(
                f"the program does not read a topic {topic!r}{nearest(topic, topology.source_topics)}; it reads "
                f"{', '.join(topology.source_topics)}"
            )
        is_spark_asked = {*"*?[{:"} & {*path} or any(name in os.environ for name in _OTHER_FILE_SYSTEMS)
        if not is_spark_asked and not Path(path).exists():
            raise _bad(f"there is no file or folder {path} in {Path.cwd()}; give the path of the rows of {topic!r}")


def _bad(message: str) -> click.BadParameter:
    return click.BadParameter(message, param_hint="'--input'")


def _read(spark: Any, path: str, format_: str | None) -> Any:
    chosen = format_ or _FORMATS.get(Path(path).suffix.lower(), "parquet")
    reader = spark.read.format(chosen)
    if chosen == "csv":
        reader = reader.options(header="true", inferSchema="true")
    try:
        return reader.load(path)
    except Exception as error:
        raise ConfigError(
            f"--input: {path} cannot be read as {chosen}: {str(error).splitlines()[0]}; give its --format"
        ) from error
