"""The rules of prometheus-adapter, wherever they are written: which series become which metrics.

https://github.com/kubernetes-sigs/prometheus-adapter/blob/master/docs/config.md
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TypeVar

import yaml

from autoscaler.config import documents
from autoscaler.config.documents import Value, child
from autoscaler.config.promql_parser import VectorSelector, parse
from autoscaler.migrate.fields import Fields, items_of
from autoscaler.migrate.go_text import (
    BY_HAND,
    LONGEST_TEXT,
    MOST_GROUPS,
    GoRegex,
    PossibleText,
    Template,
    captures_of,
    expand,
    parts_of,
)

_Made = TypeVar("_Made")
_SETTINGS = "it configures the adapter's own pods, and nothing asks it any longer"
_AROUND = "not needed: nothing uses the adapter any more"
_HOLDERS = frozenset({"ConfigMap", "HelmRelease", "HelmChart", "Application", "ApplicationSet"})
"""The kinds of objects whose values or texts may contain rules."""
_OF_OBJECTS = frozenset({"apiVersion", "kind", "metadata", "status"})
_DEEPEST = 8
"""The levels at which rules are searched: an ApplicationSet has them at the sixth."""
_METRIC = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]{0,254}")
_ANY = GoRegex(".*")
_MOST_RULES = 1_000
_MOST_OVERRIDES = 200
_MOST_SERIES = 8
"""The most names of series that a rule is tried with for one metric."""


@dataclass(frozen=True)
class Resources:
    """The labels that name Kubernetes objects: `resources` of a rule."""

    overrides: tuple[tuple[str, str, str], ...] = ()
    """Label, group (empty for any) and resource, in lower case."""
    template: Template | None = None
    namespaced: bool = True

    def label(self, group: str, kind: str) -> str | None:
        """Return the label that names an object of a kind; None without one."""
        singular = kind.lower()
        names = {singular, _plural(singular)}
        found = [
            (of_group != group, label)
            for label, of_group, resource in self.overrides
            if resource in names and of_group in {"", group}
        ]
        if found:
            return min(found)[1]
        if self.template is None:
            return None
        sanitized = group.replace(".", "_").replace("-", "_")
        return self.template.fill({"Group": sanitized, "Resource": singular}) or None


def _plural(singular: str) -> str:
    if singular.endswith(("s", "x", "ch", "sh")):
        return f"{singular}es"
    return f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"


@dataclass(frozen=True)
class AdapterRule:
    """A rule for custom or external metrics; the first lines of its queries are its own."""

    where: str
    """Its place in its document, such as ``rules[3]``."""
    series_query: str
    metrics_query: Template | None
    """None if it is missing: the adapter then answers nothing."""
    resources: Resources
    filters: tuple[tuple[bool, GoRegex], ...] = ()
    """Whether the name of a series must match, and the pattern."""
    matches: GoRegex = _ANY
    name_as: str = "$0"
    of_chart: bool = False
    """Whether it is one of the chart's default rules, which are in no file."""
    problem: str = ""
    """Why a part of it is not understood."""

    @cached_property
    def selector(self) -> VectorSelector | None:
        """The selector of its series; None if it is not understood."""
        try:
            tree = parse(self.series_query)
        except ValueError:
            return None
        return tree if isinstance(tree, VectorSelector) else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of series in its selector, as text or as an expression with few texts."""
        selector = self.selector or VectorSelector("")
        named = (selector.name, *(matcher.value for matcher in selector.name_matchers))
        names = [name for name in named if name]
        for texts in (regex.texts() for positive, regex in self._name_matchers if positive):
            names += [value.text for value in texts if value.sure and _METRIC.fullmatch(value.text)]
        return tuple(dict.fromkeys(names))

    @property
    def series(self) -> str:
        """The only name of its series; empty if there are several."""
        return self.names[0] if len(self.names) == 1 else ""

    @cached_property
    def _name_matchers(self) -> tuple[tuple[bool, GoRegex], ...]:
        selector = self.selector
        return tuple(
            (
                not matcher.operator.startswith("!"),
                GoRegex(matcher.value if "~" in matcher.operator else re.escape(matcher.value)),
            )
            for matcher in (selector.matchers if selector is not None and not self.problem else ())
            if matcher.label == "__name__"
        )

    @cached_property
    def literal_name(self) -> str | None:
        """The name of its metric, if it does not depend on the series."""
        parts = list(parts_of(self.name_as, self.matches))
        return "".join(map(str, parts)) if all(isinstance(part, str) for part in parts) else None

    def takes(self, series: str) -> bool:
        """Return whether it may match series with this name."""
        if self.series and series != self.series:
            return False
        if any(
            matcher.matches_all(series) is not wanted for wanted, matcher in self._name_matchers
        ):
            return False
        return all(
            (pattern.search(series) is not None) is wanted for wanted, pattern in self.filters
        )

    def name_of(self, series: str) -> str | None:
        """Return the name of the metric for series with a name; None without one."""
        found = self.matches.search(series)
        if found is None or not self.takes(series):
            return None
        return expand(self.name_as, self.matches, found)

    @cached_property
    def metric(self) -> str | None:
        """The name of its metric, if its series have one name."""
        return self.name_of(self.series) if self.series else None

    def series_of(self, metric: str) -> list[PossibleText]:
        """Return names of series that become a metric: the only one, or the shortest."""
        if self.series:
            return [PossibleText(self.series, sure=True)] if self.metric == metric else []
        captures = captures_of(metric, self.name_as, self.matches)
        if captures is None:
            return []
        made = self.matches.texts(captures)
        for positive, regex in self._name_matchers:
            made += regex.texts() if positive else []
        found = {
            possible_text.text: possible_text
            for possible_text in reversed(made)
            if _METRIC.fullmatch(possible_text.text)
        }
        right = [interval for interval in found.values() if self.name_of(interval.text) == metric]
        return right[::-1][:_MOST_SERIES]

    def can_be(self, metric: str) -> bool:
        """Return whether the name of a metric has the form of its names."""
        return captures_of(metric, self.name_as, self.matches) is not None


@dataclass(frozen=True)
class ResourceRule:
    """How the adapter reads the usage of containers: `resourceRules.cpu` or `memory`."""

    container_query: Template
    resources: Resources
    container_label: str
    place: Fields
    window: str = ""


@dataclass(frozen=True)
class AdapterRules:
    """All rules of some documents, in order: of two rules for a metric the later one wins."""

    custom: tuple[AdapterRule, ...] = ()
    external: tuple[AdapterRule, ...] = ()
    resource: Mapping[str, ResourceRule] = field(default_factory=dict)
    prometheus_url: str | None = None
    problems: tuple[str, ...] = ()
    """The errors of rules that are left out."""


def rules_in(fields: Fields) -> AdapterRules | None:
    """Read the rules of a document; None without rules.

    It is a configuration of the adapter, values of its chart, or an object that contains these: a
    chart of charts, or a ConfigMap, HelmRelease, HelmChart, Application or ApplicationSet.
    """
    kind = fields.peek("kind")
    of_object = kind is not None and isinstance(fields.peek("apiVersion"), str)
    if of_object and not (isinstance(kind, str) and kind in _HOLDERS):
        return None
    found = []
    for view in _views(fields):
        found.append(_rules(view))
        if fields.peek(*view.location[len(fields.location) :]) is not view.value:
            view.refuse_the_rest()  # Variables in a text are not visible outside of it.
    return merged(found) if found else None


def merged(several: Iterable[AdapterRules]) -> AdapterRules:
    """Return the rules of several documents together, in order.

    The server is only set if all documents that name one agree.
    """
    every = list(several)
    urls = {rules.prometheus_url for rules in every} - {None}
    return AdapterRules(
        tuple(rule for rules in every for rule in rules.custom),
        tuple(rule for rules in every for rule in rules.external),
        {name: rule for rules in every for name, rule in rules.resource.items()},
        urls.pop() if len(urls) == 1 else None,
        tuple(problem for rules in every for problem in rules.problems),
    )


# -- where rules are written ----------------------------------------------------------------------


def _views(fields: Fields, depth: int = 0) -> list[Fields]:
    """Return the views of configurations and of values, and ignore what is around them."""
    if _has_rules(fields.value):
        return [fields]
    found: list[Fields] = []
    others: list[str | int] = []
    for key, _ in items_of(fields.peek()) if depth < _DEEPEST else ():
        inner = _text(fields, key) if isinstance(fields.peek(key), str) else fields.within(key)
        views = _views(inner, depth + 1) if inner is not None else []
        found += views
        if not views and (depth or key not in _OF_OBJECTS):
            others.append(key)
    for key in others if found else ():
        fields.ignored(key, why=_AROUND)
    return found


def _text(fields: Fields, *keys: str | int) -> Fields | None:
    """Return a view of the YAML in a text; None without YAML."""
    text = fields.peek(*keys)
    if not isinstance(text, str) or "ules" not in text:
        return None
    try:
        value = documents.read(text, lambda *_: None)
    except yaml.YAMLError:
        return None
    return fields.parsed(*keys, value=value) if isinstance(value, dict) else None


def _has_rules(value: object) -> bool:
    return _is_configuration(value) or _is_values(value)


def _is_configuration(value: object) -> bool:
    rules = [*_list(value, "rules"), *_list(value, "externalRules")]
    if child(value, "resourceRules", "cpu") or child(value, "resourceRules", "memory"):
        return True
    return any(child(rule, "seriesQuery") is not None for rule in rules)


def _is_values(value: object) -> bool:
    rules = child(value, "rules")
    return isinstance(rules, dict) and (
        isinstance(rules.get("default"), bool)
        or bool(rules.get("existing"))
        or any(isinstance(rules.get(key), list) for key in ("custom", "external"))
        or isinstance(rules.get("resource"), dict)
    )


def _list(value: object, key: str) -> list[Value]:
    listed = child(value, key)
    return listed if isinstance(listed, list) else []


# -- reading rules --------------------------------------------------------------------------------


def _rules(view: Fields) -> AdapterRules:
    if isinstance(view.peek("rules"), dict) or not _is_configuration(view.value):
        return _of_chart(view)
    return _read(view, ("rules",), ("externalRules",), ("resourceRules",))


def _of_chart(view: Fields) -> AdapterRules:
    for key in view.value:
        if key not in {"rules", "prometheus"}:
            view.ignored(key, why=_SETTINGS)
    url = _url_of(view)
    existing = view.peek("rules", "existing")
    if existing:
        why = f"its rules are in the ConfigMap {documents.describe(existing)}: give that one, too"
        view.refused("rules", "existing", why=why)
        return AdapterRules(prometheus_url=url, problems=(why,))
    for key in ("existing", "default", "resource"):
        if key in view.within("rules").value:
            view.carried("rules", key)
    read = _read(view, ("rules", "custom"), ("rules", "external"), ("rules", "resource"))
    # The chart has them by default.
    default = view.peek("rules", "default")
    known = chart_rules() if default is not False else ()
    return AdapterRules((*known, *read.custom), read.external, read.resource, url, read.problems)


def _url_of(view: Fields) -> str | None:
    url, port, path = (view.peek("prometheus", key) for key in ("url", "port", "path"))
    if not isinstance(url, str) or "{{" in url or "://" not in url:
        return None
    view.get("prometheus")
    of_port = f":{port}" if isinstance(port, int) and port and not isinstance(port, bool) else ""
    return f"{url.rstrip('/')}{of_port}{path if isinstance(path, str) else ''}"


def _read(
    view: Fields, custom: tuple[str, ...], external: tuple[str, ...], resource: tuple[str, ...]
) -> AdapterRules:
    problems: list[str] = []
    of_custom, of_external = _each(view, custom, problems), _each(view, external, problems)
    resources = {}
    for name in ("cpu", "memory"):
        place = view.within(*resource, name)
        if place.value and (rule := _resource_rule(place, problems)) is not None:
            window = view.get(*resource, "window")
            resources[name] = replace(rule, window=window if isinstance(window, str) else "")
    return AdapterRules(of_custom, of_external, resources, None, tuple(problems))


def _each(view: Fields, keys: tuple[str, ...], problems: list[str]) -> tuple[AdapterRule, ...]:
    _carry_if_empty(view, *keys)
    rules = []
    for number, place in enumerate(view.each(*keys)):
        if number >= _MOST_RULES:
            problems.append(f"there are more than {_MOST_RULES:,} rules")
            break
        rule = _rule(place, problems)
        if rule.series_query:
            rules.append(rule)
    return tuple(rules)


def _rule(place: Fields, problems: list[str]) -> AdapterRule:
    reading = _RuleReading(place, problems)
    before = len(problems)
    query = reading.text("seriesQuery")
    if not query:
        reading.problem("seriesQuery", "is missing: the adapter finds no series without it")
    matches = reading.text("name", "matches")
    regex = reading.made(GoRegex, matches or ".*", "name", "matches")
    name_as = reading.text("name", "as")
    if not name_as and regex is not None:
        if regex.count > 1:
            why = "is missing, and `matches` has several groups: the adapter refuses that"
            reading.problem("name", why, "as")
        name_as = "$1" if regex.count == 1 else "$0"
    groups = sum(isinstance(part, int) for part in parts_of(name_as, regex or _ANY))
    if groups > MOST_GROUPS or len(name_as) > LONGEST_TEXT:
        most = f"{MOST_GROUPS} groups or {LONGEST_TEXT} characters"
        reading.problem("name", f"has more than {most}: {BY_HAND}", "as")
    metrics_query = reading.text("metricsQuery")
    rule = AdapterRule(
        where=documents.path_of(place.location),
        series_query=query,
        metrics_query=reading.made(Template, metrics_query, "metricsQuery")
        if metrics_query
        else None,
        resources=reading.resources(),
        filters=tuple(reading.filters()),
        matches=regex or _ANY,
        name_as=name_as,
    )
    try:
        rule.takes("")  # its selector is read
    except ValueError as error:
        reading.problem("seriesQuery", f"is not understood: {error}")
    return replace(rule, problem="; ".join(problems[before:]))


def _carry_if_empty(place: Fields, *keys: str | int) -> None:
    """Count a key without content as carried over: an empty text, list or mapping, or null."""
    if keys[-1] in place.within(*keys[:-1]).value and not place.peek(*keys):
        place.carried(*keys)


def _resource_rule(place: Fields, problems: list[str]) -> ResourceRule | None:
    reading = _RuleReading(place, problems)
    written = reading.text("containerQuery")
    label = reading.text("containerLabel")
    place.ignored("nodeQuery", why="it is for `kubectl top nodes`, which no autoscaler asks")
    template = reading.made(Template, written, "containerQuery") if written else None
    resources = reading.resources()
    if template is None:
        return None
    return ResourceRule(template, resources, label or "container", place)


@dataclass(frozen=True)
class _RuleReading:
    """The fields of one rule; errors are refused there, with their place."""

    place: Fields
    problems: list[str]

    def problem(self, key: str, why: str, *keys: str | int) -> None:
        self.place.refused(key, *keys, why=f"it {why}")
        path = documents.path_of((*self.place.location, key, *keys))
        self.problems.append(f"{path} {why}")

    def text(self, key: str, *keys: str | int) -> str:
        value = self.place.get(key, *keys)
        if value is None or isinstance(value, str):
            _carry_if_empty(self.place, key, *keys)
            return value or ""
        if isinstance(value, dict | list):
            self.problem(key, f"has to be a text, and is {documents.kind_of(value)}", *keys)
            return ""
        return str(value)

    def made(
        self, make: Callable[[str], _Made], text: str, key: str, *keys: str | int
    ) -> _Made | None:
        try:
            return make(text)
        except ValueError as error:
            self.problem(key, f"is not understood: {error}", *keys)
            return None

    def filters(self) -> Iterator[tuple[bool, GoRegex]]:
        _carry_if_empty(self.place, "seriesFilters")
        for number, each in enumerate(self.place.each("seriesFilters")):
            for key in ("is", "isNot"):
                written = each.get(key)
                if isinstance(written, str) and written:
                    at = (number, key)
                    regex = self.made(GoRegex, written, "seriesFilters", *at)
                    if regex is not None:
                        yield key == "is", regex

    def resources(self) -> Resources:
        place = self.place.within("resources")
        self.place.get("resources", "namespaced")
        template = self.text("resources", "template")
        made = self.made(_label_template, template, "resources", "template") if template else None
        overrides = []
        written = place.within("overrides")
        for keys in (("resources",), ("resources", "overrides"), ("name",)):
            _carry_if_empty(self.place, *keys)
        for label in list(written.value)[:_MOST_OVERRIDES]:
            group, resource = (written.get(label, key) for key in ("group", "resource"))
            _carry_if_empty(written, label, "group")
            if isinstance(resource, str):
                of_group = group if isinstance(group, str) else ""
                overrides.append((label, of_group, resource.lower()))
        return Resources(tuple(overrides), made, place.peek("namespaced") is not False)


def _label_template(text: str) -> Template:
    template = Template(text)
    template.fill({"Group": "group", "Resource": "resource"})
    return template


# -- the chart's own rules ------------------------------------------------------------------------

_CADVISOR = '{__name__=~"^container_.*",container!="POD",namespace!="",pod!=""}'
_OTHERS = '{namespace!="",__name__!~"^container_.*"}'
_CHART: Sequence[tuple[str, str, str, str]] = (
    # The series, a name that is omitted, the name that is used, and what is done with a series.
    (_CADVISOR, "", "^container_(.*)_seconds_total$", "rate"),
    (_CADVISOR, "^container_.*_seconds_total$", "^container_(.*)_total$", "rate"),
    (_CADVISOR, "^container_.*_total$", "^container_(.*)$", ""),
    (_OTHERS, ".*_total$", "", ""),
    (_OTHERS, ".*_seconds_total", "^(.*)_total$", "rate"),
    (_OTHERS, "", "^(.*)_seconds_total$", "rate"),
)
"""The effect of `rules.default: true` in the chart of prometheus-adapter."""


@cache
def chart_rules() -> tuple[AdapterRule, ...]:
    """Return the chart's default rules, which precede the rules of its values."""
    by_labels = Resources((("namespace", "", "namespace"), ("pod", "", "pod")))
    by_template = Resources(template=Template("<<.Resource>>"))
    rules = []
    for number, (query, left_out, matches, function) in enumerate(_CHART):
        of_container = ',container!="POD"' if query == _CADVISOR else ""
        read = f"<<.Series>>{{<<.LabelMatchers>>{of_container}}}"
        read = f"rate({read}[5m])" if function else read
        regex = GoRegex(matches or ".*")
        rules.append(
            AdapterRule(
                where=f"default rule {number + 1} of the chart",
                series_query=query,
                metrics_query=Template(f"sum({read}) by (<<.GroupBy>>)"),
                resources=by_labels if query == _CADVISOR else by_template,
                filters=((False, GoRegex(left_out)),) if left_out else (),
                matches=regex,
                name_as="$1" if regex.count else "$0",
                of_chart=True,
            )
        )
    return tuple(rules)
