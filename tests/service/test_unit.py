"""systemd/autoscaler.service, as systemd's own tools judge it."""

import re
import subprocess
from pathlib import Path

from autoscaler.config.settings import STATE_DIRECTORY
from autoscaler.daemon.service import LONGEST_SYNC_SECONDS
from tests.prometheus.server import required_program

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
    """Return the values that the unit gives to a setting."""
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


def test_it_exposes_next_to_nothing() -> None:
    """`systemd-analyze security` rates it 1.5 or lower, of 10."""
    report = analyze("security", "--offline=true", "--no-pager", str(UNIT))
    found = re.search(r"exposure level for autoscaler.service: (\d+\.\d+)", report)
    assert found, report
    assert float(found[1]) <= MOST_EXPOSED, report


def test_it_is_a_sound_unit(tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to complain of, where the programs are installed."""
    copy = tmp_path / UNIT.name
    copy.write_text(re.sub(r"^(Exec\w+=)\S+", r"\1/bin/sh", UNIT.read_text(), flags=re.MULTILINE))
    analyze("verify", "--man=no", "--recursive-errors=no", str(copy))


def test_it_fits_the_daemon() -> None:
    """The state has its folder, a stop waits for the longest sync, a bad file is not retried."""
    assert settings("StateDirectory") == [STATE_DIRECTORY.removeprefix("/var/lib/")]
    (stop,) = settings("TimeoutStopSec")
    assert float(stop.removesuffix("s")) > LONGEST_SYNC_SECONDS
    # The exit code of `autoscaler run` for a configuration that is refused.
    assert settings("RestartPreventExitStatus") == ["2"]
