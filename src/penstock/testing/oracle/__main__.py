"""The command that runs case files and prints the failed ones."""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections import Counter
from pathlib import Path

from penstock.testing.oracle import chunks, driver, halves
from penstock.testing.oracle.build import MissingOperator, missing_operators
from penstock.testing.oracle.decisions import FILE, Decisions
from penstock.testing.oracle.functions import CaseError, Spec
from penstock.testing.oracle.outcome import Runner


def main(arguments: list[str] | None = None) -> int:
    """Run the cases. Return 0 if none failed."""
    options = _parser().parse_args(arguments)
    cases = _cases(options.paths)
    run = _runner(options)
    counts: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    decided: list[str] = []
    for case, decisions in cases:
        result, details = run_case(case, run, decisions)
        counts[result] += 1
        if result == "passed" and decisions.comparison_of(case):
            decided.append(case["name"])
        if result == "skipped":
            missing.update(missing_operators(case))
        elif result == "failed":
            print(f"FAILED {case['name']}: {details}", flush=True)
    if decided:
        print(f"differ by decision, compared as {FILE} says: {', '.join(decided)}")
    for operator, number in sorted(missing.items()):
        print(f"does not exist yet: {operator} ({number} cases)")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


def run_case(case: Spec, run: Runner, decisions: Decisions) -> tuple[str, str]:
    """Return ``passed``, ``failed`` or ``skipped``, and a line with the reason for a failure."""
    try:
        outcome = run(case)
        found = decisions.differences(case, outcome)
        if not found and isinstance(run, chunks.Cut):
            found = run.shows(case, outcome)
    except MissingOperator as error:
        return "skipped", str(error)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "failed", f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
    return ("failed", "; ".join(found)) if found else ("passed", "")


def _cases(paths: list[Path]) -> list[tuple[Spec, Decisions]]:
    """Return the cases in files and folders, with the decisions about them; other files in a folder are ignored."""
    chosen: list[tuple[Spec, Path]] = []
    for path in paths:
        for file in sorted(path.glob("**/*.json")) if path.is_dir() else [path]:
            case = json.loads(file.read_text())
            if "topology" in case or file == path:
                chosen.append((case, file.parent))
    if not chosen:
        sys.exit(f"no case files in {', '.join(map(str, paths))}")
    try:
        decisions = {folder: Decisions.beside(folder) for folder in {folder for _, folder in chosen}}
    except CaseError as error:
        sys.exit(str(error))
    return [(case, decisions[folder]) for case, folder in chosen]


def _runner(options: argparse.Namespace) -> Runner:
    if options.spark:
        from penstock.testing.oracle.spark import SparkRunner

        return SparkRunner(options.partitions)
    if options.changed is not None:
        return halves.runner(options.changed)
    return driver.run if options.chunks is None else chunks.runner(options.chunks)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m penstock.testing.oracle", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="case files, or folders of them")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--driver", action="store_true", help="one record at a time in the test driver (default)")
    mode.add_argument("--chunks", type=int, metavar="SEED", help="in the engine, the input cut at random from a seed")
    mode.add_argument(
        "--changed", type=int, metavar="SEED", help="like --chunks, and the program changes in the middle"
    )
    mode.add_argument("--spark", action="store_true", help="in the engine on Spark, over a file log")
    parser.add_argument("--partitions", type=int, default=1, help="of all topics, with --spark (default: 1)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
