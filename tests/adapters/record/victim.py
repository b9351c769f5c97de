"""`python -m tests.adapters.record.victim DIRECTORY BEGIN`: records on and on until it is killed.

It begins so many seconds after BASE.
"""

import os
import sys
import time
from itertools import count
from pathlib import Path

from autoscaler.persistence.record import RecordWriter
from tests.adapters.record.recording import QUICK, Time, decided, plain
from tests.core.builders import BASE


def main(directory: Path, begin: int) -> None:
    """Record a sync every few milliseconds."""

    def give_up(ok: bool, sentence: str) -> None:
        if not ok:
            print(sentence, file=sys.stderr, flush=True)
            os._exit(1)

    clock = Time()
    clock.now = BASE + begin
    writer = RecordWriter(directory, give_up, None, QUICK, wall=clock)
    writer.start()
    writer.put(decided(seconds=begin))
    for number in count(1):
        clock.now = BASE + begin + 15 * number
        writer.put(plain(begin + 15 * number, number))
        time.sleep(0.001)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
