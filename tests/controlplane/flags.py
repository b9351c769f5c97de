"""The ports, the files and the command lines of the three servers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.controlplane.process import free_port


@dataclass(frozen=True)
class Ports:
    """The ports of one control plane on 127.0.0.1."""

    etcd: int = field(default_factory=free_port)
    etcd_peer: int = field(default_factory=free_port)
    apiserver: int = field(default_factory=free_port)
    controller_manager: int = field(default_factory=free_port)


@dataclass(frozen=True)
class Files:
    """The files of one control plane, below one folder."""

    folder: Path

    @property
    def etcd_data(self) -> Path:
        """Where etcd keeps its data."""
        return self.folder / "etcd"

    @property
    def certificates(self) -> Path:
        """Where the apiserver writes its serving certificate and the key of it."""
        return self.folder / "certificates"

    @property
    def serving_certificate(self) -> Path:
        """The serving certificate, followed by its issuer."""
        return self.certificates / "apiserver.crt"

    @property
    def serving_key(self) -> Path:
        """The serving key, which the apiserver writes after the certificate."""
        return self.certificates / "apiserver.key"

    @property
    def issuer(self) -> Path:
        """The issuer alone, with which clients verify the servers."""
        return self.folder / "ca.crt"

    @property
    def service_account_key(self) -> Path:
        """The key that signs service account tokens."""
        return self.folder / "service-account.key"

    @property
    def tokens(self) -> Path:
        """The tokens of the static users."""
        return self.folder / "tokens.csv"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "admin.kubeconfig"


def etcd(binary: Path, ports: Ports, files: Files) -> list[str]:
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


def apiserver(binary: Path, ports: Ports, files: Files, extra: Sequence[str]) -> list[str]:
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


def controller_manager(
    binary: Path, ports: Ports, files: Files, controllers: Sequence[str], extra: Sequence[str]
) -> list[str]:
    """Return the command of a kube-controller-manager that runs the named controllers only."""
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
        *extra,
    ]
