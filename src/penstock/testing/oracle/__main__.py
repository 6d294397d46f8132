"""The command: run case files and say which fail."""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections import Counter
from pathlib import Path

from penstock.testing.oracle import chunks, driver
from penstock.testing.oracle.build import MissingOperator, missing_operators
from penstock.testing.oracle.functions import Spec
from penstock.testing.oracle.outcome import Runner, differences


def main(arguments: list[str] | None = None) -> int:
    """Run the cases; 0 when none failed."""
    options = _parser().parse_args(arguments)
    run = _runner(options)
    counts: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for path in _files(options.paths):
        case = json.loads(path.read_text())
        result, details = run_case(case, run)
        counts[result] += 1
        if result == "skipped":
            missing.update(missing_operators(case))
        elif result == "failed":
            print(f"FAILED {case['name']}: {details}", flush=True)
    for operator, cases in sorted(missing.items()):
        print(f"does not exist yet: {operator} ({cases} cases)")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


def run_case(case: Spec, run: Runner) -> tuple[str, str]:
    """``passed``, ``failed`` or ``skipped``, and in a line why it failed."""
    try:
        found = differences(case, run(case))
    except MissingOperator as error:
        return "skipped", str(error)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "failed", f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
    return ("failed", "; ".join(found)) if found else ("passed", "")


def _files(paths: list[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(path.glob("**/*.json"))
        else:
            files.append(path)
    cases = [file for file in files if file.name != "differences.json"]
    if not cases:
        sys.exit(f"no case files in {', '.join(map(str, paths))}")
    return cases


def _runner(options: argparse.Namespace) -> Runner:
    if options.spark:
        from penstock.testing.oracle.spark import SparkRunner

        return SparkRunner(options.partitions)
    return driver.run if options.chunks is None else chunks.runner(options.chunks)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m penstock.testing.oracle", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="case files, or folders of them")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--driver", action="store_true", help="one record at a time in the test driver (default)")
    mode.add_argument("--chunks", type=int, metavar="SEED", help="in the engine, the input cut at random from a seed")
    mode.add_argument("--spark", action="store_true", help="in the engine on Spark, over a file log")
    parser.add_argument("--partitions", type=int, default=1, help="of all topics, with --spark (default: 1)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
