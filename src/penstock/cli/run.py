"""``penstock run``: runs a program, on Spark or without it, from its start to a clean stop."""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from penstock.cli.access import Access, access, access_options, refuse_without_server
from penstock.cli.command import Command
from penstock.cli.live import TableDisplay
from penstock.cli.logs import json_line, log_as_json, log_format_option, logs_are_json
from penstock.cli.options import load_settings, settings_options
from penstock.cli.program import PROGRAM_HELP, default_application_id, load_program, program_argument, program_file
from penstock.cli.progress import Display, JsonDisplay, LineDisplay, LiveDisplay
from penstock.cli.results import log_option, say_where_results_are
from penstock.cli.terminal import count, say, stderr
from penstock.cli.ui import UI_PORT
from penstock.engine.shared.progress import Progress
from penstock.errors import ConfigError, PenstockError, SparkLostError
from penstock.log.open import open_log
from penstock.plan.topology import Topology
from penstock.query.guard import url_of
from penstock.query.server import PORT, keep_port
from penstock.values.durations import to_ms
from penstock.watch.server import check_installed

if TYPE_CHECKING:  # importing pyspark takes long
    from penstock.engine.running.streams import Streams

AVAILABLE_NOW = "available-now"
_LOOK_SECONDS = 0.1
_TERM_SECONDS = 5
"""How long a commit may take after SIGTERM."""
_END_SECONDS = 9
"""How long stopping may take in all: supervisors often kill ten seconds after SIGTERM."""
_ABORTED, _TERMINATED = 130, 143


@click.command(cls=Command, epilog=PROGRAM_HELP)
@program_argument
@click.option(
    "--application-id",
    metavar="ID",
    envvar="PENSTOCK_APPLICATION_ID",
    help="The application's id, under which its state is kept. [default: the file's name]",
)
@click.option(
    "--trigger",
    envvar="PENSTOCK_TRIGGER",
    help='"available-now", or the time between commits; instead of the setting commit_interval.',
)
@click.option(
    "--available-now",
    is_flag=True,
    envvar="PENSTOCK_AVAILABLE_NOW",
    help="Process all waiting records, then stop. The same as --trigger available-now.",
)
@click.option(
    "--slots",
    type=click.IntRange(min=1),
    envvar="PENSTOCK_SLOTS",
    help="How many processes work at once. [default: one for each free core]",
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "spark", "micro-batch", "local"]),
    help="spark: slots in one long Spark job; micro-batch: a short Spark job for each commit; local: processes on this "
    "machine, without Spark. [default: auto, which is spark if it is installed, else local]",
)
@click.option("--serve", is_flag=True, envvar="PENSTOCK_SERVE", help="Serve the state and /health over HTTP.")
@click.option("--serve-port", type=click.IntRange(0, 65535), help="Port of --serve; 0: any free one. [default: 8092]")
@click.option("--ui", "shows_page", is_flag=True, envvar="PENSTOCK_UI", help="Serve a web page; includes --serve.")
@click.option("--ui-port", type=click.IntRange(0, 65535), help="Port of --ui; 0: any free one. [default: 8093]")
@access_options
@click.option("--live", is_flag=True, envvar="PENSTOCK_LIVE", help="Show a table of all steps, updated at each commit.")
@click.option(
    "--rename",
    "renamed",
    multiple=True,
    metavar="OLD=NEW",
    envvar="PENSTOCK_RENAME",
    help="Keep the state of a store whose name has changed.",
)
@click.option(
    "--drop",
    "dropped",
    multiple=True,
    metavar="NAME",
    envvar="PENSTOCK_DROP",
    help="Discard the state of a store or topic that the program no longer has.",
)
@log_format_option
@settings_options
@click.option("--json", "as_json", is_flag=True, envvar="PENSTOCK_JSON", help="Print JSON, one object a line.")
def run(
    program: str,
    application_id: str | None,
    trigger: str | None,
    available_now: bool,
    slots: int | None,
    serve: bool,
    serve_port: int | None,
    shows_page: bool,
    ui_port: int | None,
    live: bool,
    renamed: tuple[str, ...],
    dropped: tuple[str, ...],
    log_format: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a program.

    The program runs on Spark if PySpark and Java are installed, and in processes on this machine otherwise. The first
    line of the output says which, and why.

    The program runs until Ctrl-C. With --available-now, it stops when it has processed all waiting records.

    Ctrl-C and SIGTERM stop the program after the current commit, and the next start continues from there. A second
    Ctrl-C ends it at once. After SIGTERM, the commit has five seconds to finish, and the program ends after nine
    seconds at the latest. Nothing is lost: the next start makes an unfinished commit again.

    With --ui or --serve, the program answers only this machine. To let others in, set --host, and a token. Environment
    variables can replace the options: PENSTOCK_APPLICATION_ID, PENSTOCK_ENGINE, PENSTOCK_SLOTS, PENSTOCK_TRIGGER,
    PENSTOCK_AVAILABLE_NOW, PENSTOCK_LIVE, PENSTOCK_RENAME, PENSTOCK_DROP, PENSTOCK_UI, PENSTOCK_UI_PORT,
    PENSTOCK_SERVE, PENSTOCK_SERVE_PORT, PENSTOCK_HOST, PENSTOCK_TOKEN_FILE, PENSTOCK_TOKEN, PENSTOCK_NO_TOKEN,
    PENSTOCK_CONFIG, PENSTOCK_JSON, PENSTOCK_LOG_FORMAT, and PENSTOCK_ with the name of any setting.

    \b
    Examples:
      penstock run app.py
      penstock run app.py:topology --available-now
      penstock run jobs.flights:late --application-id late --slots 2 --on-error dead_letter:failed
      penstock run app.py --engine local
      penstock run app.py --engine micro-batch --trigger "10 seconds"
      penstock run app.py --ui
      penstock run app.py --ui --host 0.0.0.0 --token-file token
      penstock run app.py --live
      penstock run app.py --rename counts=totals --drop seen
      penstock run app.py --set commit_max_bytes=50000000 --json | tee progress.ndjson
    """
    if available_now and trigger not in (None, AVAILABLE_NOW):
        raise click.UsageError(
            f"--available-now and --trigger {trigger!r} both say when the program ends; give one of them"
        )
    trigger = AVAILABLE_NOW if available_now else trigger
    if trigger not in (None, AVAILABLE_NOW):
        _check_trigger(trigger)
    answers = _Answers(
        _port(serve, serve_port, "PENSTOCK_SERVE_PORT", PORT),
        _port(shows_page, ui_port, "PENSTOCK_UI_PORT", UI_PORT),
        *(options.pop(name) for name in ("host", "token_file", "no_token")),
    )
    if not answers.are_wanted:
        refuse_without_server()
    settings = load_settings(**options)
    if log_format == "json":
        log_as_json()
    with Signals() as signals:
        topology = load_program(program)
        logging.getLogger("penstock.losses").addHandler(logging.NullHandler())  # the display shows them
        given = {"application_id": application_id, **options}
        running = _Run(signals, _display(as_json, trigger, live, log_format), answers, program, options["config_file"])
        try:
            streams = running.to_its_end(
                topology,
                application_id=application_id or default_application_id(program),
                rename=dict(map(_renaming, renamed)),
                drop=dropped,
                program=program_file(program, names_application=application_id is None),
                trigger=trigger,
                slots=slots,
                **{name: getattr(settings, name) for name in settings.origins},
            )
        except PenstockError:
            if running.streams is not None:
                _say_what_was_lost(running.streams, program, given)
            raise
        _say_how_it_ended(streams, signals.wants_stop)
        _say_what_was_lost(streams, program, given)
        say_where_results_are(streams)


def _port(is_wanted: bool, given: int | None, variable: str, usual: int) -> int | None:
    """Return the port to listen on: an option also enables the server, a variable only sets its port."""
    if given is not None or not is_wanted:
        return given
    text = os.environ.get(variable) or str(usual)
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 65535:
        raise click.UsageError(f"{variable} is a number from 0 to 65535, got {text!r}")
    return int(text)


class _Ports(NamedTuple):
    """The ports of a run's servers, reserved before Spark starts; None for a disabled server."""

    state: socket.socket | None
    page: socket.socket | None

    @classmethod
    def kept(cls, host: str, state: int | None, page: int | None) -> _Ports:
        """Reserve these ports; raises ``ConfigError`` if one is taken."""
        if state == page and state:
            raise ConfigError(f"--ui-port and --serve-port are both {state}: give another one of them")
        first = None if state is None else keep_port(host, state, "--serve-port")
        try:
            return cls(first, None if page is None else keep_port(host, page, "--ui-port"))
        except ConfigError:
            cls(first, None).close()
            raise

    def close(self) -> None:
        for one in self:
            if one is not None:
                one.close()


class _Answers:
    """The HTTP servers of a run, and their access rules. Problems are found before Spark starts.

    Args:
        state_port: the port for state; None to disable it.
        page_port: the port of the page.
    """

    def __init__(
        self, state_port: int | None, page_port: int | None, host: str, token_file: Path | None, no_token: bool
    ):
        self.access, self.ports = Access(host, None, no_token), _Ports(None, None)
        self.are_wanted = state_port is not None or page_port is not None
        if not self.are_wanted:
            return
        check_installed("the page" if page_port is not None else "serving state over HTTP")
        self.access = access(host, token_file, no_token)
        self.ports = _Ports.kept(host, state_port, page_port)

    @property
    def page(self) -> str:
        """The address of the page; empty without a page."""
        kept = self.ports.page
        return "" if kept is None else url_of(self.access.host, kept.getsockname()[1])


def _display(as_json: bool, trigger: str | None, live: bool, log_format: str) -> Display:
    at_the_end = "finishing" if trigger == AVAILABLE_NOW else "waiting for new records"
    if as_json:
        return JsonDisplay()
    if stderr().is_terminal and log_format == "text":
        return TableDisplay(at_the_end) if live else LiveDisplay(at_the_end)
    return LineDisplay()


def _renaming(pair: str) -> tuple[str, str]:
    """Return the two names in OLD=NEW."""
    old, equals, new = pair.partition("=")
    if not (old and equals and new):
        raise click.BadParameter(f"write it like --rename old=new; got {pair!r}", param_hint="'--rename'")
    return old, new


def _check_trigger(trigger: str) -> None:
    try:
        to_ms(trigger, "trigger")
    except ConfigError as error:
        raise click.BadParameter(f'{error}, or "available-now"', param_hint="'--trigger'") from None


class Signals:
    """Turns Ctrl-C and SIGTERM into a request to stop, and a second Ctrl-C into a request to end at once."""

    def __init__(self) -> None:
        self.wants_stop = False
        self.is_terminated = False
        """Whether it must stop soon (SIGTERM)."""
        self._before: dict[int, Any] = {}
        self._came: SimpleQueue[int] = SimpleQueue()

    def wait(self, seconds: float) -> None:
        """Wait so long, or until a signal comes."""
        with suppress(Empty):
            self._came.get(timeout=seconds)

    def __enter__(self) -> Signals:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        signal.alarm(0)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGALRM:
            _end_at_once(_TERMINATED)
        if self.wants_stop and number == signal.SIGINT:
            _end_at_once(_ABORTED)
        self.wants_stop = True
        if number == signal.SIGTERM and not self.is_terminated:
            self.is_terminated = True
            signal.alarm(_END_SECONDS)
        self._came.put(number)


def _end_at_once(code: int) -> None:
    show_cursor, said = "\x1b[?25h" if sys.stderr.isatty() else "", "Ended at once; everything committed is safe."
    line = json_line("WARNING", said) if logs_are_json() else f"{show_cursor}\n{said}"
    os.write(2, f"{line}\n".encode())
    os._exit(code)  # Spark's processes end when their pipe from this one breaks


class _Run:
    """One run of a program.

    Spark is started and stopped in another thread. Signals arrive in this one, which stays free to show progress;
    PySpark would replace our signal handler by its own.
    """

    def __init__(self, signals: Signals, display: Display, answers: _Answers, program: str, config: Path | None):
        self._answers = answers
        self._program, self._config = program, config
        self._signals = signals
        self._display = display
        self._commits: SimpleQueue[Progress] = SimpleQueue()
        self._states: SimpleQueue[str] = SimpleQueue()
        """The other thread's next steps, as messages."""
        self._is_stopping = False
        self._thread = ThreadPoolExecutor(1, "penstock-start-and-stop")
        self.streams: Streams | None = None
        """The program, once it runs; also after it has failed."""

    def to_its_end(self, topology: Topology, **arguments: Any) -> Streams:
        """Start, run until the program ends or is asked to, and stop.

        Raises:
            PenstockError: it did not start, or failed.
        """
        with closing(self._display), closing(self._answers.ports):
            return self._to_its_end(topology, arguments)

    def _to_its_end(self, topology: Topology, arguments: dict[str, Any]) -> Streams:
        starting = self._thread.submit(self._start, topology, arguments)
        while not starting.done():
            self._look()
        self.streams = streams = starting.result()
        try:
            if not self._signals.wants_stop:
                self._display.running(streams)
            with self._served(streams), self._shown(streams):
                while streams.is_active and not self._signals.wants_stop:
                    self._look()
        finally:
            self._stop(streams)
        self._look(0.0)
        try:
            streams.await_termination()  # it has ended; this raises its error, if it failed
        except SparkLostError:
            if not self._signals.is_terminated:  # supervisors end all processes of a program at once, including the JVM
                raise
        return streams

    @contextmanager
    def _served(self, streams: Streams) -> Iterator[None]:
        """Serve its state over HTTP meanwhile, if requested."""
        kept = self._answers.ports.state
        if kept is None:
            yield
            return
        from penstock.query.health import HealthCheck
        from penstock.query.server import Served, StateServer, app

        stores, at = streams.stores(), self._answers.access
        health = HealthCheck(stores, open_log(streams.log.place), lambda: streams.state.name)
        served = Served(app(stores, health))
        with StateServer(stores, at.host, served=served, token=at.token, is_open=at.is_open, kept=kept) as server:
            self._display.status(f"its state is at {server.url}/stores{at.told}")
            yield

    @contextmanager
    def _shown(self, streams: Streams) -> Iterator[None]:
        """Show it on a page meanwhile, if requested."""
        kept = self._answers.ports.page
        if kept is None:
            yield
            return
        from penstock.query.server import StateServer
        from penstock.watch.server import page_app
        from penstock.watch.why import Replays

        stores, at = streams.stores(), self._answers.access
        log = open_log(streams.log.place)  # a separate log: the other belongs to the committing thread
        replays = Replays(self._program, streams.settings.topics_in, self._config)
        page = page_app(stores, log, lambda: streams.state.name, replays, at.is_for_this_machine)
        with StateServer(stores, at.host, served=page, token=at.token, is_open=at.is_open, kept=kept) as server:
            say(f"It is shown at {server.url}{at.told}")
            yield

    def _start(self, topology: Topology, arguments: dict[str, Any]) -> Streams:
        from penstock.engine.running.start import start

        page = self._answers.page
        return start(topology, on_progress=self._commits.put, on_engine=self._states.put, page=page, **arguments)

    def _stop(self, streams: Streams) -> None:
        """After SIGTERM, give up a long commit: a process that does not end soon is killed."""
        stopping, gives_up = self._thread.submit(streams.stop), False
        while not stopping.done():
            if self._signals.is_terminated and not gives_up:
                gives_up = True
                streams.stop(_TERM_SECONDS * 1000)
            self._look()
        stopping.result()

    def _look(self, seconds: float = _LOOK_SECONDS) -> None:
        """Show the events since the last call, after some time."""
        self._signals.wait(seconds)
        while not self._states.empty():
            self._display.status(self._states.get())
        while not self._commits.empty():
            self._display.committed(self._commits.get())
        if self.streams is not None:
            self._display.restoring(self.streams.restores())
        if self._signals.wants_stop and not self._is_stopping:
            self._is_stopping = True
            self._display.status("stopping: the commit under way is finished first; Ctrl-C again ends at once ...")
        self._display.refresh()


def _say_how_it_ended(streams: Streams, was_stopped: bool) -> None:
    read = count(streams.last_progress.total_records if streams.last_progress else 0, "record")
    how = "Stopped" if was_stopped else "Done"
    say(f"{how}: {read} processed. The next start of {streams.application_id} continues from here.")


def _say_what_was_lost(streams: Streams, program: str, given: dict[str, Any]) -> None:
    """Print the records that were left out, why, and how to see more."""
    if streams.last_progress is None or not streams.last_progress.losses:
        return
    say("Left out on the way:")
    for loss in streams.last_progress.losses:
        say(f"  {loss.described}: {loss.why}")
    say("To see more:")
    say(f"  {shlex.join(['penstock', 'explain', program, '--losses', *_where_state_is(given)])}")
    for topic in streams.settings.dead_letters:
        say(f"  penstock topics cat {topic}{log_option(streams)}")


def _where_state_is(given: dict[str, Any]) -> list[str]:
    """Return the options of this command line that say where state is. The user has to add a URL, which may contain
    keys.
    """
    options = []
    for name, option in _STATE_OPTIONS.items():
        if given.get(name) is not None:
            text = str(given[name])
            options += [option, "URL" if "://" in text else text]
    return options


_STATE_OPTIONS = {
    "application_id": "--application-id",
    "state_dir": "--state-dir",
    "checkpoint": "--checkpoint",
    "config_file": "--config",
}
