"""The ports, the files and the command lines of the three servers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.worlds.process import free_port


@dataclass(frozen=True)
class Ports:
    """The ports of one control plane on 127.0.0.1."""

    etcd: int = field(default_factory=free_port)
    etcd_peer: int = field(default_factory=free_port)
    apiserver: int = field(default_factory=free_port)
    controller_manager: int = field(default_factory=free_port)


class Files:
    """The files of one control plane, below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
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
    binary: Path, ports: Ports, files: Files, controllers: Sequence[str]
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
    ]
