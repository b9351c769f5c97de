"""The unit under a real systemd: the sandbox lets the daemon do its work, and it is looked after.

The daemon is the one under test, with the tests' interpreter and libraries, in /opt/autoscaler.
"""

import base64
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.service.test_install import documented_commands
from tests.service.test_unit import ROOT, UNIT
from tests.worlds.cluster.scripted import Answer, ScriptedServer
from tests.worlds.systemd.systemd import Systemd, SystemdUnavailable
from tests.worlds.waiting import wait_until
from tests.worlds.world import World

SERVICE = UNIT.name
DROP_IN = """\
[Service]
Environment=LD_LIBRARY_PATH={libraries}
WatchdogSec={watchdog}
RestartSec=100ms
"""
WATCHDOG_SECONDS = 6
"""Within it a busy machine lets some syncs end."""
PATIENCE_SECONDS = 120.0
(START,) = [
    command.removeprefix("sudo ")
    for command in documented_commands("As a systemd service")
    if " enable " in command
]
PROGRAM = "#!/opt/autoscaler/bin/python3\nfrom autoscaler.app import main\nmain()\n"


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    """Boot a systemd that has the unit and the daemon installed; its configuration is missing."""
    folder = tmp_path / "systemd"
    folder.mkdir()
    prefix = Path(sys.base_prefix)
    inside = Path("/usr" if prefix == Path("/usr") else "/opt/python")
    binds = {
        Path(sysconfig.get_path("purelib")): "/opt/site-packages",
        ROOT / "autoscaler": "/opt/source/autoscaler",
    }
    if inside != prefix:
        binds[prefix] = str(inside)
    try:
        booting = Systemd(folder, binds)
        _install(booting, inside)
        with booting:
            yield booting
    except SystemdUnavailable as reason:
        pytest.skip(f"no systemd of the tests' own: {reason}")


def _install(systemd: Systemd, python: Path) -> None:
    """Make the virtual environment, with the unit where the package has it."""
    environment = systemd.root / "opt" / "autoscaler"
    executable = python / "bin" / f"python{sysconfig.get_python_version()}"
    packages = environment / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    packages.mkdir(parents=True)
    (packages / "parts.pth").write_text("/opt/source\n/opt/site-packages\n")
    (environment / "pyvenv.cfg").write_text(f"home = {executable.parent}\n")
    (environment / "bin").mkdir()
    (environment / "bin" / "python3").symlink_to(executable)
    program = environment / "bin" / "autoscaler"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    share = environment / "share" / "autoscaler"
    share.mkdir(parents=True)
    (share / SERVICE).write_text(UNIT.read_text())
    units = systemd.etc / "systemd" / "system"
    (units / f"{SERVICE}.d").mkdir(parents=True)
    drop_in = DROP_IN.format(libraries=python / "lib", watchdog=WATCHDOG_SECONDS)
    (units / f"{SERVICE}.d" / "test.conf").write_text(drop_in)


def _configure(systemd: Systemd, document: Mapping[str, object], kubeconfig: str) -> Path:
    folder = systemd.etc / "autoscaler"
    secrets = folder / "secrets"
    secrets.mkdir(parents=True, mode=0o700)
    credentials = yaml.safe_load(Path(kubeconfig).read_text())
    cluster = credentials["clusters"][0]["cluster"]
    issuer = Path(cluster.pop("certificate-authority")).read_bytes()
    cluster["certificate-authority-data"] = base64.b64encode(issuer).decode()
    (secrets / "kubeconfig").write_text(yaml.safe_dump(credentials))
    (secrets / "kubeconfig").chmod(0o600)
    file = folder / "autoscaler.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def test_the_unit_reloads_restarts_after_a_hang_and_stops_cleanly(
    systemd: Systemd, world: World
) -> None:
    world.deploy("web")
    world.want(2)
    document = world.document(world.target("web"), listen=None)
    file = _configure(systemd, document, world.environment["KUBECONFIG"])

    started = systemd.run(*START.split())
    assert started.returncode == 0, started.stderr + _log(systemd)
    wait_until("two replicas", lambda: world.replicas("web") == 2, timeout=PATIENCE_SECONDS)
    _assert_confined(systemd)

    assert systemd.run("systemctl", "reload", SERVICE).returncode == 0
    file.write_text(file.read_text().replace("maxReplicas: 10", "maxReplicas: ten"))
    assert systemd.run("systemctl", "reload", SERVICE).returncode == 0
    wait_until("the refusal", lambda: "refused" in systemd.show(SERVICE, "StatusText"))
    assert systemd.show(SERVICE, "SubState") == "running"
    file.write_text(file.read_text().replace("maxReplicas: ten", "maxReplicas: 10"))
    wait_until("automatic reload", lambda: "refused" not in systemd.show(SERVICE, "StatusText"))

    wait_until("watchdog fed", lambda: _fed_for(systemd) > WATCHDOG_SECONDS)
    assert systemd.show(SERVICE, "NRestarts") == "0"
    systemd.run("systemctl", "kill", "--signal=STOP", SERVICE)
    wait_until(
        "a restart", lambda: systemd.show(SERVICE, "NRestarts") == "1", timeout=PATIENCE_SECONDS
    )
    wait_until("it runs again", partial(_runs, systemd), timeout=PATIENCE_SECONDS)
    # Messages reach the journal with a delay.
    wait_until("watchdog in journal", lambda: "Watchdog timeout" in _log(systemd))
    wait_until("threads in journal", lambda: "call first" in _log(systemd))
    world.want(4)
    wait_until("four replicas", lambda: world.replicas("web") == 4, timeout=PATIENCE_SECONDS)
    assert "clock_set" not in _log(systemd), "the restart is known to be of the same boot"

    assert systemd.run("systemctl", "stop", SERVICE).returncode == 0
    assert systemd.show(SERVICE, "Result") == "success"
    assert systemd.show(SERVICE, "ExecMainStatus") == "0"
    assert systemd.run("ls", "/var/lib/autoscaler/").stdout, "the state is kept"


def test_the_unit_waits_for_files_that_come_late_at_boot(systemd: Systemd, tmp_path: Path) -> None:
    with ScriptedServer(Answer(404)) as server:
        folder = systemd.etc / "autoscaler"
        (folder / "secrets").mkdir(parents=True)
        prometheus = {"url": server.url, "bearerTokenFile": "token"}
        document: dict[str, object] = {"prometheus": prometheus, "listen": None, "targets": []}
        (folder / "autoscaler.yaml").write_text(yaml.safe_dump(document))
        systemd.run(*START.split(), "--no-block")
        # The unit's own ExecMainStatus is that for the moment between an end and the next start.
        for code, late in (("243", folder / "secrets" / "kubeconfig"), ("2", folder / "token")):
            wait_until(
                f"repeated exit {code}",
                lambda code=code: _log(systemd).count(f"code=exited, status={code}/") > 6,  # type: ignore[misc] # bound now
                timeout=PATIENCE_SECONDS,
            )
            late.write_text(server.write_kubeconfig(tmp_path / "k").read_text())
        wait_until("it runs", partial(_runs, systemd), timeout=PATIENCE_SECONDS)


def _runs(systemd: Systemd) -> bool:
    return systemd.show(SERVICE, "SubState") == "running"


def _log(systemd: Systemd) -> str:
    """Return what the journal holds of the service so far."""
    return systemd.run("journalctl", "--output=cat", f"--unit={SERVICE}").stdout


def _fed_for(systemd: Systemd) -> float:
    """Return how many seconds after the start the watchdog was fed last."""
    fed, started = (
        int(systemd.show(SERVICE, f"{name}TimestampMonotonic")) / 1e6
        for name in ("Watchdog", "ExecMainStart")
    )
    return fed - started


def _assert_confined(systemd: Systemd) -> None:
    """Look that the process is nobody, may do nothing special, and has its state to itself."""
    process = systemd.show(SERVICE, "MainPID")
    text = systemd.run("cat", f"/proc/{process}/status").stdout
    status = dict(line.split(":\t", 1) for line in text.splitlines())
    assert "0" not in status["Uid"].split()
    assert int(status["CapBnd"], 16) == 0
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    state = systemd.run("stat", "--format=%a", "/var/lib/private/autoscaler").stdout
    assert state == "700\n"
