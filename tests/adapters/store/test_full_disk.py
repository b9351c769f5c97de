"""Store and record continue on a full disk, or with a limit on file sizes, and recover.

The disk is the directory's file system if that is a small one of its own, else files may not grow
beyond a limit: in a process of its own.
"""

import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from autoscaler.persistence.record import DirectoryRecord
from tests.adapters.record import recording
from tests.adapters.record.recording import WEB, Time, decided, plain, values, wait_recorded
from tests.adapters.store.histories import decided_at, nth
from tests.adapters.store.opening import LONG, RETRYING, Sayings, kept_in, running
from tests.core.builders import BASE
from tests.narrowing import assert_parts

MOUNTED = 'mount -t tmpfs -o size=8m none "$0" && exec "$@"'
SMALL = 64 * 1024 * 1024
TARGETS = 1500


@contextmanager
def full(directory: Path) -> Iterator[str]:
    """Leave no room for files to grow; yields the error code of SQLite."""
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
        yield "(SQLITE_FULL)"
        filler.unlink()
    else:
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, most))
        yield "(SQLITE_IOERR"
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def keep_state(directory: Path) -> None:
    sayings = Sayings()
    histories = {str(number): nth(number) for number in range(TARGETS)}
    with running(directory, sayings, timeouts=RETRYING) as (store, _):
        store.intend("0", nth(7)).result(LONG)
        with full(directory) as code:
            store.keep([(key, history, decided_at(1)) for key, history in histories.items()])
            assert_parts(sayings.wait(ok=False), code)
            for number in range(5):
                store.intend("0", nth(number)).result(LONG)
            store.intend("0", nth(0)).result(LONG)
        store.intend("more", nth(9)).result(LONG)
        sayings.wait(ok=True)
    assert sayings.states == [True, False, True], sayings.all
    assert kept_in(directory) == histories | {"more": nth(9)}
    begin_on_a_full_disk(directory / "later")


def begin_on_a_full_disk(directory: Path) -> None:
    directory.mkdir()
    sayings, filled = Sayings(), ExitStack()
    histories = {str(number): nth(number) for number in range(TARGETS)}
    filled.enter_context(full(directory))
    with running(directory, sayings, timeouts=RETRYING) as (store, _):
        store.keep([(key, history, decided_at(1)) for key, history in histories.items()])
        store.intend("more", nth(9)).result(LONG)
        sayings.wait(ok=False)
        filled.close()
        store.intend("more", nth(10)).result(LONG)
        sayings.wait(ok=True)
    assert kept_in(directory) == histories | {"more": nth(10)}


def keep_record(directory: Path) -> None:
    heard, time, chance = Sayings(), Time(), random.Random(1)  # noqa: S311 - no secret
    with recording.running(directory, heard, time=time) as writer:
        writer.put(decided())
        heard.wait(ok=True)
        wait_recorded(directory)
        with full(directory) as code:
            time.now = BASE + 15 * 2000
            for number in range(1, 2000):
                numbers = tuple(chance.randrange(10**15) for _ in range(60))
                writer.put(plain(15.0 * number, 0)._replace(numbers=numbers))
            assert_parts(heard.wait(ok=False), code)
            while not writer.status.dropped:
                writer.put(plain(15.0 * 2000, 0))
        heard.wait(ok=True)
        time.now = BASE + 15 * 3000
        writer.put(decided(seconds=15 * 3000))
    record = DirectoryRecord(directory)
    assert record.lapses(WEB, BASE, BASE + 15 * 3000)[-1].end == BASE + 15 * 2000
    assert values(record, 15 * 2500, 15 * 2600) == []
    assert values(record, 15 * 2990, 15 * 3001) == [(15 * 3000, 10_000)]
    assert [change.time - BASE for change in record.changes(None, 0, 2e12, limit=9)] == [45_000, 0]


@pytest.mark.parametrize("real", [False, True], ids=["file-size-limit", "full-file-system"])
@pytest.mark.parametrize("of", ["store", "record"])
def test_store_and_record_continue_after_a_full_disk(
    tmp_path: Path, of: str, *, real: bool
) -> None:
    own = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNTED, str(tmp_path)]
    if real and subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here, not even in a namespace of one's own")
    filling = [sys.executable, "-m", __name__, of, str(tmp_path)]
    command = [*own, *filling] if real else filling
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    {"store": keep_state, "record": keep_record}[sys.argv[1]](Path(sys.argv[2]))
