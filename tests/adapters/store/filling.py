"""`python -m tests.adapters.store.filling DIRECTORY`: keeps state while a disk is full.

The disk is DIRECTORY's file system if that is a small one of its own, else files may not grow
beyond a limit.  Prints nothing, and raises where something is not as it should be.
"""

import resource
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.adapters.store.histories import decided_at, nth
from tests.adapters.store.opening import LONG, RETRYING, Sayings, kept_in, running

SMALL = 64 * 1024 * 1024
TARGETS = 1500


@contextmanager
def full(directory: Path) -> Iterator[str]:
    """Leave no room for files to grow; gives what SQLite says of it."""
    usage = shutil.disk_usage(directory)
    if usage.total < SMALL:
        filler = directory / "filler"
        with filler.open("wb", buffering=0) as file:
            block = bytes(usage.total)
            while block:
                try:
                    file.write(block)
                except OSError:
                    block = block[: len(block) // 2]
        yield "database or disk is full"
        filler.unlink()
    else:
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, most))
        yield "disk I/O error"
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def main(directory: Path) -> None:
    """Go through it, while the store runs and while it begins."""
    sayings = Sayings()
    histories = {str(one): nth(one) for one in range(TARGETS)}
    with running(directory, sayings, timeouts=RETRYING) as (store, _):
        store.intend("0", nth(7)).result(LONG)
        with full(directory) as words:
            store.keep([(key, one, decided_at(1)) for key, one in histories.items()])
            sentence = sayings.wait(ok=False)
            assert words in sentence, sentence
            assert "kept in memory only" in sentence
            for number in range(5):
                store.intend("0", nth(number)).result(LONG)
            store.intend("0", nth(0)).result(LONG)
        store.intend("more", nth(9)).result(LONG)
        sayings.wait(ok=True)
    assert sayings.states == [True, False, True], sayings.all
    assert kept_in(directory) == histories | {"more": nth(9)}
    begin_on_a_full_disk(directory / "later")


def begin_on_a_full_disk(directory: Path) -> None:
    """Go on from memory until there is room."""
    directory.mkdir()
    sayings, filled = Sayings(), ExitStack()
    histories = {str(one): nth(one) for one in range(TARGETS)}
    filled.enter_context(full(directory))
    with running(directory, sayings, timeouts=RETRYING) as (store, _):
        store.keep([(key, one, decided_at(1)) for key, one in histories.items()])
        store.intend("more", nth(9)).result(LONG)
        sayings.wait(ok=False)
        filled.close()
        store.intend("more", nth(10)).result(LONG)
        sayings.wait(ok=True)
    assert kept_in(directory) == histories | {"more": nth(10)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
