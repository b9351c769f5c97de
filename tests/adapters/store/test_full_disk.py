"""A disk that is full, or lets no file grow: store and record go on, and recover."""

import subprocess
import sys
from pathlib import Path

import pytest

MOUNTED = 'mount -t tmpfs -o size=8m none "$0" && exec "$@"'


@pytest.mark.parametrize("real", [False, True], ids=["files may not grow", "full file system"])
@pytest.mark.parametrize("of", ["store", "record"])
def test_a_full_disk_is_gone_on_from(tmp_path: Path, of: str, *, real: bool) -> None:
    """After a while there is room again; the store has kept all, the record dropped rows."""
    own = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNTED, str(tmp_path)]
    if real and subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here, not even in a namespace of one's own")
    filling = [sys.executable, "-m", f"tests.adapters.{of}.filling", str(tmp_path)]
    command = [*own, *filling] if real else filling
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
