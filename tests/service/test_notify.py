"""Messages to the service manager, which may be missing or not listen."""

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.daemon.service_manager import Notifier
from tests.worlds.notify_socket import NotifySocket

WATCHED = {"WATCHDOG_USEC": "60000000"}


@pytest.mark.parametrize("abstract", [False, True], ids=["path", "abstract"])
def test_each_state_of_the_daemon_is_one_message(tmp_path: Path, *, abstract: bool) -> None:
    name = f"@notify-{secrets.token_hex(8)}" if abstract else str(tmp_path / "notify")
    before = clock.monotonic()
    with NotifySocket(name) as manager, Notifier({**WATCHED, **manager.environment}) as notifier:
        notifier.ready("3 targets")
        notifier.reloading()
        notifier.ready("4 targets")
        notifier.status("late")
        notifier.watchdog()
        notifier.stopping()
        manager.wait_for("STOPPING")
    reloading = manager.messages[1]
    assert before <= int(reloading.pop("MONOTONIC_USEC")) / 1e6 <= clock.monotonic()
    assert manager.messages == [
        {"READY": "1", "STATUS": "3 targets"},
        {"RELOADING": "1", "STATUS": "reloading"},
        {"READY": "1", "STATUS": "4 targets"},
        {"STATUS": "late"},
        {"WATCHDOG": "1"},
        {"STOPPING": "1", "STATUS": "stopping"},
    ]


def test_a_status_stays_one_line(tmp_path: Path) -> None:
    with (
        NotifySocket(str(tmp_path / "notify")) as manager,
        Notifier(manager.environment) as notifier,
    ):
        notifier.status("refused:\nMAINPID=1\n  at line 3")
        manager.wait_for("STATUS")
    assert manager.messages == [{"STATUS": "refused: MAINPID=1 at line 3"}]


@pytest.mark.parametrize(
    "environment",
    [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "relative"}, {"NOTIFY_SOCKET": "vsock:2:1"}],
    ids=str,
)
def test_without_a_socket_nothing_is_sent(environment: dict[str, str]) -> None:
    with Notifier(environment) as notifier:
        notifier.ready("up")
        notifier.stopping()
    notifier.ready("still no error")


def test_a_missing_service_manager_is_no_error(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with Notifier({"NOTIFY_SOCKET": path}) as notifier:
        notifier.ready("nobody yet")
        with NotifySocket(path) as manager:
            notifier.ready("somebody")
            manager.wait_for("READY")
        notifier.ready("nobody any more")
    assert [message["STATUS"] for message in manager.messages] == ["somebody"]


def test_a_service_manager_that_does_not_read_delays_nothing(tmp_path: Path) -> None:
    """A full queue costs at most a second; the message is dropped."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filler:
            filler.settimeout(0)
            with suppress(BlockingIOError):
                while True:
                    filler.sendto(b"STATUS=full", path)
        with Notifier({"NOTIFY_SOCKET": path}) as notifier:
            begun = clock.monotonic()
            notifier.status("unheard")
            assert clock.monotonic() - begun < 2


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        pytest.param(
            {"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())},
            60.0,
            id="our own process",  # whose id is another in each worker of pytest-xdist
        ),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
    ],
    ids=str,
)
def test_the_watchdog_is_fed_only_if_it_watches_this_process(
    tmp_path: Path, environment: dict[str, str], seconds: float | None
) -> None:
    with (
        NotifySocket(str(tmp_path / "notify")) as manager,
        Notifier({**environment, **manager.environment}) as notifier,
    ):
        assert notifier.watchdog_seconds == seconds
        notifier.watchdog()
        notifier.stopping()
        manager.wait_for("STOPPING")
    assert manager.count("WATCHDOG") == (0 if seconds is None else 1)
