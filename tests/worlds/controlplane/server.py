"""A Kubernetes control plane on free ports of 127.0.0.1, in a temporary folder."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Self

import requests

from tests.worlds.controlplane import binaries, credentials, flags
from tests.worlds.controlplane.api import Api
from tests.worlds.process import ServerProcess

DEFAULT_CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "replicationcontroller-controller",
    "garbage-collector-controller",
    "namespace-controller",
    # Without it the cluster roles view, edit and admin are empty.
    "clusterrole-aggregation-controller",
)

# Users who may do nothing until a test binds a role to them.
DEFAULT_USERS: Mapping[str, Sequence[str]] = MappingProxyType(
    {"autoscaler": (), "viewer": (), "nobody": ()}
)

_ADMIN = "admin"


class ControlPlane:
    """etcd, kube-apiserver and, if any controller is named, kube-controller-manager.

    `users` maps user names to their groups; each of them gets a token, and `admin` one in the group
    system:masters. A flag in `apiserver_flags` overrides this class's own flag of that name.

    Construction raises ControlPlaneUnavailable where the binaries are missing, `start` raises
    ServerFailedError with the end of the log of the server that failed.
    """

    def __init__(
        self,
        *,
        controllers: Sequence[str] = DEFAULT_CONTROLLERS,
        apiserver_flags: Sequence[str] = (),
        users: Mapping[str, Sequence[str]] = DEFAULT_USERS,
        report: Callable[[str], None] | None = None,
    ) -> None:
        needed = [binaries.ETCD, binaries.APISERVER]
        if controllers:
            needed.append(binaries.CONTROLLER_MANAGER)
        paths = binaries.locate(needed, report)

        self._folder = tempfile.TemporaryDirectory(
            prefix="controlplane-", ignore_cleanup_errors=True
        )
        self._files = files = flags.Files(Path(self._folder.name))
        self._ports = ports = flags.Ports()
        credentials.write_service_account_key(files.service_account_key)
        groups = {**users, _ADMIN: ("system:masters",)}
        self._tokens = credentials.write_token_file(files.tokens, groups)
        self.url = f"https://127.0.0.1:{ports.apiserver}"
        """The apiserver's address, the same after a restart."""
        self.data_dir = files.folder
        """The folder of everything, which `stop` removes."""
        self.ca_file = files.issuer
        """The certificate with which clients verify the apiserver."""
        self.kubeconfig = files.kubeconfig
        """The administrator's kubeconfig."""
        self.admin_token = self._tokens[_ADMIN]
        """The token of a user to whom everything is allowed."""

        self._etcd = self._server(flags.etcd(paths[binaries.ETCD], ports, files))
        self._apiserver = self._server(
            flags.apiserver(paths[binaries.APISERVER], ports, files, apiserver_flags)
        )
        self._manager: ServerProcess | None = None
        if controllers:
            path = paths[binaries.CONTROLLER_MANAGER]
            self._manager = self._server(flags.controller_manager(path, ports, files, controllers))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pids(self) -> dict[str, int]:
        """The process id of each server that runs, by the name of its binary."""
        return {server.name: server.pid for server in self._servers() if server.pid is not None}

    def token_for(self, user: str) -> str:
        """Return the token of a user named at construction."""
        return self._tokens[user]

    def write_kubeconfig(self, path: Path, token: str) -> Path:
        """Write a kubeconfig that authenticates with the token, and return its path."""
        credentials.write_kubeconfig(path, self.url, self.ca_file, token)
        return path

    def api(self, token: str | None = None) -> Api:
        """Return a new session with the apiserver, the administrator's by default."""
        return Api(self.url, token or self.admin_token, self.ca_file)

    def start(self) -> None:
        """Start every server and wait until each is ready; stop them all if one fails."""
        try:
            self._start_etcd()
            self.start_apiserver()
            if self._manager:
                self._start_controllers(self._manager)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop every server and remove the folder."""
        # The apiserver releases its leases in etcd on its way out, so etcd ends last.
        for server in (self._apiserver, self._manager):
            if server:
                server.terminate()
        for server in (self._manager, self._apiserver, self._etcd):
            if server:
                server.stop()
        self._folder.cleanup()

    def start_apiserver(self) -> None:
        """Start the apiserver and wait until it is ready."""
        self._apiserver.start()
        if not self.ca_file.exists():
            self._apiserver.wait_ready(self._files.serving_key.exists)
            credentials.write_issuer(self._files.serving_certificate, self.ca_file)
            self.write_kubeconfig(self.kubeconfig, self.admin_token)
        with self.api() as admin:
            self._apiserver.wait_ready(lambda: admin.healthy("/readyz"))

    def stop_apiserver(self, grace: float = 10.0) -> None:
        """Stop the apiserver; its data stay in etcd. Without grace it is killed, as in a crash."""
        self._apiserver.stop(grace)

    def restart_apiserver(self, grace: float = 10.0) -> None:
        """Stop the apiserver and start it on the same port with the same certificate."""
        self.stop_apiserver(grace)
        self.start_apiserver()

    def _start_controllers(self, manager: ServerProcess) -> None:
        """Start the controller manager and wait until it is healthy."""
        manager.start()
        address = f"https://127.0.0.1:{self._ports.controller_manager}"
        with Api(address, self.admin_token, self.ca_file) as probe:
            manager.wait_ready(lambda: probe.healthy("/healthz"))

    def _start_etcd(self) -> None:
        """Start etcd and wait until it has elected itself."""
        self._etcd.start()
        address = f"http://127.0.0.1:{self._ports.etcd}/health"
        with requests.Session() as session:
            session.trust_env = False

            def healthy() -> bool:
                try:
                    return session.get(address, timeout=2).status_code == 200
                except requests.RequestException:
                    return False

            self._etcd.wait_ready(healthy)

    def _servers(self) -> list[ServerProcess]:
        return [server for server in (self._etcd, self._apiserver, self._manager) if server]

    def _server(self, argv: list[str]) -> ServerProcess:
        return ServerProcess(argv, self.data_dir / f"{Path(argv[0]).name}.log")
