"""Finds the API server and our credentials: in-cluster configuration, or a kubeconfig.

A kubeconfig is checked before the client reads it, so that a mistake gives a clear message.
"""

import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast
from urllib.parse import quote, urlsplit

import urllib3
import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import (
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)
from kubernetes.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger
from urllib3.connection import HTTPConnection

from autoscaler.file_contents import (
    MOST_OF_CREDENTIALS,
    NoFileError,
    read_bytes,
    refuse_other_than_file,
    with_home,
)
from autoscaler.kubernetes import exec_plugin, memory_files
from autoscaler.kubernetes.api import Api, JsonObject
from autoscaler.kubernetes.credentials import Credentials, quiet_client
from autoscaler.transport import UNOBSERVED, Observer
from autoscaler.transport.network_errors import proxy_url
from autoscaler.transport.redaction import Redactor

SERVICE_ACCOUNT = Path(SERVICE_TOKEN_FILENAME).parent

_ASK_ELSEWHERE = ("exec", "auth-provider")
"""The keys of a user whose credentials come from a program or a server."""

_IMPERSONATION = {
    "as": "the name of a user",
    "as-uid": "a uid",
    "as-groups": "a list of the names of groups",
    "as-user-extra": "a mapping of names to lists of texts",
}
"""The impersonation keys of a user."""
_NAME_CHARACTERS = "!#$&'*+^`|"
"""Characters that the name of a header may have, in addition to those that `quote` keeps."""

_SECRET = re.compile("token|secret|passw|key|credential", re.IGNORECASE)
"""A part of the names of variables whose value is not shown."""

_FILES = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
"""By section of a kubeconfig: the keys of its entries that name files."""

_POOL_SIZE = 32
_SOCKET_OPTIONS = (
    *HTTPConnection.default_socket_options,
    # By default the kernel retransmits unacknowledged data for a quarter of an hour, even after the
    # request was given up: a network that recovers would then deliver an outdated write.
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5000),
)


class ConnectError(Exception):
    """No API server was found; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class ClusterEndpoint:
    """One API server; ``load`` may be called again when credentials have been replaced."""

    origin: str
    load: Callable[[], Configuration]
    token_file: Path | None
    load_unasked: Callable[[], Configuration] | None = None
    """Loads everything except credentials from a program or a server, which may be slow; None
    without these."""
    secrets: tuple[tuple[str, Path], ...] = ()
    """The files of a kubeconfig with credentials, each with its description."""
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
        absent_seconds: float | None = None,
        at_once: bool = True,
    ) -> Api:
        """Return its Api, with these arguments; no request is sent. Raises ConnectError.

        An exec plugin is run first, unless ``at_once`` is set: then the first request waits for it.
        """
        later = None if at_once else self.load_unasked
        configuration = self.load() if later is None else later()
        if not configuration.verify_ssl:
            # urllib3 warns at every request; the daemon warns once, at its start.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        credentials = Credentials(
            configuration,
            self.token_file,
            self._load_again,
            self.origin,
            takes_long=self.load_unasked is not None,
            unread=later is not None,
        )
        return Api(
            configuration,
            credentials,
            origin=self.origin,
            request_timeout=request_timeout,
            stop=stop,
            observer=observer,
            absent_seconds=absent_seconds,
        )

    def _load_again(self) -> Configuration | str:
        try:
            return self.load()
        except ConnectError as error:
            return str(error)


def find_api_server(
    kubeconfig: Path | None,
    context: str | None,
    service_account: Path = SERVICE_ACCOUNT,
    *,
    in_cluster: bool = False,
    allow_exec: bool | None = None,
) -> ClusterEndpoint:
    """Return the named API server, else the pod's own, else KUBECONFIG's, or raise ConnectError.

    With ``in_cluster`` only the pod's own is used. ``allow_exec`` is set for a kubeconfig that may
    come from somebody else: whether it may run programs and name files in other folders.
    """
    if kubeconfig is not None:
        return _from_kubeconfig([with_home(str(kubeconfig))], context, allow_exec=allow_exec)
    in_pod = os.environ.get(SERVICE_HOST_ENV_NAME)
    token = service_account / "token"
    if context is None and in_pod and token.is_file():
        origin = "the service account of this pod"
        return ClusterEndpoint(origin, lambda: _in_cluster(service_account), token)
    if in_cluster:
        raise ConnectError(f"inCluster is true, but there is no token at {token}")
    named = os.environ.get("KUBECONFIG")
    paths = [with_home(part) for part in (named or "~/.kube/config").split(":") if part]
    if any(path.exists() for path in paths):
        return _from_kubeconfig(paths, context, allow_exec=allow_exec)
    looked = f"KUBECONFIG={named} names no file that exists" if named else "no ~/.kube/config"
    pod = "this is not a pod of a cluster"
    if in_pod:
        pod = f"this pod has no service account token ({token})"
    raise ConnectError(
        f"no Kubernetes configuration: {pod}, and {looked}; "
        "set kubernetes.kubeconfig or the environment variable KUBECONFIG"
    )


def _in_cluster(service_account: Path) -> Configuration:
    configuration = _new_configuration()
    loader = InClusterConfigLoader(  # type: ignore[no-untyped-call] # the client is half typed
        token_filename=str(service_account / "token"),
        cert_filename=str(service_account / "ca.crt"),
        try_refresh_token=False,  # Credentials reads the file again, and sooner.
    )
    try:
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call] # as above
    except (ConfigException, OSError, ValueError) as error:
        raise ConnectError(f"the in-cluster configuration cannot be used: {error}") from None
    return _with_proxy(configuration, "the in-cluster configuration")


def _from_kubeconfig(
    paths: list[Path], context: str | None, *, allow_exec: bool | None
) -> ClusterEndpoint:
    read = _read_kubeconfig(paths, context, allow_exec=allow_exec)
    files = {key: read.file(key) for key in ("client-key", "tokenFile")}
    named = [(f"{key} of {read.origin}", path) for key, path in files.items() if path]

    def load(*, unasked: bool = False) -> Configuration:
        # A new current-context does not apply to a running daemon.
        again = _read_kubeconfig(paths, read.context, allow_exec=allow_exec)
        for key in _ASK_ELSEWHERE if unasked else ():
            again.user.pop(key, None)
        return _configured(again)

    return ClusterEndpoint(
        read.origin,
        load,
        files["tokenFile"],  # It takes precedence over `token`, as in kubectl.
        load_unasked=partial(load, unasked=True) if read.asks_elsewhere else None,
        secrets=(*(("kubeconfig", path) for path in paths), *named),
        url=_text(read.cluster, "server"),
        verified=not read.cluster.get("insecure-skip-tls-verify"),
    )


@dataclass(frozen=True, slots=True, repr=False)
class _Kubeconfig:
    """The merged files and the entries of the context; without repr: it may have credentials."""

    merged: ConfigNode
    context: str
    origin: str
    cluster_name: str
    cluster: JsonObject
    user_name: str
    user: JsonObject
    impersonation: tuple[tuple[str, str], ...]
    """The impersonation headers of the user."""

    @property
    def asks_elsewhere(self) -> bool:
        """Whether a program or a server provides the credentials, which may be slow."""
        return any(key in self.user for key in _ASK_ELSEWHERE)

    def file(self, key: str) -> Path | None:
        """Return a file that an entry names, relative to the folder of its kubeconfig."""
        return next((path for named, _, path in self._files() if named == key), None)

    def check(self, *, allow_exec: bool) -> None:
        """Refuse pipes, and entries that need a missing allowExec; raises ConnectError."""
        needs = [key for key in _ASK_ELSEWHERE if key in self.user]
        for key, folder, path in self._files():
            try:
                # The client opens the path the same way; it would wait for the writer of a pipe.
                real = Path(os.path.normpath(path)).resolve()
                needs += [] if real.is_relative_to(folder.resolve()) else [f"{key} ({path})"]
                refuse_other_than_file(real, real.stat().st_mode)
            except NoFileError as error:
                raise ConnectError(f"{self.origin}: {key} {path}: {error.strerror}") from None
            except (OSError, RuntimeError, ValueError):
                continue  # The client reports what is wrong.
        if needs and not allow_exec:
            raise ConnectError(
                f"{self.origin} has {' and '.join(needs)}: a kubeconfig of `clusters` may run "
                "programs and read files outside of its folder only with allowExec: true in its "
                "entry; set that if you trust whoever writes the file"
            )

    def _files(self) -> Iterator[tuple[str, Path, Path]]:
        """Yield each key that names a file, the folder of its kubeconfig, and the path."""
        named = ("clusters", self.cluster_name, self.cluster), ("users", self.user_name, self.user)
        for section, entry_name, entry in named:
            nodes = {node.value["name"]: node for node in self.merged.value.get(section, [])}
            for key in _FILES[section]:
                if name := _text(entry, key):
                    folder = Path(nodes[entry_name].path).parent
                    yield key, folder, folder / name


def _read_kubeconfig(
    paths: list[Path], context: str | None, *, allow_exec: bool | None
) -> _Kubeconfig:
    """Read and merge the files; at least one must exist.  Limit the time of an exec plugin."""
    names = ":".join(str(path) for path in paths)
    merged = _merge(paths, names)
    chosen = _context(merged, context, names)
    origin = f'context "{chosen}" of {names}'
    entry = _entry(merged, "contexts", chosen, "context", origin)
    cluster_name, user_name = _text(entry, "cluster"), _text(entry, "user")
    cluster = _entry(merged, "clusters", cluster_name, "cluster", origin)
    of_cluster = f'cluster "{cluster_name}"'
    url, unusable = _text(cluster, "server"), f"{origin} cannot be used"
    if not url:
        raise ConnectError(f"{unusable}: {of_cluster} has no server")
    if not _is_url(url):
        # It is not quoted, since it may contain a password.
        right = "right is https://, a host and maybe a port"
        raise ConnectError(f"{unusable}: the server of {of_cluster} is not a URL; {right}")
    user = _entry(merged, "users", user_name, "user", origin) if user_name else {}
    plugin = user.get("exec")
    if isinstance(plugin, dict):
        user["exec"] = exec_plugin.limited(plugin, whole_environment=allow_exec is None)
    impersonation = _impersonation(user, unusable)
    read = _Kubeconfig(
        merged, chosen, origin, cluster_name, cluster, user_name, user, impersonation
    )
    read.check(allow_exec=allow_exec is not False)
    return read


def _impersonation(user: JsonObject, unusable: str) -> tuple[tuple[str, str], ...]:
    """Return the headers for `as`, `as-uid`, `as-groups` and `as-user-extra`."""
    extra = user.get("as-user-extra") or {}
    named = [
        ("as", "User", [user["as"]] if user.get("as") else []),
        ("as-uid", "Uid", [user["as-uid"]] if user.get("as-uid") else []),
        ("as-groups", "Group", user.get("as-groups") or []),
    ]
    for key, values in extra.items() if isinstance(extra, dict) else [("", None)]:
        name = f"Extra-{quote(str(key), _NAME_CHARACTERS)}"
        named.append(("as-user-extra", name, values if _is_value(key) else None))
    headers: list[tuple[str, str]] = []
    for key, name, values in named:
        if not isinstance(values, list) or not all(map(_is_value, values)):
            right = _IMPERSONATION[key]
            raise ConnectError(f"{unusable}: {key} of its user is not valid; right is {right}")
        # Sent as UTF-8, although the client encodes headers as Latin-1.
        headers += [(f"Impersonate-{name}", value.encode().decode("latin-1")) for value in values]
    if headers and not user.get("as"):
        raise ConnectError(f"{unusable}: its user impersonates groups, a uid or extras and no user")
    return tuple(headers)


def _is_value(value: object) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def _merge(paths: list[Path], names: str) -> ConfigNode:
    existing = [path for path in paths if path.exists()]
    if not existing:
        raise ConnectError(f"there is no kubeconfig at {names}")
    for path in existing:
        _check_form(path)
    joined = ":".join(str(path) for path in existing)
    try:
        # It reads the files again, and they may have changed meanwhile.
        merger = KubeConfigMerger(joined)  # type: ignore[no-untyped-call] # the client is half typed
        merged: ConfigNode | None = merger.config
    except (OSError, ValueError, TypeError, yaml.YAMLError, ConfigException):
        merged = None
    if merged is None:
        raise ConnectError(f"the kubeconfig {names} changed while it was read")
    return merged


def _check_form(path: Path) -> None:
    """Refuse a file that is not a kubeconfig, without quoting from it."""
    document = _yaml(path)
    if not isinstance(document, dict):
        raise ConnectError(f"the kubeconfig {path} is empty or not a mapping of kind Config")
    for section in ("clusters", "contexts", "users"):
        entries = document.get(section)
        if not isinstance(entries, list | None):
            raise ConnectError(f"the kubeconfig {path} is not valid: {section} must be a list")
        for entry in entries or ():
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise ConnectError(f"the kubeconfig {path} has an entry without name in {section}")


def _yaml(path: Path) -> object:
    try:
        text = read_bytes(path, MOST_OF_CREDENTIALS).decode("utf-8")
        document: object = yaml.safe_load(text)
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        fault = "is not text in UTF-8"
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        # All other errors quote the names of anchors and tags, which may be secrets.
        told = isinstance(error, yaml.scanner.ScannerError | yaml.parser.ParserError)
        fault = f"is not YAML: {error.problem}{line}" if told else f"is not YAML{line}"
    except (yaml.YAMLError, ValueError):  # ValueError: a date that does not exist.
        fault = "is not YAML"
    except RecursionError:
        fault = "is nested too deeply"
    else:
        return document
    raise ConnectError(f"the kubeconfig {path} {fault}")


def _context(merged: ConfigNode, context: str | None, names: str) -> str:
    known = [cast("str", entry.value["name"]) for entry in merged.value.get("contexts", [])]
    chosen = context or merged.value.get("current-context")
    listed = ", ".join(known) or "none"
    if not chosen:
        raise ConnectError(
            f"{names} sets no current-context; name one by kubernetes.context ({listed})"
        )
    if chosen not in known:
        raise ConnectError(f'{names} has no context "{chosen}"; it has: {listed}')
    return str(chosen)


def _entry(merged: ConfigNode, section: str, name: str, key: str, origin: str) -> JsonObject:
    for entry in merged.value.get(section, []):
        if entry.value["name"] == name:
            content = entry.value.get(key)
            if isinstance(content, dict):
                return content
            raise ConnectError(f'{origin} cannot be used: "{name}" of {section} has no {key}')
    raise ConnectError(f'{origin} cannot be used: it names "{name}", which is not in {section}')


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _text(entry: JsonObject, key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def _configured(kubeconfig: _Kubeconfig) -> Configuration:
    configuration = _new_configuration(kubeconfig.impersonation)
    memory_files.use_for(configuration)
    try:
        loader = KubeConfigLoader(  # type: ignore[no-untyped-call] # as above
            config_dict=kubeconfig.merged, active_context=kubeconfig.context, config_base_path=None
        )
        asks = exec_plugin.AT_ONCE if kubeconfig.asks_elsewhere else nullcontext()
        with asks, quiet_client() as logged:
            loader.load_and_set(configuration)  # type: ignore[no-untyped-call] # as above
    except Exception as error:
        why = _why_unusable(error, asks_elsewhere=kubeconfig.asks_elsewhere)
        if not why:
            raise
        raise ConnectError(f"{kubeconfig.origin} cannot be used: {why}") from None
    if "exec" in kubeconfig.user and not (configuration.api_key or configuration.cert_file):
        why = _plugin_failure(kubeconfig.user["exec"], exec_plugin.failure_in(logged))
        raise ConnectError(f"{kubeconfig.origin} cannot be used: its exec plugin {why}")
    return _with_proxy(configuration, kubeconfig.origin)


def _plugin_failure(plugin: JsonObject, failure: str) -> str:
    """Return why an exec plugin gave no credentials, without possible secrets."""
    hint = plugin.get("installHint")
    if exec_plugin.NOT_RUN in failure and isinstance(hint, str):
        failure += f"; {hint}"
    own = [each for each in plugin.get("env") or () if isinstance(each, dict)]
    variables = [*os.environ.items(), *((each.get("name"), each.get("value")) for each in own)]
    secrets = [str(value) for name, value in variables if value and _SECRET.search(str(name))]
    return Redactor(secrets).line(failure, 800)


def _with_proxy(configuration: Configuration, origin: str) -> Configuration:
    """Complete the URL of the proxy, if one is used; raises ConnectError."""
    proxy: object = configuration.proxy
    if proxy and not should_bypass_proxies(configuration.host, configuration.no_proxy or ""):
        try:
            configuration.proxy = proxy_url(proxy if isinstance(proxy, str) else "")
        except ValueError as error:
            what = f"{origin} cannot be used: its proxy (proxy-url, or of the environment)"
            raise ConnectError(f"{what}: {error}") from None
    return configuration


def _why_unusable(error: Exception, *, asks_elsewhere: bool) -> str:
    """Return the meaning of the client's error, without credentials; empty for a defect."""
    if isinstance(error, ConfigException):
        # Other texts of the client may quote the user's entry.
        return str(error) if str(error).startswith("File does not exist") else "it is not valid"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    if isinstance(error, ValueError | KeyError | TypeError | AttributeError | yaml.YAMLError):
        return "a field of its cluster or user has the wrong form"
    # An auth provider raises any exception of its library.
    kind = type(error).__name__
    return f"its auth provider gave no credentials ({kind})" if asks_elsewhere else ""


def _new_configuration(impersonation: tuple[tuple[str, str], ...] = ()) -> Configuration:
    configuration = Configuration()
    configuration.impersonation = impersonation  # our own key: the client does not know it
    configuration.retries = False  # transport.retries does that, within the deadline
    configuration.connection_pool_maxsize = _POOL_SIZE
    configuration.socket_options = _SOCKET_OPTIONS
    return configuration
