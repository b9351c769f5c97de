"""`autoscaler test`: runs files of policy tests, and prints failures with reasons, or JUnit."""

import errno
import os
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryFile

from autoscaler import clock
from autoscaler.cli.output import EXPLAINED_FROM, ArgumentError, CommandError, print_text
from autoscaler.cli.planning import query_sources
from autoscaler.config import ConfigError
from autoscaler.config.documents import Location, path_of
from autoscaler.file_contents import write_output
from autoscaler.lab.options import PolicyTestOptions
from autoscaler.lab.policy_tests.expectations import unmet
from autoscaler.lab.policy_tests.loading import PolicyTestFile, load_tests
from autoscaler.lab.policy_tests.results import (
    FileResult,
    PolicyTestResult,
    as_junit,
    failure_text,
)
from autoscaler.lab.policy_tests.running import TooLargeTestError, run
from autoscaler.lab.policy_tests.settings import ReadyTest

_TEXT_FROM = EXPLAINED_FROM + 2
"""An explanation is indented by two."""


def run_test_files(files: Sequence[Path], wishes: PolicyTestOptions) -> int:
    """Run all tests of some files, print the results, and return the exit code."""
    if wishes.junit is not None:
        _check_writable(wishes.junit)
    found = []
    for file in files:
        result = _run_file(file, wishes)
        found.append(result)
        _print(result, verbose=wishes.verbose)
    if wishes.junit is not None:
        _write(wishes.junit, as_junit(found))
    if wishes.name is not None and not any(result.results or result.error for result in found):
        print(f"no test's name has {wishes.name!r} in it", file=sys.stderr)
        return 2
    if any(result.error for result in found):
        return 2
    return 1 if any(result.failed for result in found) else 0


def _run_file(file: Path, wishes: PolicyTestOptions) -> FileResult:
    try:
        tests = load_tests(file, wishes.objects)
    except ConfigError as error:
        return FileResult(file, error=str(error))
    result = FileResult(file)
    for test in tests.tests:
        if wishes.name is not None and not _is_named(test.model.name, wishes.name):
            result.left_out += 1
            continue
        try:
            result.results.append(_run_test(tests, test))
        except TooLargeTestError as error:
            place: Location = ("tests", test.number)
            line = f"{file}:{tests.line(place)}: {path_of(place)}: {error}"
            result.error += f"\n{line}" if result.error else line
    return result


def _is_named(test: str, name: str) -> bool:
    folded = name.lower()
    return fnmatchcase(test.lower(), folded if "*" in folded else f"*{folded}*")


def _run_test(file: PolicyTestFile, test: ReadyTest) -> PolicyTestResult:
    begin = clock.monotonic()
    ran = run(test)
    broken = unmet(ran)
    name, seconds = test.model.name, clock.monotonic() - begin
    if not broken:
        return PolicyTestResult(name, seconds, assumed=ran.assumed)
    more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    text = failure_text(file, ran, broken, query_sources(file.config, file.content))
    return PolicyTestResult(name, seconds, f"{broken[0].sentence}{more}", text, ran.assumed)


def _print(result: FileResult, *, verbose: bool) -> None:
    if result.error:
        print(result.error, file=sys.stderr, flush=True)
    if not result.results:
        return
    failed, every = result.failed, len(result.results)
    passed = f"{every - len(failed)} passed"
    counts = f"{passed}, {len(failed)} failed" if failed else passed
    left_out = f", {result.left_out} not asked for" if result.left_out else ""
    for outcome in result.results:
        if outcome.summary:
            print_text(f"FAIL {outcome.name}\n{outcome.text}\n", _TEXT_FROM)
        elif verbose:
            assumed = (f"       {sentence}" for sentence in outcome.assumed)
            print_text("\n".join([f"ok   {outcome.name} ({outcome.seconds:.2f} s)", *assumed]))
    print(f"{result.file}: {counts}{left_out}", flush=True)


def _check_writable(file: Path) -> None:
    """Return, before the tests run, that a report cannot be written; leaves no file."""
    try:
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not file.exists() or file.is_file():
            TemporaryFile(dir=file.parent).close()
    except OSError as error:
        raise _unwritable(file, error) from None


def _write(file: Path, text: str) -> None:
    try:
        write_output(file, text.encode(errors="replace"))
    except OSError as error:
        raise _unwritable(file, error) from None


def _unwritable(file: Path, error: OSError) -> CommandError:
    return ArgumentError(f"{file} cannot be written: {error.strerror or error}")
