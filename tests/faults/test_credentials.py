"""Credentials are replaced while syncs run: no sync fails, and no secret is logged."""

import base64
import itertools
import json
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.core.observation import Scale
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.writes import AcceptedWrite
from autoscaler.kubernetes import Scales
from tests.worlds.certificates import self_signed
from tests.worlds.cluster.connecting import connect
from tests.worlds.daemon import DaemonProcess, Document
from tests.worlds.faults.loads import HIGH, LOW, Workloads, metric_of
from tests.worlds.proxies import plays
from tests.worlds.proxies.http import Exchange, FaultProxy
from tests.worlds.waiting import wait_until

_ROTATIONS = 4
_PERIOD_SECONDS = 3
_SWING_SECONDS = 2.8
"""Nearly the period, so that nearly every sync finds another load."""
_SECRET = "s3cret"  # noqa: S105 - what no line may hold
_USER = "autoscaler"


class Gate:
    """A server's door, and the file of the only secret that opens it.

    ``patient`` says that the secret before is refused only when the new one has come; else it is
    refused as soon as the file is written.
    """

    def __init__(self, file: Path, inside: str, *, basic: bool = False, patient: bool) -> None:
        self.file = file
        self._inside = inside
        self._basic = basic
        self._patient = patient
        self._valid: frozenset[str] = frozenset()
        self._came: set[str] = set()
        self._count = itertools.count(1)
        self._refuse = plays.failure("401 Unauthorized", "Unauthorized", "Unauthorized")
        self.rotate()

    async def __call__(self, exchange: Exchange) -> None:
        shown = exchange.request.authorization
        if shown in self._valid:
            self._came.add(shown)
            await exchange.forward(exchange.request.with_header("Authorization", self._inside))
        else:
            await self._refuse(exchange)

    def rotate(self) -> str:
        """Replace the secret, as a mounted Secret is, and return what a request shows then."""
        secret = f"{_SECRET}-{next(self._count)}"
        pair = base64.b64encode(f"{_USER}:{secret}".encode()).decode()
        shown = f"Basic {pair}" if self._basic else f"Bearer {secret}"
        self._valid |= {shown}
        part = self.file.with_suffix(".part")
        part.touch(mode=0o600)
        part.write_text(secret)
        part.rename(self.file)
        if not self._patient:
            self._valid = frozenset({shown})
        return shown

    def wait_for(self, shown: str) -> None:
        """Wait until a request has shown it; from then on nothing else is accepted."""
        wait_until("credentials shown", lambda: shown in self._came)
        self._valid = frozenset({shown})


def exec_plugin(folder: Path, token: Path) -> dict[str, object]:
    """Return a user whose plugin tells the file's token, good for a minute."""
    plugin = folder / "plugin"
    plugin.write_text(
        f"""#!/bin/sh
cat <<END
{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{
  "token": "$(cat {token})",
  "expirationTimestamp": "$(date -u -d '+60 seconds' +%Y-%m-%dT%H:%M:%SZ)"}}}}
END
"""
    )
    plugin.chmod(0o700)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}


def wait_at_rest(daemon: DaemonProcess, *targets: str) -> None:
    """Wait until syncs that began from now on wrote nothing: a stop cuts no try of a request."""
    before = {target: len(daemon.syncs(target)) for target in targets}
    for target in targets:
        wait_until(
            f"{target} is at rest",
            lambda target=target: any(  # type: ignore[misc] # bound now
                "write" not in line for line in daemon.syncs(target)[before[target] + 1 :]
            ),
        )


@pytest.mark.parametrize(
    ("basic", "plugin"),
    [(False, False), (True, True)],
    ids=["a bearer token file and a token file", "a password file and an exec plugin"],
)
def test_no_sync_fails_while_credentials_rotate(
    workloads: Workloads, tmp_path: Path, *, basic: bool, plugin: bool
) -> None:
    names = [f"{kind}-{'basic' if basic else 'bearer'}" for kind in ("one", "two")]
    for name in names:
        workloads.begin(name, LOW, LOW)
    plane = workloads.plane
    metrics = Gate(tmp_path / "prometheus", "", basic=basic, patient=True)
    token = f"Bearer {workloads.token}"
    # Tokens of a plugin overlap: it is asked for the next one before the last is refused.
    objects = Gate(tmp_path / "kubernetes", token, patient=plugin)
    sign_in: Document = {"bearerTokenFile": str(metrics.file)}
    if basic:
        sign_in = {"basicAuth": {"username": _USER, "passwordFile": str(metrics.file)}}
    with (
        FaultProxy(workloads.prometheus.url) as to_prometheus,
        FaultProxy(plane.url, ca_file=plane.ca_file) as to_api,
        to_prometheus.playing(metrics),
        to_api.playing(objects),
    ):
        # Else a machine that pauses is warned of: a sync has no time for it, a scrape has failed.
        queries = {metric_of(name): f"sum(last_over_time({metric_of(name)}[1m]))" for name in names}
        config = workloads.configuration(*names, syncPeriod=f"{_PERIOD_SECONDS}s", queries=queries)
        config["prometheus"] = {"url": to_prometheus.url, **sign_in}
        user = exec_plugin(tmp_path, objects.file) if plugin else {"tokenFile": str(objects.file)}
        with workloads.debugged(config, to_api, **user) as daemon:
            daemon.wait_event("started")
            with workloads.swinging(*names, every=_SWING_SECONDS):
                for _ in range(_ROTATIONS):
                    shown = metrics.rotate(), objects.rotate()
                    metrics.wait_for(shown[0])
                    objects.wait_for(shown[1])
            wait_at_rest(daemon, *map(workloads.key, names))
            assert daemon.stop() == 0
            assert [line for line in daemon.lines if line["level"] not in {"debug", "info"}] == []
            assert _SECRET not in json.dumps(daemon.lines)


def test_no_request_fails_while_a_service_account_token_rotates(
    workloads: Workloads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "in-cluster"
    workloads.deploy(name, LOW)
    ref = ScaleTargetRef("apps/v1", "Deployment", name)
    pair = self_signed(tmp_path, "localhost")
    pair.certificate.rename(tmp_path / "ca.crt")
    gate = Gate(tmp_path / "token", f"Bearer {workloads.token}", patient=False)
    plane = workloads.plane
    with (
        FaultProxy(
            plane.url, ca_file=plane.ca_file, certificate=(tmp_path / "ca.crt", pair.key)
        ) as to_api,
        to_api.playing(gate),
    ):
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "localhost")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(to_api.port))
        with connect(service_account=tmp_path) as api:
            scales = Scales(api)
            for number in range(5 * _ROTATIONS):
                if number % 5 == 0:
                    gate.rotate()
                deadline = clock.monotonic() + 10
                scale = scales.read(workloads.namespace, ref, deadline)
                assert isinstance(scale, Scale)
                replicas = HIGH if number % 2 else LOW + 1
                outcome = scales.write(workloads.namespace, ref, scale, replicas, deadline)
                assert isinstance(outcome, AcceptedWrite)
