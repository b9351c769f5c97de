"""`autoscaler resume --breaker`: end the hold of the scale-down breaker."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from autoscaler import clock
from autoscaler.cli.output import ArgumentError, CommandError
from autoscaler.config import load
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.config.settings import STATE_DIRECTORY
from autoscaler.core.breaker import Trip
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.text import printable, rfc3339
from autoscaler.persistence.store import Release, read_saved, releases
from autoscaler.rendering import wording

_ANSWERED_WITHIN_SECONDS = 10.0
_POLL_SECONDS = 0.1


def release(server: str | None, config: Path | None) -> int:
    """Ask the daemon to release the targets of a server, or of all; return the exit code."""
    directory, servers = _place(config)
    if server is not None and servers and server not in servers:
        similar = wording.similar(server, servers)
        hint = f"did you mean {similar[0]}?" if similar else f"known: {', '.join(servers)}"
        unknown = f"unknown Prometheus server {server}; {hint}"
        raise ArgumentError(printable(unknown, LONGEST_SENTENCE))
    chosen = _chosen(_trips(directory), server)
    if not chosen:
        print("no scale-down breaker has tripped")
        return 0
    _ask(directory, server)
    for name, trip in chosen.items():
        print(
            f"released: {trip.down} of {trip.of} targets of {wording.prometheus_server(name)}, "
            "from their next sync"
        )
    return 0


def _place(config: Path | None) -> tuple[Path, Sequence[str]]:
    """Return the state directory, and the names of the servers; none without a configuration."""
    if config is None:
        return Path(STATE_DIRECTORY), ()
    loaded = load(config, namespace_or_anywhere)
    directory = loaded.state_directory
    if directory is None:
        raise CommandError(
            f"cannot ask the daemon of {config}, `stateDirectory` is null: wait until the hold "
            "ends, or remove `scaleDownBreaker` from the configuration"
        )
    return directory, [wording.server_label(name) for name in loaded.servers]


def _trips(directory: Path) -> Mapping[str, Trip]:
    saved = read_saved(directory)
    if saved is None:
        raise CommandError(
            f"no state of a daemon in {directory}: run this command where the daemon runs, with "
            "its configuration as -c FILE"
        )
    if isinstance(saved, str):
        raise CommandError(saved)
    now = clock.wall()
    return {
        server: state.trip
        for server, state in saved.breakers.items()
        if state.trip is not None and now < state.trip.until
    }


def _chosen(trips: Mapping[str, Trip], server: str | None) -> Mapping[str, Trip]:
    if server is None or not trips:
        return trips
    chosen = {name: trip for name, trip in trips.items() if wording.server_label(name) == server}
    if not chosen:
        held = ", ".join(
            f"{printable(wording.server_label(name))} (until {rfc3339(trip.until)})"
            for name, trip in trips.items()
        )
        raise CommandError(
            f"nothing of the server {printable(server)} is held; held are targets of: {held}"
        )
    return chosen


def _ask(directory: Path, server: str | None) -> None:
    name = "" if server == wording.server_label("") else server
    try:
        releases.ask(directory, Release(name))
    except OSError as error:
        raise CommandError(
            f"{directory} cannot be written to: {error.strerror}; run it as the daemon's user"
        ) from None
    until = clock.monotonic() + _ANSWERED_WITHIN_SECONDS
    while releases.is_waiting(directory):
        if clock.monotonic() >= until:
            releases.withdraw(directory)
            raise CommandError(
                f"nothing was released: no daemon that keeps its state in {directory} has answered "
                f"for {_ANSWERED_WITHIN_SECONDS:g} s; does it run?"
            )
        time.sleep(_POLL_SECONDS)
