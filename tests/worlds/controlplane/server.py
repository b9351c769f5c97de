"""A Kubernetes control plane on free ports of 127.0.0.1, in a temporary folder."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Self

from tests.worlds.controlplane import binaries, credentials
from tests.worlds.controlplane.api import Api
from tests.worlds.process import ServerProcess, free_port

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


class Files:
    """The files of one control plane, below one folder."""

    def __init__(self, folder: Path) -> None:
        self.etcd_data = folder / "etcd"
        self.certificates = folder / "certificates"
        """Where the apiserver writes its serving certificate, its issuer behind it, and its key."""
        self.serving_certificate = self.certificates / "apiserver.crt"
        self.serving_key = self.certificates / "apiserver.key"
        """Written after the certificate."""
        self.issuer = folder / "ca.crt"
        """The issuer alone, with which clients verify the servers."""
        self.service_account_key = folder / "service-account.key"
        """The key that signs service account tokens."""
        self.tokens = folder / "tokens.csv"
        self.kubeconfig = folder / "admin.kubeconfig"


@dataclass(frozen=True)
class _Ports:
    etcd: int = field(default_factory=free_port)
    etcd_peer: int = field(default_factory=free_port)
    apiserver: int = field(default_factory=free_port)
    controller_manager: int = field(default_factory=free_port)


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
        self.data_dir = Path(self._folder.name)
        """The folder of everything, which `stop` removes."""
        self._files = files = Files(self.data_dir)
        self._ports = ports = _Ports()
        credentials.write_service_account_key(files.service_account_key)
        groups = {**users, _ADMIN: ("system:masters",)}
        self._tokens = credentials.write_token_file(files.tokens, groups)
        self.url = f"https://127.0.0.1:{ports.apiserver}"
        """The apiserver's address, the same after a restart."""
        self.ca_file = files.issuer
        """The certificate with which clients verify the apiserver."""
        self.kubeconfig = files.kubeconfig
        """The administrator's kubeconfig."""
        self.admin_token = self._tokens[_ADMIN]
        """The token of a user with all rights."""

        self._etcd = self._server(_etcd(paths[binaries.ETCD], ports, files))
        self._apiserver = self._server(
            _apiserver(paths[binaries.APISERVER], ports, files, apiserver_flags)
        )
        self._manager: ServerProcess | None = None
        if controllers:
            path = paths[binaries.CONTROLLER_MANAGER]
            self._manager = self._server(_manager(path, ports, files, controllers))

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
        return self._tokens[user]

    def write_kubeconfig(self, path: Path, token: str) -> Path:
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
                self._manager.start()
                address = f"https://127.0.0.1:{self._ports.controller_manager}"
                with Api(address, self.admin_token, self.ca_file) as probe:
                    self._manager.wait_ready(lambda: probe.healthy("/healthz"))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop every server and remove the folder."""
        # The apiserver releases its leases in etcd on its way out, so etcd ends last.
        etcd, *others = self._servers()
        for server in others:
            server.terminate()
        for server in (*others, etcd):
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

    def _start_etcd(self) -> None:
        """Start etcd and wait until it has elected itself."""
        self._etcd.start()
        with Api(f"http://127.0.0.1:{self._ports.etcd}", "", self.ca_file) as probe:
            self._etcd.wait_ready(lambda: probe.healthy("/health"))

    def _servers(self) -> list[ServerProcess]:
        servers = (self._etcd, self._apiserver, self._manager)
        return [server for server in servers if server is not None]

    def _server(self, argv: list[str]) -> ServerProcess:
        return ServerProcess(argv, self.data_dir / f"{Path(argv[0]).name}.log")


# -- their commands -------------------------------------------------------------------------------


def _etcd(binary: Path, ports: _Ports, files: Files) -> list[str]:
    """Return the command of a single-member etcd that keeps nothing safe from a power cut."""
    client = f"http://127.0.0.1:{ports.etcd}"
    peer = f"http://127.0.0.1:{ports.etcd_peer}"
    return [
        str(binary),
        f"--data-dir={files.etcd_data}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        # A lone member wins its election when the timeout has passed, which is 1 s by default.
        "--heartbeat-interval=10",
        "--election-timeout=100",
    ]


def _apiserver(binary: Path, ports: _Ports, files: Files, extra: Sequence[str]) -> list[str]:
    """Return the command of a kube-apiserver that signs its own serving certificate.

    Of a flag given twice the last one counts, so `extra` overrides.
    """
    return [
        str(binary),
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        "--bind-address=127.0.0.1",
        # The self-signed certificate names the advertised address; its default is the machine's.
        "--advertise-address=127.0.0.1",
        # The endpoints of the service `kubernetes` cannot be on loopback.
        "--endpoint-reconciler-type=none",
        f"--secure-port={ports.apiserver}",
        f"--cert-dir={files.certificates}",
        "--authorization-mode=RBAC",
        f"--token-auth-file={files.tokens}",
        f"--service-account-issuer=https://127.0.0.1:{ports.apiserver}",
        f"--service-account-key-file={files.service_account_key}",
        f"--service-account-signing-key-file={files.service_account_key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        # It holds pods back until a controller that does not run here creates their account.
        "--disable-admission-plugins=ServiceAccount",
        # By default a stopping apiserver waits a minute for the open watches of its clients.
        "--shutdown-watch-termination-grace-period=1s",
        *extra,
    ]


def _manager(binary: Path, ports: _Ports, files: Files, controllers: Sequence[str]) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={files.kubeconfig}",
        "--leader-elect=false",
        f"--controllers={','.join(controllers)}",
        "--bind-address=127.0.0.1",
        f"--secure-port={ports.controller_manager}",
        f"--tls-cert-file={files.serving_certificate}",
        f"--tls-private-key-file={files.serving_key}",
        "--authentication-skip-lookup=true",
        # The default of 20 requests per second makes a Deployment of 500 take half a minute.
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    ]
