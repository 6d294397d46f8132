"""What is measured of a command, and what becomes of one that fails."""

import sys

import pytest
from bench.helper import Helper
from bench.measure import RunError, run

BUSY = "import time\nwhile time.process_time() < 0.8: pass\n"
WAIT = "import time\ntime.sleep(1.5)"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"


def python(code):
    return [sys.executable, "-c", code]


def test_the_cpu_and_the_memory_of_children_count():
    cost = run(python(f"{CHILD}\nblock = b'x' * (100 << 20)\n{WAIT}\nprint('{{\"ok\": true}}')"))

    assert cost.cpu >= 0.4  # what was used since the last look at a process is not seen
    assert cost.peak_private >= 100 << 20
    assert cost.said == {"ok": True}


def test_a_command_that_fails_says_why():
    with pytest.raises(RunError, match=r"(?s)ended with 3:.*no such record"):
        run(python("import sys; print('no such record', file=sys.stderr); sys.exit(3)"))


def test_a_command_that_hangs_is_killed_with_its_children():
    with pytest.raises(RunError, match=r"took more than 0\.5 s"):
        run(python("import subprocess; subprocess.run(['sleep', '1000'])"), timeout=0.5)


def test_a_helper_answers_until_it_ends():
    helper = Helper(["tests.bench.doubling"])
    try:
        assert [helper.ask(1), helper.ask(21)] == [2, 42]
        with pytest.raises(RunError, match=r"(?s)doubling ended:.*cannot be doubled"):
            helper.ask(None)
    finally:
        helper.end()
