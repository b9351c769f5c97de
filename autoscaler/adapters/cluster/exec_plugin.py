"""Runs the exec plugin of a kubeconfig with a time limit, which the official client has not.

This file is also the program that the client runs in place of the plugin, so it needs nothing but
the standard library.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from typing import BinaryIO

SECONDS, _SECONDS_OF_A_PERSON = 30.0, 600.0
"""How long a plugin may take, and at a terminal, where it can ask for something."""

AT_ONCE = threading.BoundedSemaphore(8)
"""Plugins of this process that run at the same time, those of all its clusters together."""

_NOT_FOUND, _TOOK_TOO_LONG, _SIGNALLED = 127, 124, 128
"""Exit codes, as shells and timeout(1) have them."""


def limited(plugin: Mapping[str, object]) -> dict[str, object]:
    """Return a kubeconfig's `exec` entry with SECONDS as its limit; a malformed one as it is."""
    command, args = plugin.get("command"), plugin.get("args") or []
    if not isinstance(command, str) or not isinstance(args, list):
        return dict(plugin)
    # -I: Python variables in the plugin's environment are not meant for this program.
    ours = ["-I", __file__, str(SECONDS), command, *args]
    return {**plugin, "command": sys.executable, "args": ours}


def main(seconds: float, command: list[str]) -> int:
    """Run the command, print what it prints, and return its exit code.

    At the time limit or a signal, the command is killed with the children that are still in its
    process group.  Processes that it leaves behind are not waited for.
    """
    at_terminal = os.isatty(0)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: sys.exit(_SIGNALLED + received))
    with _buffer() as output:
        try:
            plugin = subprocess.Popen(  # noqa: S603 - the kubeconfig is the operator's own
                command,
                stdout=output,
                stderr=None if at_terminal else subprocess.DEVNULL,
                process_group=None if at_terminal else 0,
            )
        except OSError:
            return _NOT_FOUND
        try:
            code = plugin.wait(_SECONDS_OF_A_PERSON if at_terminal else seconds)
        except subprocess.TimeoutExpired:
            return _TOOK_TOO_LONG
        finally:
            if plugin.poll() is None:
                plugin.kill() if at_terminal else os.killpg(plugin.pid, signal.SIGKILL)
                plugin.wait()
        output.seek(0)
        shutil.copyfileobj(output, sys.stdout.buffer)
        return code


def _buffer() -> BinaryIO:
    """Return a file without a name; a pipe would stay open with any process that holds its end."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("credentials"), "w+b")
    return tempfile.TemporaryFile()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
