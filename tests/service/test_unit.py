"""systemd/autoscaler.service, as systemd's own tools judge it."""

import re
import subprocess
from pathlib import Path

from autoscaler.config.settings import STATE_DIRECTORY
from autoscaler.daemon.schedule import HANGS_AFTER_SECONDS
from autoscaler.daemon.service import LONGEST_SYNC_SECONDS
from tests.worlds.prometheus.server import required_program

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "systemd" / "autoscaler.service"
MOST_EXPOSED = 1.5


def analyze(*arguments: str) -> str:
    """Return what systemd-analyze prints; what it complains of fails the test."""
    program = required_program("systemd-analyze", package="systemd")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


def settings(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


def test_the_unit_has_a_low_exposure() -> None:
    """`systemd-analyze security` rates it 1.5 or lower, of 10."""
    report = analyze("security", "--offline=true", "--no-pager", str(UNIT))
    found = re.search(r"exposure level for autoscaler.service: (\d+\.\d+)", report)
    assert found, report
    assert float(found[1]) <= MOST_EXPOSED, report


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(re.sub(r"^(Exec\w+=)\S+", r"\1/bin/sh", UNIT.read_text(), flags=re.MULTILINE))
    analyze("verify", "--man=no", "--recursive-errors=no", str(copy))


def test_the_unit_fits_the_daemon() -> None:
    assert settings("StateDirectory") == [STATE_DIRECTORY.removeprefix("/var/lib/")]
    (stop,) = settings("TimeoutStopSec")
    assert float(stop.removesuffix("s")) > LONGEST_SYNC_SECONDS


def test_a_reload_that_waits_is_not_taken_for_a_hang() -> None:
    """All syncs end before a reload gives up, and it does long before the watchdog would bite."""
    (watchdog,) = settings("WatchdogSec")
    assert LONGEST_SYNC_SECONDS * 1.25 < HANGS_AFTER_SECONDS
    assert float(watchdog.removesuffix("s")) > HANGS_AFTER_SECONDS * 1.25


def test_the_unit_is_restarted_after_every_exit_code() -> None:
    assert settings("Restart") == ["always"]
    assert settings("StartLimitIntervalSec") == ["0"]
    assert settings("RestartPreventExitStatus") == []
