"""``penstock chaos``: runs a program over a copy of its own input while parts of it are killed."""

from __future__ import annotations

import random
import shlex
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.cli import trial
from penstock.cli.command import Command
from penstock.cli.options import LocalPath, load_settings, program_settings_options
from penstock.cli.program import PROGRAM_HELP, load_program, program_argument
from penstock.cli.terminal import count, say, stderr
from penstock.engine.running.engine import choice_of
from penstock.errors import ConfigError
from penstock.faults import LOG_POINTS, POINTS, START_POINTS
from penstock.log.open import open_log
from penstock.settings import Settings
from penstock.testing.chaos.outcome import differences
from penstock.testing.chaos.recorded import OWN_PLACES, SIZES, Recorded
from penstock.testing.chaos.round import Round, Tally
from penstock.testing.chaos.rounds import RoundFailedError, Teller
from penstock.testing.chaos.rounds import chaos as rounds_of_chaos
from penstock.testing.chaos.subject import ChaosError

_RECORDS = 50_000
_FAILED, _ABORTED = 1, 130
_ALL_POINTS = len(POINTS + START_POINTS + LOG_POINTS)


@click.command(cls=Command, epilog=PROGRAM_HELP)
@program_argument
@click.option(
    "--kills", type=click.IntRange(min=1), default=200, show_default=True, help="How many times to kill the program."
)
@click.option("--seed", type=int, help="The seed of the random disturbances. [default: a new one each time]")
@click.option(
    "--round",
    "only",
    type=click.IntRange(min=1),
    help="Run only this round. The message of a failed round gives its number.",
)
@click.option("--local", is_flag=True, help="Run everything in one process, with many more kills in the same time.")
@click.option(
    "--records", type=click.IntRange(min=0), default=_RECORDS, show_default=True,
    help="How many records of the input to copy; 0 for all.",
)  # fmt: skip
@click.option(
    "--folder", type=LocalPath(file_okay=False), help="The folder for copies and state. [default: a temporary folder]"
)
@program_settings_options
@click.pass_context
def chaos(
    context: click.Context,
    /,
    program: str,
    kills: int,
    seed: int | None,
    only: int | None,
    local: bool,
    records: int,
    folder: Path | None,
    **options: Any,
) -> None:
    """Check that a program loses no record when it is killed.

    The command copies the records of the source topics into a separate folder (those of a Kafka cluster, too), and runs
    the program there. Meanwhile it kills the driver, the JVM or slots at random, or all of them between two steps of a
    commit. It also fills the disk, damages files that are not committed, and lets a second program take over. At the
    end of each round, it compares the outputs, record for record, and the stores with those of an undisturbed run. Your
    topics and state stay untouched. If Spark or Java is missing, the program runs without them.

    The exit code is 0 if everything is equal, and 1 if something differs. The command then shows the seed, the
    disturbances, the folder, and the command that repeats this round.

    \b
    Examples:
      penstock chaos app.py:topology --kills 200 --seed 7
      penstock chaos app.py --local --kills 1000 --records 10000
    """
    settings = load_settings(**options)
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    mode = "local" if local else _mode(settings)
    work = Path(tempfile.mkdtemp(prefix="penstock-chaos-")) if folder is None else folder.resolve()
    subject = Recorded(
        Path(trial.__file__), program, load_program(program), open_log(settings.topics_in), records or None, mode,
        **_chosen(settings),
    )  # fmt: skip
    ctrl_c = _CtrlC()
    teller = _Teller(kills, ctrl_c)
    try:
        with ctrl_c, teller:
            _run_undisturbed(subject, work, mode, teller)
            teller.say(f"seed {seed}, in {work}")
            tally = rounds_of_chaos([subject], kills, seed, [mode], work, teller, only)
    except RoundFailedError as failure:
        _tell_of(failure, work, shlex.join(["penstock", "chaos", *_again(context, failure)]))
        context.exit(_FAILED)
    except ChaosError as error:
        raise ConfigError(str(error)) from None
    except KeyboardInterrupt:
        say(f"Stopped after {count(teller.done.kills, 'kill')}, and no difference so far; no process is left.")
        context.exit(_ABORTED)
    if folder is None:
        shutil.rmtree(work, ignore_errors=True)
    _tell_of_success(tally, seed)


def _mode(settings: Settings) -> str:
    """Return in which processes the program runs: on Spark, or without it as slots of this machine."""
    choice = choice_of(settings, None)
    if choice.name != "local":
        return "spark"
    say(choice.said)
    return "slots"


def _chosen(settings: Settings) -> dict[str, Any]:
    """Return the settings that differ from the defaults. Sizes only if the command line sets them: others suit larger
    inputs.
    """
    origins = {name: origin for name, origin in settings.origins.items() if name not in OWN_PLACES}
    return {name: getattr(settings, name) for name in origins if name not in SIZES or origins[name] == "keyword"}


def _run_undisturbed(subject: Recorded, work: Path, mode: str, teller: _Teller) -> None:
    """Run the program twice without disturbing it. Differences between the two runs are not compared later.

    Raises:
        ConfigError: nothing is the same in both.
    """
    base = work / subject.name
    shutil.rmtree(base, ignore_errors=True)
    subject.base = base / "base"
    subject.prepare(subject.base)
    copied = ", ".join(f"{records:,} of {topic}" for topic, records in subject.copied.items())
    teller.say(f"copied {copied}")
    teller.doing("running it undisturbed")
    subject.expected = subject.undisturbed(base / "undisturbed", "local", is_forked=False)
    again = subject.undisturbed(base / "again", mode, is_forked=False)
    differing = differences(again, subject.expected)
    for name, how in differing.items():
        teller.say(f"{name} differs though nothing was killed, and is not compared: {how}")
    if differing:
        teller.say("What a program puts out depends on its input alone, unless its functions use the time, random "
                   "numbers, the order of a set, or something outside.")  # fmt: skip
    subject.leave_out(differing)
    if not subject.compared:
        raise ConfigError(
            "nothing of the program comes out the same twice, so there is nothing to compare; have its functions use "
            "their input alone"
        )


def _again(context: click.Context, failure: RoundFailedError) -> list[str]:
    """Return the arguments of this command that repeat a round."""
    given = {**context.params, "seed": failure.seed, "only": failure.number, "folder": None}
    arguments = [given.pop("program")]
    for parameter in context.command.params:
        value = given.get(parameter.name or "")
        if value in (None, False, ()) or value == parameter.get_default(context):
            continue
        for one in value if isinstance(value, tuple) else (value,):
            arguments += [parameter.opts[-1]] if one is True else [parameter.opts[-1], str(one)]
    return arguments


def _tell_of(failure: RoundFailedError, work: Path, command: str) -> None:
    evidence = work / f"round-{failure.number}"
    (evidence / "chaos.txt").write_text(f"{failure}\n\n{command}\n")
    stderr().print(f"Error: {failure}", style="red", markup=False, highlight=False, soft_wrap=True)
    say(f"What is left of it: {evidence}")
    say(f"The undisturbed run: {work / failure.round.subject.name / 'undisturbed'}")
    say(f"To do this round again: {command}")


def _tell_of_success(tally: Tally, seed: int) -> None:
    killed = ", ".join(f"{what} {number}" for what, number in tally.killed.most_common())
    others = f"{count(tally.full, 'full disk')} and {count(tally.torn, 'torn file')}"
    say(
        f"{count(tally.kills, 'kill')} ({killed}), {others}, at {len(tally.points)} of {_ALL_POINTS} named points: "
        f"outputs and state are those of the undisturbed run. Seed {seed}."
    )


class _CtrlC:
    """Ends all processes on Ctrl-C, and on SIGTERM. Python loses the exception if it comes while an object is
    destroyed, so the request is remembered.
    """

    def __init__(self) -> None:
        self._was_asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _CtrlC:
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: object) -> None:
        self._was_asked = True
        self.check()

    def check(self) -> None:
        """Raise ``KeyboardInterrupt`` if an end was requested."""
        if self._was_asked:
            raise KeyboardInterrupt


class _Teller(Teller):
    """A bar on a terminal, and a line for each round."""

    def __init__(self, kills: int, ctrl_c: _CtrlC):
        self.done = Tally()
        self._ctrl_c = ctrl_c
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("kills"),
            TimeElapsedColumn(), console=stderr(), transient=True, disable=not stderr().is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=kills)

    def __enter__(self) -> _Teller:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def doing(self, what: str) -> None:
        self._bar.update(self._task, description=what)

    def event(self, tally: Tally, round_: Round) -> None:
        self.done = tally
        self._ctrl_c.check()
        kills, points = tally.kills + round_.done.kills, len(tally.points | round_.done.points)
        what = f"{points} of {_ALL_POINTS} points · {round_.events[-1][:40]}"
        self._bar.update(self._task, completed=kills, description=what)

    def say(self, text: str) -> None:
        self._ctrl_c.check()
        self._bar.console.print(text, markup=False, soft_wrap=True)
