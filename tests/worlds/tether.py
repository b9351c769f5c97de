"""Become another program that the kernel kills when its parent dies.

Run as a script: `python -I tether.py PARENT_PID PROGRAM ARGUMENT...`. It stands between fork and
exec, where a `preexec_fn` would run Python in a copy of a process with threads and may deadlock.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, argv: list[str]) -> None:
    """Ask for SIGKILL on the death of the parent, then replace this process."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent that dies before the request leaves no signal behind, only another parent.
        if os.getppid() != parent:
            sys.exit("the parent is gone")
    os.execv(argv[0], argv)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
