"""Converts the server of a KEDA prometheus trigger to settings as in `prometheus`."""

import re
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from autoscaler.migrate.drafts import SecretValue, SharedSettings
from autoscaler.migrate.fields import Fields, not_filled_in, placeholder
from autoscaler.migrate.keda.authentications import (
    NAMESPACED,
    Authentication,
    Authentications,
    Parameter,
)
from autoscaler.migrate.keda.metadata import is_true

_MODES = ("bearer", "basic", "tls", "custom")
_OWN_IDENTITY = "the daemon's own identity signs in, not KEDA's: give it the same rights"
_PUBLIC = "AzurePublicCloud"
_CLOUDS = {
    _PUBLIC: "AzurePublic",
    "AzureUSGovernmentCloud": "AzureGovernment",
    "AzureChinaCloud": "AzureChina",
}
_LACKS = "its authentication lacks the parameter {}, so that KEDA fails"
_NO_AUTHENTICATION = (
    "it names no authentication that is here: add its TriggerAuthentication to the input, or write "
    "how to sign in to its server in `prometheus`"
)


_KEPT_APART = ("identityOwner", "identityAuthorityHost")
KEYS = (
    *("serverAddress", "namespace", "customHeaders", "queryParameters", "timeout", "unsafeSsl"),
    *("authModes", "awsRegion", "cloud", "azureManagedPrometheusResourceURL", "cortexOrgID"),
    *("cortexOrgId", *_KEPT_APART),
)
"""The metadata of a trigger about its server."""


class _TriggerSignIn:
    """The authentication of a trigger; its keys of metadata are accounted for."""

    def __init__(
        self, metadata: Fields, texts: Mapping[str, str], authentication: Authentication | None
    ) -> None:
        self._metadata = metadata
        self._texts = texts
        self._given = authentication
        self.settings: dict[str, object] = {}
        """Settings of the server."""
        self.secrets: list[SecretValue] = []
        """The files that they name."""
        self.problems: list[str] = []
        """Open decisions."""
        self.notes: list[str] = []
        """Differences."""
        modes = dict.fromkeys(mode.strip() for mode in texts.get("authModes", "").split(","))
        modes.pop("", None)
        if not modes.keys() <= {*_MODES}:
            why = f"prometheus triggers of KEDA sign in by {', '.join(_MODES)}, and by nothing else"
            metadata.refused("authModes", why=why)
        if modes.keys() >= {"bearer", "basic"}:
            metadata.refused("authModes", why="KEDA refuses bearer and basic together: choose one")
            del modes["basic"]
        if modes and authentication is None:
            metadata.refused("authModes", why=_NO_AUTHENTICATION)
        elif modes:
            self._by_modes(modes)
        else:
            self._by_identity()

    def _by_modes(self, modes: Collection[str]) -> None:
        settings = self.settings
        if "bearer" in modes:
            settings["bearerTokenFile"] = self._file("bearerToken")
        if "basic" in modes:
            user, password = self._text("username", "USERNAME"), self._file("password")
            settings["basicAuth"] = {"username": user, "passwordFile": password}
        tls = ["ca"] if "tls" in modes or self._parameter("ca") is not None else []
        tls += ["cert", "key"] if "tls" in modes else []
        if tls:
            settings["tls"] = {f"{key}File": self._file(key) for key in tls}
        if "custom" in modes:
            name = self._text("customAuthHeader", "HEADER-NAME")
            settings["headersFiles"] = {name: self._file("customAuthValue")}

    def _by_identity(self) -> None:
        """Use a managed Prometheus' identity; this is KEDA's behavior without `authModes`."""
        region = self._texts.get("awsRegion")
        identity = Fields({}) if self._given is None else self._given.identity
        match identity.get("provider"):
            case "azure-workload":
                self.settings["azuread"] = self._azure(identity)
            case "gcp":
                self.settings["googleIam"] = {}
            case "aws" | "aws-eks":
                role = identity.get("roleArn")
                self.settings["sigv4"] = _without_nothing(region=region, roleArn=role)
            case None | "" | "none" if region is not None:
                self.settings["sigv4"] = self._amazon(region)
            case None | "" | "none":
                pass
            case _:
                self.problems.append(
                    "unsupported provider of podIdentity: "
                    "write how to sign in to its server in `prometheus`"
                )
        if self.settings:
            self.notes.append(_OWN_IDENTITY)
        for fields in (self._metadata, identity):
            for key in _KEPT_APART:
                if fields.peek(key) is not None:
                    fields.ignored(key, why=_OWN_IDENTITY)

    def _azure(self, identity: Fields) -> dict[str, object]:
        settings: dict[str, object] = {}
        cloud = self._texts.get("cloud", _PUBLIC)
        if cloud not in _CLOUDS:
            why = f"is not one of {', '.join(_CLOUDS)}: write it as `azuread`"
            self._metadata.refused("cloud", why=why)
        elif cloud != _PUBLIC:
            settings["cloud"] = _CLOUDS[cloud]
        address = self._texts.get("azureManagedPrometheusResourceURL")
        if address is not None:
            settings["scope"] = f"{address.rstrip('/')}/.default"
        client, tenant = identity.get("identityId"), identity.get("identityTenantId")
        workload = _without_nothing(clientId=client, tenantId=tenant)
        return {**settings, "workloadIdentity": workload}

    def _amazon(self, region: str) -> dict[str, object]:
        settings: dict[str, object] = {"region": region}
        if self._parameter("awsAccessKeyID") is not None:
            settings["accessKey"] = self._text("awsAccessKeyID", "ACCESS-KEY")
            settings["secretKeyFile"] = self._file("awsSecretAccessKey")
        if self._parameter("awsRoleArn") is not None:
            settings["roleArn"] = self._text("awsRoleArn", "ROLE-ARN")
        return settings

    def _parameter(self, *names: str) -> Parameter | None:
        """Return the first parameter of these names that the authentication has."""
        if self._given is None:
            return None
        found = (self._given.parameter(name) for name in names)
        return next((setting for setting in found if setting is not None), None)

    def _file(self, name: str) -> str:
        """Return the file with a parameter."""
        parameter = self._parameter(name, *(["token"] if name == "bearerToken" else []))
        if parameter is not None and parameter.file is not None:
            if parameter.file not in self.secrets:
                self.secrets.append(parameter.file)
            return parameter.file.file
        self.problems.append(
            _LACKS.format(name)
            if parameter is None
            else f"`{name}` comes from {parameter.origin}: write it to the file secrets/{name}, or "
            "name another file"
        )
        return f"secrets/{name}"

    def _text(self, name: str, placeholder: str) -> str:
        """Return the value of a parameter that is not secret here."""
        parameter = self._parameter(name)
        self.problems.append(
            _LACKS.format(name)
            if parameter is None
            else f"`{name}` is {parameter.origin}, which is not read: write it in `prometheus` in "
            f"place of {placeholder}"
        )
        return placeholder


def _without_nothing(**settings: object) -> dict[str, object]:
    return {key: value for key, value in settings.items() if value not in (None, "")}


_ORDER = (
    *("url", "timeout", "bearerTokenFile", "basicAuth", "sigv4", "googleIam", "azuread", "tls"),
    *("headers", "headersFiles", "queryParameters"),
)
_MAY_BE_SECRET = re.compile(r"auth|token|key|secret|passw|cookie|credential", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*+|<[^<>]{1,200}>")
_TENANT = "X-Scope-OrgID"
_MILLISECONDS = re.compile(r"[0-9]{1,9}")
_DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|s|m|h))+")


def server_of(
    trigger: Fields,
    texts: Mapping[str, str],
    namespace: str,
    authentications: Authentications,
    shared: SharedSettings,
) -> tuple[str | None, list[SecretValue]]:
    """Add the server of a trigger; return its name, and the files that it names.

    The name is None if the trigger does not name a server: that is refused.
    """
    metadata = trigger.within("metadata")
    sign_in = _sign_in(trigger, texts, namespace, authentications)
    url = _address(metadata, texts.get("serverAddress"))
    settings = {
        **({} if sign_in is None else sign_in.settings),
        **_timeout(metadata, texts.get("timeout")),
        **_headers(metadata, texts),
        **_parameters(metadata, texts),
    }
    if is_true(texts.get("unsafeSsl")):
        tls = settings.get("tls")
        settings["tls"] = {**(tls if isinstance(tls, dict) else {}), "insecureSkipVerify": True}
    if url is None:
        return None, []
    settings["url"] = url
    secrets = [] if sign_in is None else sign_in.secrets
    mounts = [
        f"{secret.file}: key {secret.key} of {secret.kind} {secret.namespace}/{secret.name}"
        for secret in secrets
    ]
    ordered = {key: settings[key] for key in _ORDER if key in settings}
    return shared.server(ordered, *mounts), secrets


def _sign_in(
    trigger: Fields, texts: Mapping[str, str], namespace: str, authentications: Authentications
) -> _TriggerSignIn | None:
    reference = trigger.within("authenticationRef")
    metadata = trigger.within("metadata")
    if not reference.value:
        return _TriggerSignIn(metadata, texts, None)
    found = authentications.find(reference, namespace)
    if found is None:
        _not_there(trigger, texts)
        return None
    result = _TriggerSignIn(metadata, texts, found)
    if result.problems:
        trigger.refused("authenticationRef", why="; ".join(result.problems), kind="prometheus")
    elif result.notes:
        trigger.different("authenticationRef", why="; ".join(result.notes))
    elif not result.settings:
        trigger.ignored(
            "authenticationRef", why="KEDA signs in with none of it without `authModes`"
        )
    else:
        trigger.carried("authenticationRef")
    return result


def _not_there(trigger: Fields, texts: Mapping[str, str]) -> None:
    """Return the meaning of an authentication that is not in the input."""
    reference = trigger.within("authenticationRef")
    what = f"{reference.peek('kind') or NAMESPACED} {reference.peek('name')} is not in the input"
    address = texts.get("serverAddress", "")
    if not texts.keys().isdisjoint(
        ("authModes", "awsRegion", "identityOwner")
    ) or not address.lower().startswith("http://"):
        why = f"{what}: add it, or write how to sign in to its server in `prometheus`"
        trigger.refused("authenticationRef", why=why, kind="prometheus")
    else:
        why = f"{what}; without `authModes` KEDA signs in to managed servers at https only"
        trigger.different("authenticationRef", why=why)


def _address(metadata: Fields, address: str | None) -> str | None:
    why = ""
    if address is None:
        why = "is required: name the server that is asked"
    elif found := placeholder(address) or _to_be_filled_in(address):
        why = not_filled_in(found)
    elif _credentials_in(address):
        metadata.secret("serverAddress")
        why = (
            "has credentials in it, which are not copied: write the address in `prometheus`, and "
            "`basicAuth` with the password in a file"
        )
    elif not re.match(r"https?://[^/?#\s<>$]", address, re.IGNORECASE):
        why = "has no scheme, so that KEDA cannot ask it: write http:// or https:// before the host"
    elif re.search(r"[?#\s<>$]", address):
        why = "is not a usable URL: write the URL of the server without parameters"
    else:
        return address.rstrip("/")
    metadata.refused("serverAddress", why=why, kind="prometheus")
    return None


def _to_be_filled_in(address: str) -> str:
    found = _PLACEHOLDER.search(address)
    return found[0] if found else ""


def _credentials_in(address: str) -> bool:
    try:
        return "@" in urlsplit(address).netloc
    except ValueError:
        return "@" in address


def _timeout(metadata: Fields, text: str | None) -> dict[str, object]:
    if text is None:
        return {}
    if _MILLISECONDS.fullmatch(text):
        # KEDA counts a plain number in milliseconds.
        return {"timeout": f"{int(text) // 1000}s" if int(text) % 1000 == 0 else f"{text}ms"}
    if _DURATION.fullmatch(text):
        return {"timeout": text}
    metadata.refused(
        "timeout", why="is not a number of milliseconds such as 5000", kind="prometheus"
    )
    return {}


def _headers(metadata: Fields, texts: Mapping[str, str]) -> dict[str, object]:
    headers: dict[str, str] = {}
    for key in ("cortexOrgID", "cortexOrgId"):
        tenant = texts.get(key)
        if tenant is not None:
            headers[_TENANT] = tenant
            metadata.different(key, why=f"KEDA no longer reads it; it is the header {_TENANT}")
    instead = "write its value to a file, and `headersFiles: {%s: FILE}` at its server in"
    headers |= _shown_pairs(metadata, "customHeaders", texts, instead)
    return {"headers": headers} if headers else {}


def _parameters(metadata: Fields, texts: Mapping[str, str]) -> dict[str, object]:
    parameters = {key: texts[key] for key in ("namespace",) if key in texts}
    instead = "write it at its server in"
    parameters |= _shown_pairs(metadata, "queryParameters", texts, instead)
    return {"queryParameters": parameters} if parameters else {}


def _shown_pairs(
    metadata: Fields, key: str, texts: Mapping[str, str], instead: str
) -> dict[str, str]:
    """Return the pairs of a text such as ``a=b,c=d`` that are surely not secret; refuse the rest.

    KEDA refuses any other form.
    """
    written = texts[key].split(",") if key in texts else []
    pairs = [[part.strip() for part in pair.split("=")] for pair in written]
    if not all(len(pair) == 2 and pair[0] for pair in pairs):
        metadata.secret(key)
        why = "is not of the form NAME=VALUE,NAME=VALUE, as KEDA requires: write it in `prometheus`"
        metadata.refused(key, why=why, kind="prometheus")
        return {}
    for name in (name for name, _ in pairs if _MAY_BE_SECRET.search(name)):
        metadata.secret(key)
        why = f"{name} may be secret and is not copied: {instead.replace('%s', name)} `prometheus`"
        metadata.refused(key, why=why, kind="prometheus")
    return {name: value for name, value in pairs if not _MAY_BE_SECRET.search(name)}
