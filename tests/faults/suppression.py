"""The program of ``program.py`` with another topology: final results of windows, spilling to disk, and of sessions.

python suppression.py FOLDER --local   process the input of ``program.py --fill`` without Spark
python suppression.py FOLDER --spark   process it on Spark
"""

from __future__ import annotations

import sys
from pathlib import Path

import program

from penstock import BufferConfig, SessionWindows, StreamsBuilder, Suppressed, TimeWindows, Topology

SIZE, GRACE = 1_000, 2_000


def topology() -> Topology:
    """Final counts by user in windows of a second, and in sessions."""
    builder = StreamsBuilder()
    clicks = builder.stream(program.INPUT, key=str, value=dict).group_by_key()
    spills = BufferConfig.max_records(50).spill_to_disk_when_full()
    windows = clicks.windowed_by(TimeWindows.of_size_and_grace(SIZE, GRACE)).count("windows")
    windows.suppress(Suppressed.until_window_closes(spills).with_name("final")).to_stream().to("windows-out")
    sessions = clicks.windowed_by(SessionWindows.of_inactivity_gap_and_grace(300, GRACE)).count("sessions")
    sessions.suppress(Suppressed.until_window_closes().with_name("ended")).to_stream().to("sessions-out")
    return builder.build()


if __name__ == "__main__":
    program.MODES[sys.argv[2]](Path(sys.argv[1]), topology())
