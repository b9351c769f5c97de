"""A disk that is full, or lets no file grow: the store goes on from memory, and recovers."""

import subprocess
import sys
from pathlib import Path

import pytest

FILLING = [sys.executable, "-m", "tests.adapters.store.filling"]
MOUNTED = 'mount -t tmpfs -o size=8m none "$0" && exec "$@"'


def run(command: list[str]) -> None:
    """Run it; all that is expected is checked in there."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    """The process's limit on the size of files, as of a quota, is lifted after a while."""
    run([*FILLING, str(tmp_path)])


def test_a_full_file_system(tmp_path: Path) -> None:
    """Something else takes all the room of a real one, and gives it back after a while."""
    own = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNTED, str(tmp_path)]
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here, not even in a namespace of one's own")
    run([*own, *FILLING, str(tmp_path)])
