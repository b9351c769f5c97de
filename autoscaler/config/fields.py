"""The types of single fields. Errors name the correct form."""

import functools
import ipaddress
import math
import re
import stat
import zoneinfo
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError
from pydantic_core.core_schema import no_info_after_validator_function

from autoscaler import quantities, schedules
from autoscaler.config import durations
from autoscaler.core import numbers
from autoscaler.core.numbers import INT32_MAX, INT64_MAX
from autoscaler.file_contents import with_home

Count = Annotated[int, Field(ge=0, le=INT32_MAX)]
PositiveCount = Annotated[int, Field(ge=1, le=INT32_MAX)]

DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DNS_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_SEGMENT = r"(?!\.{1,2}$)[^/%]+"
_QUALIFIED_NAME = re.compile(
    r"(?:(?P<prefix>[a-z0-9]([-a-z0-9.]*[a-z0-9])?)/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_STANDARD_RESOURCES = {"cpu", "memory", "ephemeral-storage"}
_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_UNIT = r"([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,4})?"
QUANTITY_PATTERN = rf"^\+?{_NUMBER}{_UNIT}$"
_NANO_PER_MILLI = 10**6
_FIVE_FIELDS = r"^\s*[^\s]+(\s+[^\s]+){4}\s*$"
_ZONE = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"
POSITIVE_QUANTITY_PATTERN = rf"^\+?(?=[0.]*[1-9]){_NUMBER}{_UNIT}$"


_LEAST_BYTES = 16 * 2**20


def matching(pattern: str) -> WithJsonSchema:
    """Add the pattern of a field's texts to the JSON Schema."""
    return WithJsonSchema({"type": "string", "pattern": pattern})


def _number_or(pattern: str, **bounds: float) -> WithJsonSchema:
    number: JsonValue = {"type": "number", **bounds}
    return WithJsonSchema({"anyOf": [number, {"type": "string", "pattern": pattern}]})


class Form:
    """The form of a text, matched as a ``whole`` or searched, and the sentence if it differs."""

    def __init__(
        self, pattern: str, sentence: str, *, whole: bool = True, longest: int | None = None
    ) -> None:
        compiled = re.compile(pattern, re.DOTALL)
        self._match = compiled.fullmatch if whole else compiled.search
        self._sentence = sentence
        self._longest = math.inf if longest is None else longest
        self.schema: JsonSchemaValue = {
            "type": "string",
            "pattern": f"^{pattern}$" if whole else pattern,
            **({} if longest is None else {"maxLength": longest}),
        }

    def __call__(self, text: str) -> str:
        """Return the text; raises ValueError with the sentence."""
        if len(text) > self._longest or not self._match(text):
            raise ValueError(self._sentence)
        return text

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return no_info_after_validator_function(self, handler(source))

    def __get_pydantic_json_schema__(self, *_: object) -> JsonSchemaValue:
        return self.schema


def absolute(name: str, folder: Path) -> Path:
    """Return the absolute path of a file; one in an unknown home is reported as missing."""
    return folder / with_home(name)


def _path(name: object, info: ValidationInfo) -> Path:
    """Make a path absolute; the validation's context is the folder of relative paths."""
    if not isinstance(name, str):
        raise PydanticKnownError("string_type")
    return absolute(_FILLED(name), info.context or Path())


def _folder(name: object, info: ValidationInfo) -> Path:
    path = _path(name, info)
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, PermissionError):
        return path  # It may still be created before the daemon starts.
    except (OSError, ValueError):
        raise ValueError("must be the name of a folder") from None
    if not is_folder:
        raise ValueError(f"must name a folder, and {path} is a file")
    return path


def _container_resource(text: str) -> str:
    """Check a name like the API: a standard container resource or an extended resource."""
    form = _QUALIFIED_NAME.fullmatch(text)
    standard = text in _STANDARD_RESOURCES or text.startswith("hugepages-")
    extended = "kubernetes.io/" in text or not text.startswith("requests.")
    if form is None or not (extended if form["prefix"] else standard):
        raise ValueError(
            "must be cpu, memory, ephemeral-storage, hugepages-SIZE or an extended resource such "
            "as example.com/gpu"
        )
    return text


def quantity_text(value: object) -> str:
    """Return a quantity of a YAML text or number as text.  Raises ValueError with the sentence."""
    text = value if isinstance(value, str) else _number_text(value)
    if text is None:
        raise ValueError("must be a quantity such as 30, 1.5, 500m, 2k or 1Gi")
    try:
        quantities.parse_quantity(text)
    except ValueError:
        advice = "is not a quantity: write a number with an optional suffix (n u m k M G T P E, "
        advice += "Ki Mi Gi Ti Pi Ei) or exponent, such as 500m, 1.5, 1Gi or 2e3"
        raise ValueError(advice) from None
    return text


def _number_text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def _target_quantity(text: str) -> str:
    nano = quantities.parse_quantity(text)
    if nano <= 0:
        raise ValueError("must be more than 0")
    if nano < _NANO_PER_MILLI:
        raise ValueError("must be at least 1m: the HPA computes targets in thousandths")
    if nano > INT64_MAX * _NANO_PER_MILLI:
        raise ValueError(
            "must be at most 9223372036854775807m (about 9.2P), the largest number that "
            "the HPA can compute: no metric could reach it"
        )
    return text


def _not_negative(text: str) -> str:
    if quantities.parse_quantity(text) < 0:
        raise ValueError("must be 0 or more")
    return text


def _activation(text: str) -> str:
    if abs(quantities.parse_quantity(text)) > INT64_MAX * _NANO_PER_MILLI:
        raise ValueError("must be from -9223372036854775807m to 9223372036854775807m (about 9.2P)")
    return text


@functools.lru_cache(10_000)
def _cron(text: str) -> str:
    """Check a cron expression; its validity does not depend on the time zone."""
    schedules.Cron(text, zoneinfo.ZoneInfo("UTC"))
    return text


@functools.lru_cache(10_000)
def _time_zone(name: str) -> str:
    schedules.time_zone(name)
    return name


def _tolerance(value: object) -> float:
    """Read the default tolerance: a number is used unchanged, a text is a quantity."""
    if isinstance(value, str):
        try:
            nano = quantities.parse_quantity(value)
        except ValueError:
            raise ValueError("must be a number such as 0.1, or a quantity such as 100m") from None
        number = quantities.tolerance_value(nano)
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        number = float(value)
    else:
        raise ValueError("must be a number such as 0.1")
    if number < 0:
        raise ValueError("must be 0 or more")
    return number


@dataclass(frozen=True, slots=True)
class DurationBounds:
    """Reads a duration and checks its bounds, in seconds."""

    low: float = 0.0
    high: float = math.inf
    above_zero: bool = False

    def __call__(self, value: object) -> float:
        """Return the seconds; raises ValueError with the sentence."""
        seconds = durations.seconds_of(value)
        if self.above_zero and seconds == 0:
            raise ValueError("must be longer than 0")
        if not self.low <= seconds <= self.high:
            low, high = durations.format_seconds(self.low), durations.format_seconds(self.high)
            raise ValueError(f"must be from {low} to {high}")
        return seconds


DURATION_SCHEMA = WithJsonSchema(
    {"anyOf": [{"type": "string", "pattern": durations.PATTERN}, {"const": 0}]}
)
POSITIVE_DURATION_SCHEMA = matching(durations.PATTERN.replace("^", "^(?=.*[1-9])", 1))

_FILLED = Form(r"\S", "must not be empty", whole=False)
Text = Annotated[str, _FILLED]
PromQL = Annotated[str, Form(r"\S", "must be PromQL, and is empty", whole=False)]
FilePath = Annotated[Path, PlainValidator(_path), WithJsonSchema(_FILLED.schema)]
"""The path of a file, made absolute; its existence is checked with the other rules."""

FolderPath = Annotated[Path, PlainValidator(_folder), WithJsonSchema(_FILLED.schema)]
"""The path of a folder, made absolute, which need not exist."""

DnsLabel = Annotated[
    str,
    Form(
        DNS_LABEL,
        "must be a DNS label: at most 63 lower-case letters, digits and -, beginning and ending "
        "with a letter or digit",
    ),
]
DnsSubdomain = Annotated[
    str,
    Form(
        _DNS_SUBDOMAIN,
        "must be a DNS name: at most 253 lower-case letters, digits, - and ., beginning and "
        "ending with a letter or digit",
        longest=253,
    ),
]
Segment = Annotated[
    str, Form(_SEGMENT, 'must be a name: not empty, not . or .., without "/" and "%"')
]
ApiVersion = Annotated[
    str, Form("[^/]*(/[^/]*)?", "must be GROUP/VERSION such as apps/v1, or v1 for the core group")
]
ContainerResource = Annotated[
    str,
    AfterValidator(_container_resource),
    matching("^(cpu|memory|ephemeral-storage|hugepages-.+|[^/]+/[^/]+)$"),
]
TargetQuantity = Annotated[
    str,
    BeforeValidator(quantity_text),
    AfterValidator(_target_quantity),
    _number_or(POSITIVE_QUANTITY_PATTERN, minimum=0.001, maximum=INT64_MAX / 1000),
]
_NOT_NEGATIVE_SCHEMA = _number_or(QUANTITY_PATTERN, minimum=0)
ActivationQuantity = Annotated[
    str,
    BeforeValidator(quantity_text),
    AfterValidator(_activation),
    _number_or(QUANTITY_PATTERN.replace(r"\+?", "[+-]?", 1)),
]
CronExpression = Annotated[str, AfterValidator(_cron), matching(_FIVE_FIELDS)]
TimeZone = Annotated[str, AfterValidator(_time_zone), matching(_ZONE)]
ToleranceQuantity = Annotated[
    str, BeforeValidator(quantity_text), AfterValidator(_not_negative), _NOT_NEGATIVE_SCHEMA
]
Tolerance = Annotated[float, BeforeValidator(_tolerance), _NOT_NEGATIVE_SCHEMA]
Duration = Annotated[float, BeforeValidator(DurationBounds()), DURATION_SCHEMA]
LongerThanZero = Annotated[
    float, BeforeValidator(DurationBounds(above_zero=True)), POSITIVE_DURATION_SCHEMA
]
SyncPeriod = Annotated[
    float, BeforeValidator(DurationBounds(1.0, 3600.0)), POSITIVE_DURATION_SCHEMA
]


def _byte_size(value: object) -> int:
    size = -(-quantities.parse_quantity(quantity_text(value)) // numbers.NANO)
    if size < _LEAST_BYTES:
        raise ValueError("must be 16Mi or more")
    return size


ByteSize = Annotated[
    int, BeforeValidator(_byte_size), _number_or(POSITIVE_QUANTITY_PATTERN, minimum=_LEAST_BYTES)
]
"""In bytes."""

_SHARE = re.compile(r"([1-9][0-9]?)%")


def _share(value: object) -> int:
    form = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if form is None:
        raise ValueError("must be a share from 1% to 99%, in whole percent, such as 30%")
    return int(form[1])


Share = Annotated[int, BeforeValidator(_share), matching(f"^{_SHARE.pattern}$")]
"""In percent."""


_ALL_ADDRESSES = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not listened on


@dataclass(frozen=True, slots=True)
class Address:
    """A listening address; an empty host means all addresses, port 0 any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def url(self, scheme: str = "http") -> str:
        """Return the URL by which this machine reaches the address."""
        host = _ALL_ADDRESSES.get(self.host, self.host)
        return f"{scheme}://{Address(host, self.port)}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host) or self.host.lower().rstrip(".") == "localhost"


def is_loopback(host: str) -> bool:
    """Return whether the host of a URL is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_LABEL = r"[0-9A-Za-z_-]{1,63}"
_HOST = rf"(\[(?P<ipv6>[^\]]*)\]|(?P<name>{_LABEL}(\.{_LABEL})*\.?))"
_HOST_PATTERN = rf"(\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\]|{_LABEL}(\.{_LABEL})*\.?)"
_URL = re.compile(rf"https?://{_HOST}(:(?P<port>[0-9]{{1,5}}))?(/[^\s\x00-\x1f\x7f]*)?")
_LISTEN = re.compile(rf"{_HOST}?:(?P<port>[0-9]{{1,5}})")
_HIGHEST_PORT = 65535
_LONGEST_NAME = 253


def _url(text: str) -> str:
    authority = text.partition("://")[2].partition("/")[0]
    if "@" in authority:
        raise ValueError(
            "must not hold credentials; put the user into basicAuth.username and the password "
            "into a file that basicAuth.passwordFile names (or use bearerTokenFile)"
        )
    if "?" in text or "#" in text:
        raise ValueError(
            "must end with the path, without ? and #; parameters belong in queryParameters"
        )
    form = _URL.fullmatch(text)
    if form is None or int(form["port"] or 0) > _HIGHEST_PORT or not _is_host(form):
        raise ValueError("must be an address such as http://prometheus:9090 or https://host/path")
    return text.rstrip("/")


def listen_address(value: object) -> Address:
    """Return the listening address of a text; raises ValueError."""
    form = _LISTEN.fullmatch(value) if isinstance(value, str) else None
    if form is None or int(form["port"]) > _HIGHEST_PORT or not _is_host(form):
        raise ValueError(
            'must be an address and a port, such as 127.0.0.1:9191, "[::1]:9191" or :9191 for all '
            "addresses; null listens nowhere"
        )
    return Address(host=form["ipv6"] or form["name"] or "", port=int(form["port"]))


def _is_host(form: re.Match[str]) -> bool:
    if form["ipv6"] is None:
        return len(form["name"] or "") <= _LONGEST_NAME
    try:
        # Without a zone, which has no meaning outside the machine.
        return ipaddress.IPv6Address(form["ipv6"]).scope_id is None
    except ValueError:
        return False


Url = Annotated[
    str, AfterValidator(_url), matching(rf"^https?://{_HOST_PATTERN}(:[0-9]{{1,5}})?(/[^\s?#]*)?$")
]
HOSTNAME = "{hostname}"
"""The placeholder for the host name in the URL at which other processes reach this one."""


def _external_url(text: str) -> str:
    try:
        _url(text.replace(HOSTNAME, "host"))
    except ValueError:
        raise ValueError(
            f"must be an address such as http://{HOSTNAME}.autoscaler:9191, in which {HOSTNAME} "
            "is the name of the host"
        ) from None
    return text.rstrip("/")


ExternalUrl = Annotated[
    str, AfterValidator(_external_url), matching(r"^https?://([^\s?#@{}]|\{hostname\})+$")
]
Listen = Annotated[
    Address, BeforeValidator(listen_address), matching(rf"^{_HOST_PATTERN}?:[0-9]{{1,5}}$")
]
