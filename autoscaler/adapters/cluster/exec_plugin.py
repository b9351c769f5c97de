"""The exec plugin of a kubeconfig, given an end: the official client waits for it as it pleases.

This file is also the program that the client runs in the plugin's place, so it needs nothing but
the standard library.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import BinaryIO

SECONDS = 30.0
"""How long a plugin may take.  Those of the clouds ask a server, within a few seconds."""

_SECONDS_OF_A_PERSON = 600.0
"""How long a plugin may take that can ask somebody something."""

_NOT_FOUND, _TOOK_TOO_LONG, _SIGNALLED = 127, 124, 128
"""Exit codes, as shells and timeout(1) have them."""


def limited(plugin: Mapping[str, object]) -> dict[str, object]:
    """Return the `exec` entry of a kubeconfig's user with SECONDS as the limit to its time.

    Environment and working directory stay the plugin's own, and so do the forms that are wrong,
    which the client sees to.
    """
    command, args = plugin.get("command"), plugin.get("args") or []
    if not isinstance(command, str) or not isinstance(args, list):
        return dict(plugin)
    # -I: what the plugin's environment says about Python is not meant for this one.
    ours = ["-I", __file__, str(SECONDS), command, *args]
    return {**plugin, "command": sys.executable, "args": ours}


def main(seconds: float, command: list[str]) -> int:
    """Run the command, hand on what it prints, and return its exit code.

    When the time is up, or this program is told to end, it is killed, and with it the children
    that are still of its group.  What it leaves running behind it holds nobody up.
    """
    asks = os.isatty(0)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: sys.exit(_SIGNALLED + received))
    with _buffer() as output:
        try:
            plugin = subprocess.Popen(  # noqa: S603 - the kubeconfig is the operator's own
                command,
                stdout=output,
                stderr=None if asks else subprocess.DEVNULL,
                process_group=None if asks else 0,
            )
        except OSError:
            return _NOT_FOUND
        try:
            code = plugin.wait(_SECONDS_OF_A_PERSON if asks else seconds)
        except subprocess.TimeoutExpired:
            return _TOOK_TOO_LONG
        finally:
            if plugin.poll() is None:
                plugin.kill() if asks else os.killpg(plugin.pid, signal.SIGKILL)
                plugin.wait()
        output.seek(0)
        shutil.copyfileobj(output, sys.stdout.buffer)
        return code


def _buffer() -> BinaryIO:
    """Return a file that is nowhere: a pipe would last as long as anybody holds its other end."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("credentials"), "w+b")
    return tempfile.TemporaryFile()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
