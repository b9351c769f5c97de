"""`python -m tests.adapters.store.victim DIRECTORY BEGIN`: keeps syncs until it is killed.

Prints the number of each sync before it is handed in, and again once a target of it is promised.
"""

import os
import sys
from itertools import count
from pathlib import Path

from autoscaler.adapters.store import SqliteHistoryStore
from tests.adapters.store.histories import decided_at, nth
from tests.adapters.store.opening import PATIENT, Time

TARGETS = 40
NOTED = 5
"""So many targets write at every sync."""


def main(directory: Path, begin: int) -> None:
    """Sync on and on."""

    def give_up(ok: bool, sentence: str) -> None:  # noqa: FBT001 - the store's callback
        if not ok:
            print(sentence, file=sys.stderr, flush=True)
            os._exit(1)

    store = SqliteHistoryStore(directory, give_up, Time().clocks, PATIENT)
    store.start()
    made = decided_at(1)
    for number in count(begin):
        print("begun", number, flush=True)
        store.keep([(str(target), nth(number), made) for target in range(TARGETS)])
        for promise in [store.intend(str(one), nth(number, pending=True)) for one in range(NOTED)]:
            promise.result()
        print("promised", number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
