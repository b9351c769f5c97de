"""`autoscaler status`: what `kubectl get hpa` would print, from a running daemon."""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from autoscaler.adapters.daemon import Daemon, Limits, NobodyListensError, PageError, read_page
from autoscaler.adapters.record import DirectoryRecord
from autoscaler.cli import times
from autoscaler.cli.listen_address import api_address_of
from autoscaler.cli.recorded import Place
from autoscaler.cli.reported import Report
from autoscaler.cli.status_table import age, lines_for_programs, lines_for_terminal
from autoscaler.cli.target_names import UnknownTargetError
from autoscaler.config import ConfigError, load
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.config.settings import LISTEN, STATE_DIRECTORY
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.text import printable
from autoscaler.daemon.api import TARGETS
from autoscaler.daemon.health import Component
from autoscaler.record.rows import RecordError
from autoscaler.rendering import wording
from autoscaler.rendering.instant import recorded_targets
from autoscaler.rendering.record import Json
from autoscaler.rendering.verdict import State
from autoscaler.transport.bodies import TooMuch, parse

_LIMITS = Limits(connect_seconds=5.0, most_bytes=64 << 20)
"""A page of 10,000 targets is 7 MB."""
_MOST_MEMORY = 512 << 20
_ADVICE = "; start it with `autoscaler run`, or name another address with --url"
_OR_FILE = " or the daemon's configuration with -c"


class _AddressError(Exception):
    """There is no address to ask; the text is a sentence."""


def print_status(names: Sequence[str], place: Place, *, as_json: bool) -> int:
    """Print how the named targets stand, or all; return the exit code.

    Where no daemon answers, the last that is recorded in the state directory is shown.
    """
    try:
        name, document, report = _found(place)
        report = report.chosen(names)
    except (ConfigError, _AddressError, UnknownTargetError) as error:
        print(error, file=sys.stderr)
        return 2
    except (PageError, RecordError) as error:
        advice = _ADVICE if isinstance(error, NobodyListensError) else ""
        or_file = _OR_FILE if advice and place == Place() else ""
        print(f"{error}{advice}{or_file}", file=sys.stderr)
        return 1
    if as_json:
        print(json.dumps(_raw(document, report), indent=2))
    elif not report.targets:
        print(f"{name} has no targets")
    else:
        _print_table(report)
    for line in what_is_not_ok(report):
        print(line, file=sys.stderr if as_json else sys.stdout)
    return 0


def _print_table(report: Report) -> None:
    if sys.stdout.isatty():
        lines = lines_for_terminal(report, shutil.get_terminal_size().columns)
    else:
        lines = lines_for_programs(report)
    for line in lines:
        print(line)
    print(summary(report))


def summary(report: Report) -> str:
    """Sum up the states: "14 targets: 12 ok, 1 failing, 1 held"."""
    counts = Counter(printable(one.state) for one in report.targets)
    known = [State.OK.value, *(state.value for state in State if state is not State.OK)]
    states = sorted(counts, key=lambda one: known.index(one) if one in known else len(known))
    total = wording.counted(len(report.targets), "target")
    return f"{total}: {', '.join(f'{counts[state]} {state}' for state in states)}"


def what_is_not_ok(report: Report) -> Iterator[str]:
    """Yield a sentence for each part of the daemon that is not ok."""
    for one in report.components:
        message = printable(one.message, LONGEST_SENTENCE)
        if one.name == Component.RELOAD:
            yield f"the configuration on the disk is {message}"
        else:
            lasts = age((report.time - one.since).total_seconds())
            yield f"{printable(one.name)} has not been ok for {lasts}: {message}"


def _found(place: Place) -> tuple[str, Json, Report]:
    """Return what is read, in words, and what it says."""
    if place.directory is not None:
        found = _recorded(place.directory)
        print(f"from {found[0]}, as it was at {_until(found)}", file=sys.stderr)
        return found
    try:
        daemon = place.at(place.url or _of_listener(place.config))
        document = _document(daemon)
        return str(daemon), document, _report(document, daemon.url)
    except NobodyListensError as error:
        directory = None if place.url is not None else _state_directory(place.config)
        if directory is None:
            raise
        try:
            found = _recorded(directory)
        except RecordError:
            raise error from None
        print(f"{error}; what is shown was recorded until {_until(found)}", file=sys.stderr)
        return found


def _until(found: tuple[str, Json, Report]) -> str:
    return times.local(found[2].time.timestamp())


def _state_directory(config: Path | None) -> Path | None:
    if config is None:
        return Path(STATE_DIRECTORY)
    with suppress(ConfigError):
        return load(config, namespace_or_anywhere).state_directory
    return None


def _recorded(directory: Path) -> tuple[str, Json, Report]:
    """Return how the targets stood when they were recorded last; raises RecordError."""
    document = recorded_targets(DirectoryRecord(directory))
    return f"the record in {directory}", document, Report.model_validate(document)


def _of_listener(config: Path | None) -> str:
    """Return the URL at which the daemon of a configuration listens, by default that of any."""
    if config is None:
        return LISTEN.url
    listen, scheme, valid = api_address_of(config)
    if listen is None:
        raise _AddressError(f"the daemon of {config} serves no pages, since `listen` is null")
    if listen.port == 0:
        raise _AddressError(
            f"the daemon of {config} listens on any free port (`listen` is {listen}): "
            "give the one that its log names with --url"
        )
    url = listen.url_of(scheme)
    if not valid:
        print(
            f"{config} has mistakes (`autoscaler validate {config}` tells them); "
            f"the daemon at {url} is asked",
            file=sys.stderr,
        )
    return url


def _document(daemon: Daemon) -> Any:
    body = read_page(daemon, TARGETS, b"\n".join, _LIMITS)
    try:
        return parse(body, _MOST_MEMORY)
    except (ValueError, RecursionError):
        raise PageError(f"what answers at {daemon.url} is no autoscaler: it sent no JSON") from None
    except TooMuch as error:
        raise PageError(f"{daemon} sent {error}") from None


def _report(document: object, address: str) -> Report:
    try:
        return Report.model_validate(document)
    except ValidationError:
        raise PageError(
            f"what answers at {address} is no autoscaler, or one of a version that this program "
            "does not understand"
        ) from None


def _raw(document: Any, report: Report) -> list[object]:
    """Return the chosen targets as the daemon sent them, with fields that are not shown here."""
    chosen = {one.target for one in report.targets}
    targets: list[dict[str, object]] = document["targets"]
    return [one for one in targets if one["target"] in chosen]
