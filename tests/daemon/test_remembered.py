"""The histories that a plan continues, and its first line about them."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.config import Address, Config, load
from autoscaler.core.history import History, shifted
from autoscaler.daemon.client import Daemon, PageLimits, read_page
from autoscaler.daemon.remembered import PageError, RestoredHistories, remembered
from autoscaler.rendering.history_lines import lines
from autoscaler.telemetry.health import Health
from autoscaler.telemetry.metrics import Metrics
from autoscaler.web.listener import Listener
from autoscaler.web.site import HISTORIES, Site, application
from tests.adapters.store.histories import decided_at, nth
from tests.adapters.store.opening import running
from tests.cli.test_commands import queue_config
from tests.narrowing import assert_parts
from tests.worlds.daemon import write_config
from tests.worlds.process import free_port
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import Step

KEYS = ("shop/Deployment/a", "shop/Deployment/b")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Return a configuration of two targets, of no state and of no address."""
    return load(write_config(tmp_path / "a.yaml", queue_config("http://p:9090", "shop", "a", "b")))


def changed(config: Config, **settings: object) -> Config:
    """Return a configuration with other settings."""
    return config.model_copy(update=settings)


@contextmanager
def serving(
    shown: Callable[[], Iterator[bytes]] | None, defects: Sequence[type] = ()
) -> Iterator[Address]:
    """Serve the pages of a daemon; in the end it must have reported these defects."""
    site, seen = Site(Metrics(Health()), Health()), list[BaseException]()
    site.history_lines = shown
    app = application(site.page, seen.append)
    with Listener("127.0.0.1", 0, app, seen.append) as listener:
        yield Address("127.0.0.1", listener.port)
    assert [type(error) for error in seen] == [*defects]


def daemon(
    known: dict[str, History], *, ahead: float = 0.0, leads: bool = True
) -> AbstractContextManager[Address]:
    """Serve the pages of a daemon whose clock is ahead."""
    return serving(lambda: lines(clock.wall() + ahead, known, leads=leads))


@contextmanager
def answering(step: Step) -> Iterator[str]:
    """Give the URL of a server that answers as it likes."""
    with faults.ScriptedServer(step) as server:
        yield server.url


def save(directory: Path, known: dict[str, History]) -> None:
    """Leave state as a daemon does."""
    with running(directory) as (store, _):
        store.keep([(key, history, decided_at(1)) for key, history in known.items()])


def line_of(found: RestoredHistories, config: Config, keys: Sequence[str] = KEYS) -> str:
    """Return the first line of a plan of some targets."""
    return found.describe([target for target in config.targets if target.key in keys])


def test_the_daemon_at_the_configured_address_is_asked_first(
    config: Config, tmp_path: Path
) -> None:
    """A plan continues its histories, state on the disk or not."""
    save(tmp_path / "state", {KEYS[0]: nth(1)})
    known = {KEYS[0]: nth(2), KEYS[1]: nth(3), "shop/Deployment/gone": nth(4)}
    with daemon(known) as address:
        beside = changed(config, listen=address, state_directory=tmp_path / "state")
        found = remembered(beside, None)
    assert found.histories == {KEYS[0]: nth(2), KEYS[1]: nth(3)}
    assert_parts(found.source, f"http://{address}")
    assert (found.after, found.before, found.reasons) == ("", "", ())


@pytest.mark.parametrize(
    ("known", "every", "share"),
    [(1, 1, "the target"), (2, 2, "both targets"), (3, 3, "all 3 targets"), (1, 2, "1 of the 2")],
)
def test_the_line_has_the_share_of_the_targets_with_a_history(
    config: Config, known: int, every: int, share: str
) -> None:
    targets = [replace(config.targets[0], namespace=f"n{number}") for number in range(every)]
    found = RestoredHistories({target.key: nth(1) for target in targets[:known]}, "x remembers")
    assert_parts(found.describe(targets), f"x remembers of {share}")


@pytest.mark.parametrize("host", ["", "0.0.0.0"])  # noqa: S104 - not listened on
def test_a_daemon_on_all_addresses_is_asked_on_loopback(config: Config, host: str) -> None:
    with daemon({KEYS[0]: nth(2)}) as address:
        found = remembered(changed(config, listen=Address(host, address.port)), None)
    assert found.histories.keys() == {KEYS[0]}
    for keys in (KEYS[:1], KEYS[1:]):
        assert_parts(line_of(found, config, keys), f"http://{address}")


def test_histories_of_a_follower_are_used_shifted_to_our_clock(config: Config) -> None:
    with daemon({KEYS[0]: nth(2)}, ahead=-3600.0, leads=False) as address:
        found = remembered(config, Daemon(f"http://{address}"))
    moved = found.histories[KEYS[0]].last_scale_time
    assert moved == pytest.approx(shifted(nth(2), 3600.0).last_scale_time, abs=5)
    assert "not lead" in found.after
    assert line_of(found, config, KEYS[:1]).endswith(found.after)


def test_without_a_daemon_the_state_directory_is_read(config: Config, tmp_path: Path) -> None:
    save(tmp_path, {KEYS[0]: nth(2), KEYS[1]: nth(3)})
    nobody = Address("127.0.0.1", free_port())
    found = remembered(changed(config, listen=nobody, state_directory=tmp_path), None)
    assert found.histories.keys() == set(KEYS)
    assert_parts(found.before, f"http://{nobody}")
    assert_parts(found.source, f"{tmp_path}/autoscaler.db")
    line = line_of(found, config)
    assert line.startswith(f"{found.before}; ")
    assert line.endswith(f"{found.after}")
    assert re.search(r" 20\d\d-.*Z$", found.after)


def test_without_a_daemon_and_state_a_plan_begins_without_histories(
    config: Config, tmp_path: Path
) -> None:
    nobody = Address("127.0.0.1", free_port())
    alone = changed(config, listen=nobody, state_directory=tmp_path / "none")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "autoscaler.db").write_text("targets:\n" * 1000)
    for changes, places in (
        (alone, [f"http://{nobody}", f"{tmp_path}/none"]),
        (config, ["stateDirectory"]),
        (changed(config, state_directory=tmp_path / "bad"), [f"{tmp_path}/bad/autoscaler.db"]),
    ):
        found = remembered(changes, None)
        assert found.histories == {}
        assert len(found.reasons) == len(places)
        for reason, place in zip(found.reasons, places, strict=True):
            assert_parts(reason, place)
        assert line_of(found, config).endswith(f" ({'; '.join(found.reasons)})")


ODD = [
    pytest.param(faults.answer("gone", "404 Not Found"), "another program", id="404"),
    pytest.param(faults.answer("no", "500 Oh no"), "HTTP 500", id="500"),
    pytest.param(faults.answer("<html>"), "not JSON", id="HTML"),
    pytest.param(faults.hang_up, "broke off", id="hang up"),
    pytest.param(faults.answer("", "302 Found", {"Location": "/x"}), "HTTP 302", id="redirect"),
]


@pytest.mark.parametrize(("step", "cause"), ODD)
def test_an_answer_that_is_no_daemons_ends_a_plan_only_with_url(
    config: Config, tmp_path: Path, step: Step, cause: str
) -> None:
    save(tmp_path, {KEYS[0]: nth(2)})
    with answering(step) as url:
        with pytest.raises(PageError) as raised:
            remembered(config, Daemon(url))
        host, _, port = url.removeprefix("http://").partition(":")
        beside = changed(config, listen=Address(host, int(port)), state_directory=tmp_path)
        found = remembered(beside, None)
    assert_parts(raised.value, url, cause)
    assert found.histories.keys() == {KEYS[0]}
    assert_parts(found.source, f"{tmp_path}/autoscaler.db")
    assert_parts(*found.reasons, cause)
    assert_parts(line_of(found, config), *found.reasons)


def broken() -> Iterator[bytes]:
    yield from islice(lines(clock.wall(), {key: nth(1) for key in KEYS}, leads=True), 2)
    raise OverflowError("a defect")


@pytest.mark.parametrize(
    ("shown", "defects", "cause"),
    [(None, [], "HTTP 503"), (broken, [OverflowError], "broke off")],
    ids=["starting", "failing-half-way"],
)
def test_a_daemon_without_a_whole_page_ends_a_plan_with_url(
    config: Config, shown: Callable[[], Iterator[bytes]] | None, defects: list[type], cause: str
) -> None:
    with serving(shown, defects) as address, pytest.raises(PageError, match=cause):
        remembered(config, Daemon(f"http://{address}"))


def test_a_daemon_of_other_targets_is_passed_over(config: Config) -> None:
    """It may be another cluster's."""
    with daemon({"other/Deployment/a": nth(2)}) as address:
        found = remembered(changed(config, listen=address), None)
    assert found.histories == {}
    assert_parts(found.reasons[0], f"http://{address}")


@pytest.mark.parametrize(
    ("step", "limits", "cause"),
    [
        (faults.hang, PageLimits(seconds=0.5), "time"),
        (faults.drip("body", 0.05), PageLimits(seconds=0.5), "time"),
        (faults.answer("x" * 2000), PageLimits(most_bytes=1000), "more than"),
        (faults.answer("x" * 2000), PageLimits(most_bytes_of_a_line=1000), "more than"),
    ],
    ids=["silent", "dripping", "endless", "endless-line"],
)
def test_a_page_has_bounds_in_time_and_in_size(step: Step, limits: PageLimits, cause: str) -> None:
    with answering(step) as url, pytest.raises(PageError, match=cause):
        read_page(Daemon(url), HISTORIES, list, limits)


def test_a_page_of_thousands_of_lines_is_read_completely() -> None:
    known = {f"shop/Deployment/{number}": nth(number) for number in range(3000)}
    with daemon(known) as address:
        sent = read_page(Daemon(f"http://{address}"), HISTORIES, list, PageLimits())
    assert [json.loads(line)["target"] for line in sent[1:]] == list(known)


def test_a_page_is_sent_as_it_is_made() -> None:
    gate = threading.Event()

    def slow() -> Iterator[bytes]:
        yield b"first\n"
        gate.wait(10)
        yield b"second\n"

    with serving(slow) as address:
        connection = HTTPConnection(address.host, address.port, timeout=10)
        connection.request("GET", HISTORIES)
        with connection.getresponse() as response:
            assert response.headers["Content-Length"] is None
            assert response.readline() == b"first\n"
            gate.set()
            assert response.read() == b"second\n"
