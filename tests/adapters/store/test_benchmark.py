"""The benchmark of the store runs."""

import subprocess
import sys
from pathlib import Path


def test_the_benchmark_prints_its_figures(tmp_path: Path) -> None:
    """With few targets, and it leaves nothing behind."""
    command = [sys.executable, "-m", "benchmarks.store", "--targets", "20", "--syncs", "1"]
    done = subprocess.run(
        [*command, "--directory", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for words in ("sync, loads as before", "write-ahead log", "start ", "kept / pickled"):
        assert words in done.stdout
    assert list(tmp_path.iterdir()) == []
