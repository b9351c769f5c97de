"""What a plan goes on with, and what it says of that in its first line."""

import json
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
from tests.worlds.daemon import write_config
from tests.worlds.process import free_port
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import Step

KEYS = ("shop/Deployment/a", "shop/Deployment/b")
FRESH = (
    "decides like a daemon that has just started: no target scales down before its stabilization "
    "window has passed and its ranges are complete"
)


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
    """Serve the pages of a daemon, and see in the end that it has told of these defects."""
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


def told(found: RestoredHistories, config: Config, keys: Sequence[str] = KEYS) -> str:
    """Return the first line of a plan of some targets."""
    return found.describe([target for target in config.targets if target.key in keys])


def test_the_daemon_at_the_configured_address_is_asked_first(
    config: Config, tmp_path: Path
) -> None:
    """Its histories are gone on with, state on the disk or not."""
    save(tmp_path / "state", {KEYS[0]: nth(1)})
    known = {KEYS[0]: nth(2), KEYS[1]: nth(3), "shop/Deployment/gone": nth(4)}
    with daemon(known) as address:
        beside = changed(config, listen=address, state_directory=tmp_path / "state")
        found = remembered(beside, None)
    assert found.histories == {KEYS[0]: nth(2), KEYS[1]: nth(3)}
    source = f"continues with the history that the daemon at http://{address} remembers of"
    assert told(found, config) == f"{source} both targets"
    assert told(found, config, KEYS[:1]) == f"{source} the target"


def test_a_share_that_is_the_whole_is_told_in_words(config: Config) -> None:
    """Three of three are all of them."""
    targets = [replace(config.targets[0], namespace=name) for name in "xyz"]
    found = RestoredHistories({target.key: nth(1) for target in targets}, "x remembers")
    assert found.describe(targets) == "continues with the history that x remembers of all 3 targets"


@pytest.mark.parametrize("host", ["", "0.0.0.0"])  # noqa: S104 - not listened on
def test_a_daemon_on_all_addresses_is_asked_on_loopback(config: Config, host: str) -> None:
    """As in a pod."""
    with daemon({KEYS[0]: nth(2)}) as address:
        found = remembered(changed(config, listen=Address(host, address.port)), None)
    line = told(found, config)
    assert f"the daemon at http://{address} remembers of 1 of the 2 targets; none of the" in line
    nothing = f" (the daemon at http://{address} remembers nothing of them)"
    assert told(found, config, KEYS[1:]) == f"{FRESH}{nothing}"


def test_a_daemon_that_follows_says_so(config: Config) -> None:
    """Its histories are as good as they are."""
    with daemon({KEYS[0]: nth(2)}, leads=False) as address:
        found = remembered(config, Daemon(f"http://{address}"))
    assert told(found, config, KEYS[:1]).endswith("remembers of the target, and does not lead now")


def test_histories_move_to_our_clock(config: Config) -> None:
    """The daemon's is an hour behind."""
    with daemon({KEYS[0]: nth(2)}, ahead=-3600.0) as address:
        moved = remembered(config, Daemon(f"http://{address}")).histories[KEYS[0]]
    assert moved.last_scale_time == pytest.approx(shifted(nth(2), 3600.0).last_scale_time, abs=5)


def test_without_a_daemon_the_state_directory_is_read(config: Config, tmp_path: Path) -> None:
    """As a daemon does that starts; the line begins with that nobody listens."""
    save(tmp_path, {KEYS[0]: nth(2), KEYS[1]: nth(3)})
    nobody = Address("127.0.0.1", free_port())
    found = remembered(changed(config, listen=nobody, state_directory=tmp_path), None)
    assert found.histories.keys() == set(KEYS)
    line = told(found, config)
    assert line.startswith(
        f"no daemon listens at http://{nobody}; continues with the history that "
        f"{tmp_path}/autoscaler.db held of "
        "both targets when it was last saved, at 20"
    )
    assert line.endswith("Z")


def test_with_neither_it_is_a_daemon_that_has_just_started(config: Config, tmp_path: Path) -> None:
    """And the line says where was looked."""
    nobody = Address("127.0.0.1", free_port())
    alone = changed(config, listen=nobody, state_directory=tmp_path / "none")
    assert told(remembered(alone, None), config) == (
        f"{FRESH} (no daemon listens at http://{nobody}; there is no state in {tmp_path}/none)"
    )
    assert told(remembered(config, None), config) == f"{FRESH} (stateDirectory is null)"


def test_state_that_cannot_be_read_is_told_in_the_line(config: Config, tmp_path: Path) -> None:
    """A plan goes on without it."""
    (tmp_path / "autoscaler.db").write_text("targets:\n" * 1000)
    line = told(remembered(changed(config, state_directory=tmp_path), None), config)
    assert line.startswith(f"{FRESH} ({tmp_path}/autoscaler.db cannot be read: ")


ODD = [
    pytest.param(
        faults.answer("gone", "404 Not Found"), "older version, another program", id="404"
    ),
    pytest.param(faults.answer("no", "500 Oh no"), "answered HTTP 500", id="500"),
    pytest.param(
        faults.answer("<html>"), "is not understood: it sent a line that is not JSON", id="HTML"
    ),
    pytest.param(faults.hang_up, "broke off", id="hang up"),
    pytest.param(faults.answer("", "302 Found", {"Location": "/x"}), "HTTP 302", id="redirect"),
]


@pytest.mark.parametrize(("step", "said"), ODD)
def test_what_answers_but_is_no_daemon_is_told(
    config: Config, tmp_path: Path, step: Step, said: str
) -> None:
    """With --url it ends the plan; else it is said beside what is gone on with."""
    save(tmp_path, {KEYS[0]: nth(2)})
    with answering(step) as url:
        with pytest.raises(PageError, match=f"the daemon at {url} .*{said}"):
            remembered(config, Daemon(url))
        host, _, port = url.removeprefix("http://").partition(":")
        beside = changed(config, listen=Address(host, int(port)), state_directory=tmp_path)
        line = told(remembered(beside, None), config)
    assert line.startswith(
        f"continues with the history that {tmp_path}/autoscaler.db held of 1 of the 2 targets"
    )
    assert said in line


def test_a_daemon_that_starts_says_so(config: Config) -> None:
    """It listens before it has read its state."""
    with (
        serving(None) as address,
        pytest.raises(PageError, match="answered HTTP 503: the daemon starts"),
    ):
        remembered(config, Daemon(f"http://{address}"))


def test_a_daemon_of_other_targets_is_not_ours(config: Config) -> None:
    """It may be another cluster's."""
    with daemon({"other/Deployment/a": nth(2)}) as address:
        line = told(remembered(changed(config, listen=address), None), config)
    assert line.startswith(FRESH)
    assert f"the daemon at http://{address} knows none of the targets" in line


def test_a_page_has_bounds_in_time_and_in_size() -> None:
    """A server that says nothing, drips or never ends is given up."""
    for slow in (faults.hang, faults.drip("body", 0.05)):
        with answering(slow) as url, pytest.raises(PageError, match="did not answer in time"):
            read_page(Daemon(url), HISTORIES, list, PageLimits(seconds=0.5))
    for limits in (PageLimits(most_bytes=1000), PageLimits(most_bytes_of_a_line=1000)):
        with (
            answering(faults.answer("x" * 2000)) as url,
            pytest.raises(PageError, match="more than any daemon does"),
        ):
            read_page(Daemon(url), HISTORIES, list, limits)


def test_a_large_page_comes_compressed_and_whole() -> None:
    """Thousands of lines, whatever chunks they come in."""
    known = {f"shop/Deployment/{number}": nth(number) for number in range(3000)}
    with daemon(known) as address:
        sent = read_page(Daemon(f"http://{address}"), HISTORIES, list, PageLimits())
    assert [json.loads(line)["target"] for line in sent[1:]] == list(known)


def test_a_page_is_sent_as_it_is_made() -> None:
    """The first line is there before the second is made, and no length is told before."""
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


def test_a_page_that_fails_half_way_is_told_to_both(config: Config) -> None:
    """To the daemon's log, and to whoever reads it."""

    def broken() -> Iterator[bytes]:
        yield from islice(lines(clock.wall(), {key: nth(1) for key in KEYS}, leads=True), 2)
        raise OverflowError("a defect")

    with (
        serving(broken, [OverflowError]) as address,
        pytest.raises(PageError, match="broke off in the middle of its answer"),
    ):
        remembered(config, Daemon(f"http://{address}"))
