"""Finds the API server and our credentials: in-cluster configuration, or a kubeconfig."""

import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import urllib3
import yaml
from kubernetes.client import Configuration
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import (
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)
from kubernetes.config.kube_config import KubeConfigLoader
from urllib3.connection import HTTPConnection

from autoscaler.adapters.cluster import exec_plugin
from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.credentials import Credentials
from autoscaler.adapters.cluster.kubeconfig import ConnectError, Kubeconfig, quiet_client
from autoscaler.transport.observer import UNOBSERVED, Observer

__all__ = ["ClusterEndpoint", "ConnectError", "connect", "find_api_server"]

SERVICE_ACCOUNT = Path(SERVICE_TOKEN_FILENAME).parent

_POOL_SIZE = 32
_SOCKET_OPTIONS = (
    *HTTPConnection.default_socket_options,
    # By default the kernel sends unacknowledged data again for a quarter of an hour, also when we
    # have given the request up: a network that recovers would then deliver an outdated write.
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5000),
)


@dataclass(frozen=True, slots=True)
class ClusterEndpoint:
    """One API server; a later change of a kubeconfig's current context does not matter.

    ``load`` may be called again when credentials were replaced.
    """

    origin: str
    load: Callable[[], Configuration]
    token_file: Path | None
    asks_elsewhere: bool = False
    secrets: tuple[tuple[str, Path], ...] = ()
    """The files of a kubeconfig that hold credentials, each with what it is."""
    url: str = ""
    """Its URL, if it comes from a kubeconfig."""
    verified: bool = True
    """Whether its certificate is verified."""

    def connect(
        self,
        *,
        stop: threading.Event | None = None,
        request_timeout: float = 5.0,
        observer: Observer = UNOBSERVED,
    ) -> Api:
        """Return its Api; nothing is sent yet.

        Once ``stop`` is set no request is tried again; ``request_timeout`` is the seconds of one
        try.  The ``observer`` is called at requests and retries.

        Raises ConnectError, a sentence for the operator.
        """
        configuration = self.load()
        if not configuration.verify_ssl:
            # urllib3 warns at every request; the daemon warns once, when it starts.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        credentials = Credentials(
            configuration,
            self.token_file,
            self._load_again,
            self.origin,
            takes_long=self.asks_elsewhere,
        )
        return Api(
            configuration,
            credentials,
            origin=self.origin,
            request_timeout=request_timeout,
            stop=stop,
            observer=observer,
        )

    def _load_again(self) -> Configuration | None:
        try:
            return self.load()
        except ConnectError:
            return None


def connect(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    stop: threading.Event | None = None,
    request_timeout: float = 5.0,
    service_account: Path = SERVICE_ACCOUNT,
) -> Api:
    """Find the API server and return its Api; raises ConnectError."""
    return find_api_server(kubeconfig, context, service_account).connect(
        stop=stop, request_timeout=request_timeout
    )


def find_api_server(
    kubeconfig: Path | None, context: str | None, service_account: Path = SERVICE_ACCOUNT
) -> ClusterEndpoint:
    """Return the API server that the arguments and the environment say.

    Without ``kubeconfig`` and ``context`` the in-cluster configuration is used where there is
    one, else the kubeconfig of the environment (`KUBECONFIG`, `~/.kube/config`).

    Raises ConnectError, a sentence for the operator.
    """
    if kubeconfig is not None:
        return _from_kubeconfig([kubeconfig.expanduser()], context)
    in_cluster = os.environ.get(SERVICE_HOST_ENV_NAME)
    token = service_account / "token"
    if context is None and in_cluster and token.is_file():
        origin = "the service account of this pod"
        return ClusterEndpoint(origin, lambda: _in_cluster(service_account), token)
    named = os.environ.get("KUBECONFIG")
    paths = [Path(part).expanduser() for part in (named or "~/.kube/config").split(":") if part]
    if any(path.exists() for path in paths):
        return _from_kubeconfig(paths, context)
    looked = f"KUBECONFIG={named} names no file that exists" if named else "no ~/.kube/config"
    pod = (
        f"this pod has no service account token ({token})"
        if in_cluster
        else "this is not a pod of a cluster"
    )
    raise ConnectError(
        f"no Kubernetes configuration: {pod}, and {looked}; "
        "set kubernetes.kubeconfig or the environment variable KUBECONFIG"
    )


def _in_cluster(service_account: Path) -> Configuration:
    configuration = _new_configuration()
    loader = InClusterConfigLoader(  # type: ignore[no-untyped-call] # the client is half typed
        token_filename=str(service_account / "token"),
        cert_filename=str(service_account / "ca.crt"),
        try_refresh_token=False,  # Credentials reads the file again, and sooner
    )
    try:
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call] # as above
    except (ConfigException, OSError, ValueError) as error:
        raise ConnectError(f"the in-cluster configuration cannot be used: {error}") from None
    return configuration


def _from_kubeconfig(paths: list[Path], context: str | None) -> ClusterEndpoint:
    kubeconfig = Kubeconfig.read(paths, context)
    return ClusterEndpoint(
        kubeconfig.origin,
        # A new current-context does not apply to a daemon that runs.
        lambda: _configured(Kubeconfig.read(paths, kubeconfig.context)),
        kubeconfig.token_file,
        kubeconfig.asks_elsewhere,
        kubeconfig.secrets,
        kubeconfig.url,
        kubeconfig.verified,
    )


def _configured(kubeconfig: Kubeconfig) -> Configuration:
    configuration = _new_configuration()
    try:
        loader = KubeConfigLoader(  # type: ignore[no-untyped-call] # as above
            config_dict=kubeconfig.merged, active_context=kubeconfig.context, config_base_path=None
        )
        with quiet_client():
            loader.load_and_set(configuration)  # type: ignore[no-untyped-call] # as above
    except Exception as error:
        why = _why_unusable(error, asks_elsewhere=kubeconfig.asks_elsewhere)
        if not why:
            raise
        raise ConnectError(f"{kubeconfig.origin} cannot be used: {why}") from None
    if kubeconfig.has_exec_plugin and not (configuration.api_key or configuration.cert_file):
        raise ConnectError(
            f"{kubeconfig.origin} cannot be used: its exec plugin gave no credentials: "
            f"it failed, or took more than {exec_plugin.SECONDS:g} s"
        )
    return configuration


def _why_unusable(error: Exception, *, asks_elsewhere: bool) -> str:
    """Return what the client's error means, without quoting credentials; empty for a defect."""
    if isinstance(error, ConfigException):
        # Other texts of the client may quote the user's entry.
        return str(error) if str(error).startswith("File does not exist") else "it is not valid"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    if isinstance(error, ValueError | KeyError | TypeError | AttributeError | yaml.YAMLError):
        return "a field of its cluster or user has the wrong form"
    # An auth provider raises whatever its library does.
    kind = type(error).__name__
    return f"its auth provider gave no credentials ({kind})" if asks_elsewhere else ""


def _new_configuration() -> Configuration:
    configuration = Configuration()
    configuration.retries = False  # transport.retries does that, within the deadline
    configuration.connection_pool_maxsize = _POOL_SIZE
    configuration.socket_options = _SOCKET_OPTIONS
    return configuration
