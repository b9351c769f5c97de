"""The server that a prometheus trigger of KEDA asks -> settings as in `prometheus`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from autoscaler.migrate.drafts import SecretValue, Shared
from autoscaler.migrate.fields import Fields, not_filled_in, placeholder
from autoscaler.migrate.keda.authentications import NAMESPACED, Authentication, Authentications
from autoscaler.migrate.keda.metadata import is_true, text_of

_MODES = ("bearer", "basic", "tls", "custom")
_OWN_IDENTITY = "the daemon's own identity signs in, not KEDA's: give it the same rights"
_PUBLIC = "AzurePublicCloud"
_CLOUDS = {
    _PUBLIC: "AzurePublic",
    "AzureUSGovernmentCloud": "AzureGovernment",
    "AzureChinaCloud": "AzureChina",
}
_USER, _HEADER, _ACCESS_KEY = "USERNAME", "HEADER-NAME", "ACCESS-KEY"
"""Stand where a value is in a Secret that is not read."""


@dataclass
class TriggerSignIn:
    """Settings of a server, the files that they name, and what is to be said of them."""

    settings: dict[str, object] = field(default_factory=dict)
    secrets: list[SecretValue] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What somebody has to decide."""
    notes: list[str] = field(default_factory=list)
    """What differs."""


def sign_in_of(metadata: Fields, authentication: Authentication | None) -> TriggerSignIn:
    """Return how a trigger signs in; the keys of its metadata that say so are accounted for."""
    result = TriggerSignIn()
    given = metadata.get("authModes")
    modes = [mode.strip() for mode in given.split(",")] if isinstance(given, str) else []
    modes = list(dict.fromkeys(mode for mode in modes if mode))
    unknown = [mode for mode in modes if mode not in _MODES]
    if unknown or (given is not None and not isinstance(given, str)):
        why = f"prometheus triggers of KEDA sign in by {', '.join(_MODES)}, and by nothing else"
        metadata.refused("authModes", why=why)
    if {"bearer", "basic"} <= set(modes):
        metadata.refused("authModes", why="KEDA refuses bearer and basic together: choose one")
        modes.remove("basic")
    if modes and authentication is None:
        metadata.refused(
            "authModes",
            why="it names no authentication that is here: add its TriggerAuthentication to the "
            "input, or write how to sign in to its server in `prometheus`",
        )
    elif authentication is not None and modes:
        _by_modes(modes, authentication, result)
    else:
        _by_identity(metadata, authentication, result)
    return result


def _by_modes(modes: list[str], authentication: Authentication, result: TriggerSignIn) -> None:
    if "bearer" in modes:
        result.settings["bearerTokenFile"] = _file("bearerToken", authentication, result)
    if "basic" in modes:
        user = _text("username", _USER, authentication, result)
        password = _file("password", authentication, result)
        result.settings["basicAuth"] = {"username": user, "passwordFile": password}
    tls: dict[str, object] = {}
    if "tls" in modes or authentication.parameter("ca") is not None:
        tls["caFile"] = _file("ca", authentication, result)
    if "tls" in modes:
        tls |= {f"{key}File": _file(key, authentication, result) for key in ("cert", "key")}
    if tls:
        result.settings["tls"] = tls
    if "custom" in modes:
        name = _text("customAuthHeader", _HEADER, authentication, result)
        file = _file("customAuthValue", authentication, result)
        result.settings["headersFiles"] = {name: file}


def _by_identity(
    metadata: Fields, authentication: Authentication | None, result: TriggerSignIn
) -> None:
    """Sign in to a managed Prometheus; what KEDA does without `authModes`."""
    region = metadata.get("awsRegion")
    identity = Fields({}) if authentication is None else authentication.identity
    match identity.get("provider"):
        case "azure-workload":
            result.settings["azuread"] = _azure(metadata, identity)
        case "gcp":
            result.settings["googleIam"] = {}
        case "aws" | "aws-eks":
            role = identity.get("roleArn")
            result.settings["sigv4"] = _without_nothing(region=region, roleArn=role)
        case None | "" | "none" if region is not None:
            result.settings["sigv4"] = _amazon(region, authentication, result)
        case None | "" | "none":
            pass
        case _:
            result.problems.append(
                "the provider of its podIdentity is none that this project signs in with: write "
                "how to sign in to its server in `prometheus`"
            )
    if result.settings:
        result.notes.append(_OWN_IDENTITY)
    for fields in (metadata, identity):
        for key in ("identityOwner", "identityAuthorityHost"):
            if fields.peek(key) is not None:
                fields.ignored(key, why=_OWN_IDENTITY)


def _azure(metadata: Fields, identity: Fields) -> dict[str, object]:
    settings: dict[str, object] = {}
    cloud = text_of(metadata, "cloud")
    if cloud is not None and cloud not in _CLOUDS:
        metadata.refused("cloud", why=f"is none of {', '.join(_CLOUDS)}: write it as `azuread`")
    elif cloud is not None and cloud != _PUBLIC:
        settings["cloud"] = _CLOUDS[cloud]
    address = text_of(metadata, "azureManagedPrometheusResourceURL")
    if address is not None:
        settings["scope"] = f"{address.rstrip('/')}/.default"
    client, tenant = identity.get("identityId"), identity.get("identityTenantId")
    workload = _without_nothing(clientId=client, tenantId=tenant)
    return {**settings, "workloadIdentity": workload}


def _amazon(
    region: object, authentication: Authentication | None, result: TriggerSignIn
) -> dict[str, object]:
    settings = _without_nothing(region=region)
    if authentication is None:
        return settings
    if authentication.parameter("awsAccessKeyID") is not None:
        settings["accessKey"] = _text("awsAccessKeyID", _ACCESS_KEY, authentication, result)
        settings["secretKeyFile"] = _file("awsSecretAccessKey", authentication, result)
    if authentication.parameter("awsRoleArn") is not None:
        settings["roleArn"] = _text("awsRoleArn", "ROLE-ARN", authentication, result)
    return settings


def _without_nothing(**settings: object) -> dict[str, object]:
    return {key: value for key, value in settings.items() if value not in (None, "")}


def _file(name: str, authentication: Authentication, result: TriggerSignIn) -> str:
    """Return the file that holds a parameter."""
    parameter = authentication.parameter(name)
    if parameter is None and name == "bearerToken":
        parameter = authentication.parameter("token")
    if parameter is None:
        result.problems.append(f"its authentication lacks the parameter {name}, so that KEDA fails")
        return f"secrets/{name}"
    if parameter.file is None:
        result.problems.append(
            f"`{name}` comes from {parameter.origin}: write it to the file secrets/{name}, or name "
            "another file"
        )
        return f"secrets/{name}"
    if parameter.file not in result.secrets:
        result.secrets.append(parameter.file)
    return parameter.file.file


def _text(
    name: str, placeholder: str, authentication: Authentication, result: TriggerSignIn
) -> str:
    """Return a parameter that is no secret here, if it is read; else what stands for it."""
    parameter = authentication.parameter(name)
    if parameter is None:
        result.problems.append(f"its authentication lacks the parameter {name}, so that KEDA fails")
        return placeholder
    value = authentication.value(parameter)
    if value is not None:
        return value
    result.problems.append(
        f"`{name}` is {parameter.origin}, which is not read: write it in `prometheus` in place of "
        f"{placeholder}"
    )
    return placeholder


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
    trigger: Fields, namespace: str, authentications: Authentications, shared: Shared
) -> tuple[str | None, list[SecretValue]]:
    """Add the server of a trigger to those of all; return its name, and the files that it names.

    The name is None where the trigger does not say which server is asked: that is refused.
    """
    metadata = trigger.within("metadata")
    sign_in = _sign_in(trigger, namespace, authentications)
    settings = dict(sign_in.settings)
    url = _address(metadata)
    settings |= _timeout(metadata)
    settings |= _headers(metadata)
    settings |= _parameters(metadata)
    if is_true(text_of(metadata, "unsafeSsl")):
        tls = settings.get("tls")
        settings["tls"] = {**(tls if isinstance(tls, dict) else {}), "insecureSkipVerify": True}
    if url is None:
        return None, []
    settings["url"] = url
    mounts = [
        f"{one.file}: key {one.key} of {one.kind} {one.namespace}/{one.name}"
        for one in sign_in.secrets
    ]
    ordered = {key: settings[key] for key in _ORDER if key in settings}
    return shared.server(ordered, *mounts), sign_in.secrets


def _sign_in(trigger: Fields, namespace: str, authentications: Authentications) -> TriggerSignIn:
    reference = trigger.within("authenticationRef")
    metadata = trigger.within("metadata")
    if not reference.value:
        return sign_in_of(metadata, None)
    found = authentications.find(reference, namespace)
    if found is None:
        _not_there(trigger)
        return TriggerSignIn()
    result = sign_in_of(metadata, found)
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


def _not_there(trigger: Fields) -> None:
    """Say what it means that an authentication is not in the input."""
    reference, metadata = trigger.within("authenticationRef"), trigger.within("metadata")
    what = f"{reference.peek('kind') or NAMESPACED} {reference.peek('name')} is not in the input"
    signs_in = [metadata.get(key) for key in ("authModes", "awsRegion", "identityOwner")]
    address = str(metadata.peek("serverAddress"))
    if any(signs_in) or not address.lower().startswith("http://"):
        why = f"{what}: add it, or write how to sign in to its server in `prometheus`"
        trigger.refused("authenticationRef", why=why, kind="prometheus")
    else:
        why = f"{what}; without `authModes` KEDA signs in to managed servers at https only"
        trigger.different("authenticationRef", why=why)


def _address(metadata: Fields) -> str | None:
    address = text_of(metadata, "serverAddress")
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
        why = "is no address that can be asked: write that of the server, without parameters"
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


def _timeout(metadata: Fields) -> dict[str, object]:
    text = text_of(metadata, "timeout")
    if text is None:
        return {}
    if _MILLISECONDS.fullmatch(text):
        # KEDA counts a plain number in milliseconds.
        return {"timeout": f"{int(text) // 1000}s" if int(text) % 1000 == 0 else f"{text}ms"}
    if _DURATION.fullmatch(text):
        return {"timeout": text}
    metadata.refused("timeout", why="is no number of milliseconds, such as 5000", kind="prometheus")
    return {}


def _headers(metadata: Fields) -> dict[str, object]:
    headers: dict[str, object] = {}
    for key in ("cortexOrgID", "cortexOrgId"):
        tenant = text_of(metadata, key)
        if tenant is not None:
            headers[_TENANT] = tenant
            metadata.different(key, why=f"KEDA no longer reads it; it is the header {_TENANT}")
    for name, value in _pairs(metadata, "customHeaders"):
        if _MAY_BE_SECRET.search(name):
            metadata.secret("customHeaders")
            metadata.refused(
                "customHeaders",
                why=f"{name} may be secret and is not copied: write its value to a file, and "
                f"`headersFiles: {{{name}: FILE}}` at its server in `prometheus`",
                kind="prometheus",
            )
        else:
            headers[name] = value
    return {"headers": headers} if headers else {}


def _parameters(metadata: Fields) -> dict[str, object]:
    parameters: dict[str, object] = {}
    of_namespace = text_of(metadata, "namespace")
    if of_namespace is not None:
        parameters["namespace"] = of_namespace
    for name, value in _pairs(metadata, "queryParameters"):
        if _MAY_BE_SECRET.search(name):
            metadata.secret("queryParameters")
            why = f"{name} may be secret and is not copied: write it at its server in `prometheus`"
            metadata.refused("queryParameters", why=why, kind="prometheus")
        else:
            parameters[name] = value
    return {"queryParameters": parameters} if parameters else {}


def _pairs(metadata: Fields, key: str) -> Iterator[tuple[str, str]]:
    """Yield what a text such as ``a=b,c=d`` has; KEDA refuses any other form."""
    text = text_of(metadata, key)
    if text is None:
        return
    pairs = [[part.strip() for part in pair.split("=")] for pair in text.split(",")]
    if all(len(pair) == 2 and pair[0] for pair in pairs):
        yield from ((name, value) for name, value in pairs)
        return
    metadata.secret(key)
    why = "is not of the form NAME=VALUE,NAME=VALUE, as KEDA requires: write it in `prometheus`"
    metadata.refused(key, why=why, kind="prometheus")
