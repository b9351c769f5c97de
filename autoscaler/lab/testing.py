"""`autoscaler test`: runs files of policy tests, prints what does not hold, and why."""

import errno
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryFile

from autoscaler import clock
from autoscaler.cli.output import EXPLAINED_FROM, CommandError, exit_code, print_text
from autoscaler.cli.planning import query_sources
from autoscaler.config import ConfigError
from autoscaler.config.documents import Location, path_of
from autoscaler.config.settings import Sources
from autoscaler.config.sources import included
from autoscaler.file_contents import write_output
from autoscaler.lab.failing_tests import failure_text
from autoscaler.lab.junit import as_junit
from autoscaler.lab.policy_tests.expectations import Unmet, unmet
from autoscaler.lab.policy_tests.generated import CounterExample, searched
from autoscaler.lab.policy_tests.kept_world import TooLargeTestError
from autoscaler.lab.policy_tests.loading import PolicyTestFile, load_tests
from autoscaler.lab.policy_tests.ready import ReadyTest
from autoscaler.lab.policy_tests.running import PolicyTestRun, run
from autoscaler.rendering import wording

_POLL_SECONDS = 0.5
_TEXT_FROM = EXPLAINED_FROM + 2
"""An explanation is indented by two."""


@dataclass(frozen=True)
class PolicyTestOptions:
    """What is asked for besides the files."""

    verbose: bool = False
    name: str | None = None
    junit: Path | None = None
    watch: bool = False


@dataclass(frozen=True)
class PolicyTestResult:
    """What came of one test: its failure as text, if it failed; ``assumed`` in sentences."""

    name: str
    seconds: float
    summary: str = ""
    text: str = ""
    assumed: tuple[str, ...] = ()
    runs: int = 1


@dataclass
class FileResult:
    """What came of one file; ``error`` says why it could not be run."""

    file: Path
    results: list[PolicyTestResult] = field(default_factory=list)
    left_out: int = 0
    error: str = ""
    sources: Sources = field(default_factory=lambda: Sources({}))
    """The files of the configuration."""

    @property
    def failed(self) -> list[PolicyTestResult]:
        """Those that failed."""
        return [one for one in self.results if one.summary]


class UnwritableReportError(CommandError):
    """The results cannot be written where they are asked for."""

    code = 2


@exit_code
def run_test_files(files: Sequence[Path], wishes: PolicyTestOptions) -> int:
    """Run all tests of some files, print what came of them, and return the exit code."""
    if wishes.junit is not None:
        _check_writable(wishes.junit)
    code, found = _run_all(files, wishes)
    if not wishes.watch:
        return code
    try:
        while True:
            seen = _stamps(files, found)
            print("waiting for a change; Ctrl-C ends", file=sys.stderr, flush=True)
            while _stamps(files, found) == seen:
                time.sleep(_POLL_SECONDS)
            print()
            code, found = _run_all(files, wishes)
    except KeyboardInterrupt:
        return code


def _run_all(files: Sequence[Path], wishes: PolicyTestOptions) -> tuple[int, list[FileResult]]:
    found = []
    for file in files:
        result = _run_file(file, wishes.name)
        found.append(result)
        _print(result, verbose=wishes.verbose)
    if wishes.junit is not None:
        _write(wishes.junit, as_junit(found))
    if wishes.name is not None and not any(one.results or one.error for one in found):
        print(f"no test's name has {wishes.name!r} in it", file=sys.stderr)
        return 2, found
    if any(one.error for one in found):
        return 2, found
    return (1 if any(one.failed for one in found) else 0), found


def _run_file(file: Path, name: str | None) -> FileResult:
    try:
        tests = load_tests(file)
    except ConfigError as error:
        return FileResult(file, error=str(error), sources=error.sources)
    result = FileResult(file, sources=tests.config.sources)
    for test in tests.tests:
        if name is not None and not _is_named(test.model.name, name):
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
    begin, example = clock.monotonic(), None
    if test.model.random is None:
        ran: PolicyTestRun = run(test)
        broken = unmet(ran)
    else:
        found = searched(test, test.model.random)
        example = found if isinstance(found, CounterExample) else None
        ran = found.run if isinstance(found, CounterExample) else found
        broken = found.unmet if isinstance(found, CounterExample) else []
    runs = 1 if test.model.random is None else test.model.random.runs
    seconds = clock.monotonic() - begin
    if not broken:
        return PolicyTestResult(test.model.name, seconds, assumed=ran.assumed, runs=runs)
    sources = query_sources(file.config, file.content)
    text = failure_text(file, ran, broken, sources, example)
    return PolicyTestResult(test.model.name, seconds, _summary(broken), text, ran.assumed, runs)


def _summary(broken: Sequence[Unmet]) -> str:
    more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    return f"{broken[0].sentence}{more}"


def _print(result: FileResult, *, verbose: bool) -> None:
    if result.error:
        print(result.error, file=sys.stderr, flush=True)
    if not result.results:
        return
    failed, every = result.failed, len(result.results)
    passed = f"{every - len(failed)} passed"
    counts = f"{passed}, {len(failed)} failed" if failed else passed
    left_out = f", {result.left_out} not asked for" if result.left_out else ""
    for one in result.results:
        if one.summary:
            print_text(f"FAIL {one.name}\n{one.text}\n", _TEXT_FROM)
        elif verbose:
            runs = f", {wording.counted(one.runs, 'run')}" if one.runs > 1 else ""
            print_text("\n".join([f"ok   {one.name} ({one.seconds:.2f} s{runs})", *_assumed(one)]))
    print(f"{result.file}: {counts}{left_out}", flush=True)


def _assumed(result: PolicyTestResult) -> list[str]:
    return [f"       {sentence}" for sentence in result.assumed]


def _check_writable(file: Path) -> None:
    """Say before the tests run that a report cannot be written; nothing stays behind."""
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


def _unwritable(file: Path, error: OSError) -> UnwritableReportError:
    return UnwritableReportError(f"{file} cannot be written: {error.strerror or error}")


def _stamps(files: Sequence[Path], found: Sequence[FileResult]) -> list[object]:
    """Return how all files stand that the results were read from, and that `include` matches."""
    watched = {file.absolute() for file in files}
    for result in found:
        watched |= result.sources.digests.keys()
        watched |= included(result.sources.include, result.file).files.keys()
    return [(path, _stamp(path)) for path in sorted(watched)]


def _stamp(path: Path) -> object:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
