"""`python -m tests.adapters.record.filling DIRECTORY`: records while a disk is full.

Prints nothing, and raises where something is not as it should be.
"""

import random
import sys
from pathlib import Path

from autoscaler.persistence.record import DirectoryRecord
from tests.adapters.record.recording import (
    WEB,
    Time,
    decided,
    plain,
    running,
    values,
    wait_recorded,
)
from tests.adapters.store.filling import full
from tests.adapters.store.opening import Sayings
from tests.core.builders import BASE


def main(directory: Path) -> None:
    """Record before it is full, meanwhile, and afterwards."""
    heard, time, chance = Sayings(), Time(), random.Random(1)  # noqa: S311 - no secret
    with running(directory, heard, time=time) as writer:
        writer.put(decided())
        heard.wait(ok=True)
        wait_recorded(directory)
        with full(directory) as words:
            time.now = BASE + 15 * 2000
            for number in range(1, 2000):
                numbers = tuple(chance.randrange(10**15) for _ in range(60))
                writer.put(plain(15.0 * number, 0)._replace(numbers=numbers))
            sentence = heard.wait(ok=False)
            assert words in sentence, sentence
            assert "nothing is recorded until it can be" in sentence
            while not writer.status.dropped:
                writer.put(plain(15.0 * 2000, 0))
        heard.wait(ok=True)
        time.now = BASE + 15 * 3000
        writer.put(decided(seconds=15 * 3000))
    record = DirectoryRecord(directory)
    assert record.lapses(WEB, BASE, BASE + 15 * 3000)[-1].end == BASE + 15 * 2000
    assert values(record, 15 * 2500, 15 * 2600) == []
    assert values(record, 15 * 2990, 15 * 3001) == [(15 * 3000, 10_000)]
    assert [one.time - BASE for one in record.changes(None, 0, 2e12, limit=9)] == [45_000, 0]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
