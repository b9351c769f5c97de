"""What every command that starts servers does around its measurement."""

import shutil
import sys
import time
from collections.abc import Callable

from tests.controlplane.binaries import ControlPlaneUnavailable
from tests.controlplane.process import ServerFailedError
from tests.controlplane.waiting import NotInTimeError

Report = Callable[[str], None]


def exit_code(work: Callable[[Report], int]) -> int:
    """Let `work` report its progress to standard error, and return its exit code.

    It is 1 where a program is missing, and where a server fails or is late.
    """
    missing = [name for name in ("prometheus", "openssl") if shutil.which(name) is None]
    if missing:
        print(f"not on the PATH: {', '.join(missing)}", file=sys.stderr)
        return 1
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {line}", file=sys.stderr, flush=True)

    try:
        return work(report)
    except (ControlPlaneUnavailable, ServerFailedError, NotInTimeError) as error:
        print(error, file=sys.stderr)
        return 1
