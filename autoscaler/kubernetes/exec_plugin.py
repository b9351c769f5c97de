"""Runs the exec plugin of a kubeconfig with a time limit, which the official client has not.

This file is also the program that the client runs in place of the plugin, so it needs nothing but
the standard library.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from typing import BinaryIO

SECONDS, _SECONDS_OF_A_PERSON = 30.0, 600.0
"""How long a plugin may take, and at a terminal, where it can ask for something."""

AT_ONCE = threading.BoundedSemaphore(8)
"""The most plugins of this process that run at the same time, for all clusters."""

NOT_RUN = "cannot be run"
_SIGNALLED = 128
"""The exit code for a signal, less its number."""
_MARK = "exec: plugin api version failed: "
"""How the client's words for our report of a failure begin."""
_LONG_WORD = re.compile(r"[\w+=~]{24,}")
_MOST_WORDS = 400
"""How much of the end of a plugin's error output is reported."""

_ENVIRONMENT = (
    "HOME HTTPS_PROXY HTTP_PROXY KUBERNETES_EXEC_INFO LANG LC_ALL LOGNAME NO_PROXY PATH SHELL"
    " SSL_CERT_DIR SSL_CERT_FILE TERM TMPDIR TZ USER http_proxy https_proxy no_proxy"
)
"""The variables of the daemon that the plugin of a foreign kubeconfig has; the others may hold
secrets."""


def limited(plugin: Mapping[str, object], *, whole_environment: bool = True) -> dict[str, object]:
    """Return a kubeconfig's `exec` entry with SECONDS as its limit; a malformed one as it is.

    Without the ``whole_environment`` the plugin has the variables of `_ENVIRONMENT`, and its `env`.
    """
    command, args = plugin.get("command"), plugin.get("args") or []
    if not isinstance(command, str) or not isinstance(args, list):
        return dict(plugin)
    listed = plugin.get("env")
    variables = listed if isinstance(listed, list) else []
    own = [str(each.get("name")) for each in variables if isinstance(each, dict)]
    names = "" if whole_environment else " ".join([_ENVIRONMENT, *own])
    # -I: Python variables in the plugin's environment are not meant for this program.
    ours = ["-I", __file__, str(SECONDS), names, command, *args]
    return {**plugin, "command": sys.executable, "args": ours}


def main(seconds: float, names: str, command: list[str]) -> int:
    """Run the command, and print what it prints, or a report of why it failed.

    The client has no place for a report but one: it repeats an API version that it does not expect.
    Without ``names`` of variables it has the environment of this process.

    At the time limit or a signal, the command is killed with the children that are still in its
    process group.  Processes that it leaves behind are not waited for.
    """
    at_terminal, kept = os.isatty(0), names.split() or os.environ
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: sys.exit(_SIGNALLED + received))
    limit = _SECONDS_OF_A_PERSON if at_terminal else seconds
    with _buffer() as output, _buffer() as errors:
        try:
            plugin = subprocess.Popen(  # noqa: S603 - the kubeconfig is the operator's own
                command,
                stdout=output,
                stderr=None if at_terminal and os.isatty(2) else errors,
                env={name: os.environ[name] for name in kept if name in os.environ},
                process_group=None if at_terminal else 0,
            )
        except OSError as error:
            return _report(f"{command[0]} {NOT_RUN}: {error.strerror}")
        try:
            code = plugin.wait(limit)
            how = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        except subprocess.TimeoutExpired:
            code, how = 1, f"took more than {limit:g} s"
        finally:
            if plugin.poll() is None:
                plugin.kill() if at_terminal else os.killpg(plugin.pid, signal.SIGKILL)
                plugin.wait()
        if code:
            words = _last_words(errors)
            return _report(f"{command[0]} {how}" + (f": {words}" if words else ""))
        output.seek(0)
        shutil.copyfileobj(output, sys.stdout.buffer)
        return 0


def _last_words(errors: BinaryIO) -> str:
    errors.seek(-min(errors.seek(0, os.SEEK_END), 4 * _MOST_WORDS), os.SEEK_END)
    words = " ".join(errors.read().decode(errors="replace").split())
    return _without_tokens(words)[-_MOST_WORDS:].strip()


def _report(failure: str) -> int:
    print(json.dumps({"apiVersion": f"failed: {failure}", "kind": "", "status": {}}))
    return 0


def failure_in(logged: Iterable[str]) -> str:
    """Return what the client logged of a plugin's failure, which may have secrets in it."""
    for text in logged:
        if text.startswith(_MARK):
            return text.removeprefix(_MARK).rpartition(" does not match ")[0]
    said = "; ".join(text.removeprefix("exec: ") for text in logged if text.startswith("exec: "))
    said = _without_tokens(said) or "what it printed has the wrong form"
    return f"gave no credentials: {said}"


def _without_tokens(text: str) -> str:
    """Hide long words that have more than letters in them."""
    return _LONG_WORD.sub(lambda word: word[0] if word[0].isalpha() else "<hidden>", text)


def _buffer() -> BinaryIO:
    """Return a file without a name; a pipe would stay open with any process that holds its end."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("credentials"), "w+b")
    return tempfile.TemporaryFile()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2], sys.argv[3:]))
