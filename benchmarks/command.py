"""What every command that starts servers does around its measurement."""

import argparse
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.worlds.gomodule import ControlPlaneUnavailable
from tests.worlds.process import ServerFailedError
from tests.worlds.waiting import NotInTimeError

Report = Callable[[str], None]


def parser_of(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser for the options of `benchmarks.NAME`."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def exit_code(work: Callable[[Report], int]) -> int:
    """Let `work` report its progress to standard error, and return its exit code.

    It is 1 where Prometheus is missing, and where a server fails or is late.
    """
    if shutil.which("prometheus") is None:
        print("not on the PATH: prometheus", file=sys.stderr)
        return 1
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {line}", file=sys.stderr, flush=True)

    try:
        return work(report)
    except (ControlPlaneUnavailable, ServerFailedError, NotInTimeError) as error:
        print(error, file=sys.stderr)
        return 1


def hardware() -> str:
    """Describe on what this runs."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB; Python {platform.python_version()}"
