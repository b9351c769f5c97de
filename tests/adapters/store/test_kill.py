"""A process that is killed at any moment leaves what it promised, and nothing by halves."""

import random
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path

from autoscaler.persistence.store import SqliteHistoryStore
from tests.adapters.store.histories import decided_at, nth
from tests.adapters.store.opening import PATIENT, Sayings, Time, give_up

KILLS, TARGETS = 10, 40
NOTED = 5
"""The number of targets that write at every sync."""


def kill_while_it_keeps(directory: Path, begin: int, delay: float) -> tuple[int, int]:
    """Run a process that keeps sync after sync, and kill it; return the last two numbers it said.

    The one was promised, the other begun.
    """
    with subprocess.Popen(
        [sys.executable, "-m", __name__, str(directory), str(begin)],
        stdout=subprocess.PIPE,
        text=True,
    ) as victim:
        assert victim.stdout is not None
        first = [victim.stdout.readline() for _ in range(2)]
        timer = threading.Timer(delay, victim.kill)
        timer.start()
        said = [line.split() for line in (*first, *victim.stdout) if line.endswith("\n")]
        timer.join()
    numbers = {word: int(number) for word, number in said}
    return numbers["promised"], numbers["begun"]


def test_stored_writes_survive_a_kill(tmp_path: Path) -> None:
    """Killed again and again, on what the one before left: all targets are of the same sync.

    It is the last that was promised, or one that was handed in after it.
    """
    chance = random.Random()  # noqa: S311 - any moment does
    begin = 1
    for _ in range(KILLS):
        promised, begun = kill_while_it_keeps(tmp_path, begin, chance.uniform(0, 0.15))
        sayings = Sayings()
        store = SqliteHistoryStore(tmp_path, sayings, Time().clocks, PATIENT)
        found = store.start().histories
        store.close()
        assert sayings.states == [True], sayings.all
        number = found["0"].desired_replicas
        assert begin <= promised <= number <= begun <= promised + 1
        states = [nth(number), nth(number, pending=True)]
        assert all(value in states[:1] for key, value in found.items() if int(key) >= NOTED)
        assert all(history in states for history in found.values())
        if number == promised:
            assert [found[str(number)] for number in range(NOTED)] == [states[1]] * NOTED
        assert len(found) == TARGETS
        begin = begun + 1


def main(directory: Path, begin: int) -> None:
    """Keep syncs until it is killed: print each number before, and once a target is promised."""
    store = SqliteHistoryStore(directory, give_up, Time().clocks, PATIENT)
    store.start()
    made = decided_at(1)
    for number in count(begin):
        print("begun", number, flush=True)
        store.keep([(str(target), nth(number), made) for target in range(TARGETS)])
        for promise in [
            store.intend(str(target), nth(number, pending=True)) for target in range(NOTED)
        ]:
            promise.result()
        print("promised", number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
