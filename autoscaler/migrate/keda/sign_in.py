"""How a prometheus trigger of KEDA signs in -> the settings of a server here.

https://keda.sh/docs/latest/scalers/prometheus/
"""

from dataclasses import dataclass, field

from autoscaler.migrate.drafts import SecretValue
from autoscaler.migrate.fields import Fields
from autoscaler.migrate.keda.authentications import Authentication
from autoscaler.migrate.keda.metadata import text_of

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
