"""Runs the exec plugin of a kubeconfig with a time limit, which the official client lacks.

The client runs this file in place of the plugin, so it uses only the standard library.
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
"""The time limit of a plugin in seconds; the second on a terminal, where it may ask questions."""

AT_ONCE = threading.BoundedSemaphore(8)
"""The most plugins that this process runs at the same time, for all clusters."""

NOT_RUN = "cannot be run"
_SIGNALLED = 128
"""The exit code for a signal, less its number."""
_MARK = "exec: plugin api version failed: "
"""The start of the client's message when this program reports a failure."""
_LONG_WORD = re.compile(r"[\w+=~]{24,}")
_MOST_WORDS = 400
"""How much of the end of a plugin's error output is reported."""

_ENVIRONMENT = (
    "HOME HTTPS_PROXY HTTP_PROXY KUBERNETES_EXEC_INFO LANG LC_ALL LOGNAME NO_PROXY PATH SHELL"
    " SSL_CERT_DIR SSL_CERT_FILE TERM TMPDIR TZ USER http_proxy https_proxy no_proxy"
)
"""The daemon's variables that plugins of a foreign kubeconfig get; others may be secrets."""


def limited(plugin: Mapping[str, object], *, whole_environment: bool = True) -> dict[str, object]:
    """Return a kubeconfig's `exec` entry with the limit; a malformed one unchanged.

    Without the ``whole_environment`` the plugin has the variables of `_ENVIRONMENT`, and its `env`.
    """
    command, args = plugin.get("command"), plugin.get("args") or []
    if not isinstance(command, str) or not isinstance(args, list):
        return dict(plugin)
    listed = plugin.get("env")
    variables = listed if isinstance(listed, list) else []
    own = [str(each.get("name")) for each in variables if isinstance(each, dict)]
    names = "" if whole_environment else " ".join([_ENVIRONMENT, *own])
    # -I: Python variables in the plugin's environment are not for this program.
    ours = ["-I", __file__, str(SECONDS), names, command, *args]
    return {**plugin, "command": sys.executable, "args": ours}


def main(seconds: float, names: str, command: list[str]) -> int:
    """Run the command, and print its output, or a report of why it failed.

    The report is sent as an API version, the only text of a plugin that the client repeats. Without
    ``names`` of variables the command has the environment of this process. At the time limit or a
    signal, the command and the children in its process group are killed. Other processes that it
    leaves behind are not awaited.
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
    """Return the client's log of a plugin's failure, which may contain secrets."""
    for text in logged:
        if text.startswith(_MARK):
            return text.removeprefix(_MARK).rpartition(" does not match ")[0]
    said = "; ".join(text.removeprefix("exec: ") for text in logged if text.startswith("exec: "))
    said = _without_tokens(said) or "what it printed has the wrong form"
    return f"gave no credentials: {said}"


def _without_tokens(text: str) -> str:
    """Redact long words with other characters than letters."""
    return _LONG_WORD.sub(lambda word: word[0] if word[0].isalpha() else "<hidden>", text)


def _buffer() -> BinaryIO:
    """Return an unnamed file; a pipe would stay open while any process has its end."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("credentials"), "w+b")
    return tempfile.TemporaryFile()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2], sys.argv[3:]))
