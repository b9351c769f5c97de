"""The server that a prometheus trigger of KEDA asks -> settings as in `prometheus`."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from autoscaler.migrate.drafts import SecretValue, Shared
from autoscaler.migrate.fields import Fields
from autoscaler.migrate.keda.authentications import NAMESPACED, Authentications
from autoscaler.migrate.keda.metadata import is_true, text_of
from autoscaler.migrate.keda.sign_in import TriggerSignIn, sign_in_of
from autoscaler.migrate.values import not_filled_in, placeholder

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
