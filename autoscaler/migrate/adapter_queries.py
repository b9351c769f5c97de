"""Converts a metric that prometheus-adapter serves by a rule to an equal query here.

The adapter sends a query for each HPA: for its namespace, its pods or object, and its selector.
Here one query is sent for all. So the labels that the adapter pins with matchers are kept as labels
of the answer, if the expression permits it; otherwise the query equals the adapter's.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from autoscaler.config.conversion import CONTAINER, CONTAINERS, SERIES, usage_once
from autoscaler.config.documents import child, entries
from autoscaler.config.promql_parser import (
    Aggregation,
    Call,
    Matcher,
    Node,
    VectorSelector,
    parse,
    quoted,
    selectors_in,
)
from autoscaler.core.text import printable
from autoscaler.migrate import promql_answers
from autoscaler.migrate.adapter_rules import AdapterRule, AdapterRules, ResourceRule, Resources
from autoscaler.migrate.drafts import Query
from autoscaler.migrate.go_text import LONGEST_TEXT, VALUES, Template, TemplateError, unknown_group

MetricType = Literal["Pods", "Object", "External"]
FindSeries = Callable[[str], Sequence[Mapping[str, str]]]
"""Returns the labels of the series that a selector matches; raises errors of its connection."""

_RANGE = re.compile(r"\[([0-9a-z]{1,20})\]")
_BUILT_IN = "the built-in query replaces it: each container counts once, averaged over 2m"
_ADDED_UP = (
    "several series of one container, as of one that was restarted, count as in the adapter: write "
    "a query of `resourceQueries` that counts each container once"
)
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_OUTSIDE = re.compile(r"[^A-Za-z0-9_.:-]+")
_LONGEST_NAME = 63
_LONGEST_SHOWN = 100
_MOST_CONDITIONS = 100
_MOST_PARTS = 6
"""The most queries that are tried one after the other if the existing series are unknown."""
_MOST_NEAREST = 3
_MOST_WRITTEN = 20
"""The most other rules for a metric that are compared."""
_MOST_COMPARED, _LONGEST_COMPARED = 200, 63

_ASK = "ask Prometheus which there are (--prometheus)"
_ASKED = "Prometheus does not have them now: import again when it does"
_PINNED = "__label_matchers__"
_MARK = f'{_PINNED}="1"'
"""Replaces `<<.LabelMatchers>>` of a rule until its matchers are known."""
_CONTAINER_FAMILIES = (
    *("blkio_", "cpu_", "file_descriptors", "fs_", "hugetlb_", "last_seen", "llc_", "memory_"),
    *("network_", "oom_events", "perf_", "pressure_", "processes", "referenced_", "sockets"),
    *("spec_", "start_time_", "tasks_state", "threads", "ulimits_", "accelerator_"),
)
"""The suffixes of cAdvisor's metrics after ``container_``."""


class DescribedObject(NamedTuple):
    """`describedObject` of a metric: its API group, kind and name."""

    group: str
    kind: str
    name: str


class ResolvedQuery(NamedTuple):
    """A query for `queries`, with the name that suits it best."""

    name: str
    query: Query
    selector: Mapping[str, object] | None
    """The selector that the metric has here."""
    notes: tuple[str, ...] = ()
    """Differences from the adapter, and choices, as sentences."""


class UnresolvedQuery(NamedTuple):
    """Why there is no query: a sentence with what to do."""

    sentence: str


def resolve(
    rules: AdapterRules,
    kind: MetricType,
    name: str,
    *,
    namespace: str,
    described: DescribedObject | None = None,
    selector: object = None,
    find_series: FindSeries | None = None,
) -> ResolvedQuery | UnresolvedQuery:
    """Return the query for a metric of an HPA in a namespace; ``selector`` is a LabelSelector.

    If several rules can give the metric, the adapter uses the last that finds series.
    ``find_series`` determines that rule; without it the names in the rules decide.
    """
    if len(name) > LONGEST_TEXT:
        return UnresolvedQuery(
            f"its name has {len(name):,} characters, and a rule gives {LONGEST_TEXT}"
        )
    try:
        advice = _ASK if find_series is None else _ASKED
        asked = _AdapterMetric(
            kind, name, namespace, described, tuple(_conditions(selector)), advice
        )
        candidates, others = _candidates(rules, asked, find_series)
        if not candidates:
            return _nothing(rules, asked)
        return _written(candidates, others, asked)
    except _NoQueryError as error:
        return UnresolvedQuery(str(error))


def resource_queries(rules: AdapterRules) -> tuple[dict[str, Query], tuple[str, ...]]:
    """Return `resourceQueries` from `resourceRules`, and why some rules give none."""
    queries: dict[str, Query] = {}
    problems = []
    for name, rule in rules.resource.items():
        try:
            query = _resource_query(name, rule)
            queries |= {} if query is None else {name: query}
        except (_NoQueryError, ValueError) as error:
            problems.append(f"resourceRules.{name}.containerQuery: {error}")
    return queries, tuple(problems)


class _NoQueryError(Exception):
    """There is no query; the message is the sentence."""


class _SelectorCondition(NamedTuple):
    """A condition of a selector: ``operator`` is =, In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...]

    @property
    def matcher(self) -> str:
        """The matcher that the adapter creates from it."""
        value = quoted("|".join(self.values))
        signs = {"=": "=", "In": "=~", "NotIn": "!~", "Exists": "!=", "DoesNotExist": "="}
        return f"{self.key}{signs[self.operator]}{value}"


@dataclass(frozen=True)
class _AdapterMetric:
    """A metric of an HPA, as requested from the adapter."""

    kind: MetricType
    name: str
    namespace: str
    described: DescribedObject | None
    conditions: tuple[_SelectorCondition, ...]
    advice: str
    """The hint if the series decide."""

    @property
    def of_namespace(self) -> bool:
        """Whether it describes the HPA's own namespace, whatever name it says."""
        return self.described is not None and self.described[:2] == ("", "Namespace")

    def has_label(self, resources: Resources) -> bool:
        """Return whether there is a label for its pods or its object; External needs none."""
        return self.kind == "External" or self.resource(resources) is not None

    def resource(self, resources: Resources) -> str | None:
        """Return the label that distinguishes its pods or its object."""
        if self.kind == "External":
            return None
        group, kind = ("", "Pod") if self.described is None else self.described[:2]
        return resources.label(group, kind)


@dataclass(frozen=True)
class _RuleCandidate:
    """A rule for the metric, and a possible name of its series, empty if unknown."""

    rule: AdapterRule
    series: str
    sure: bool = True
    is_guess: bool = False
    """Whether the rule also matches series with longer names."""
    is_found: bool = False
    """Whether Prometheus has the series."""


# -- which rule -----------------------------------------------------------------------------------


def _candidates(
    rules: AdapterRules, asked: _AdapterMetric, find_series: FindSeries | None
) -> tuple[list[_RuleCandidate], list[_RuleCandidate]]:
    """Return the rules to use, the winner first, and others that may win instead.

    There are several to use if the existing series are unknown.
    """
    considered = rules.external if asked.kind == "External" else rules.custom
    naming = [
        rule for rule in considered if any(rule.name_of(name) == asked.name for name in rule.names)
    ][-_MOST_WRITTEN:]
    names = list(dict.fromkeys(name for rule in naming for name in rule.names))
    every = [
        candidate
        for rule in reversed(considered)
        for candidate in _of_rule(rule, asked.name, names)
    ]
    # The adapter has a metric only for objects that the rule has a label for.
    possible = [
        candidate for candidate in every if asked.has_label(candidate.rule.resources)
    ] or every[:1]
    if find_series is not None:
        found = _last_matching(considered, possible, asked, find_series)
        if found is not None:
            return [found], []
    for index, candidate in enumerate(possible):
        if (
            not candidate.series
            or candidate.rule.series
            or any(_covers(candidate, rule) for rule in naming)
        ):
            taken = [other for other in possible if other.rule is candidate.rule and other.sure]
            named = [*naming, *(rule for rule in considered if rule.literal_name == asked.name)]
            earlier = [other for other in possible[index:] if other.rule in named]
            others = [*possible[:index], *earlier]
            return taken, [other for other in others if not _covers(candidate, other.rule)]
    sure = [candidate for candidate in possible if candidate.sure and _is_plausible(candidate)]
    if len(sure) > _MOST_PARTS:
        raise _NoQueryError(
            f"{len(sure)} series could be meant, such as {sure[0].series}: {asked.advice}"
        )
    if sure or not possible:
        return sure, [
            candidate
            for candidate in possible
            if not candidate.sure and not candidate.rule.of_chart
        ]
    shown = printable(possible[0].rule.series_query, _LONGEST_SHOWN)
    raise _NoQueryError(
        f"{possible[0].rule.where} takes any series that {shown} matches: {asked.advice}, or name "
        "the series in it"
    )


def _of_rule(rule: AdapterRule, metric: str, names: Sequence[str]) -> Iterator[_RuleCandidate]:
    """Yield the names of series from which a rule can make a metric; ``names`` are other rules'."""
    found = [name for name in names if rule.name_of(name) == metric]
    made = rule.series_of(metric)
    only = {possible_text.text for possible_text in made if possible_text.sure}
    yield from (_RuleCandidate(rule, name, is_guess=name not in only) for name in found)
    for possible_text in made:
        if possible_text.text not in found and (possible_text.sure or not found):
            usable = possible_text.sure or not possible_text.text.endswith("_")
            yield _RuleCandidate(rule, possible_text.text, usable, is_guess=not possible_text.sure)
    if not made and not found and rule.can_be(metric) and not rule.series:
        if rule.metrics_query is not None and "Series" not in rule.metrics_query.fields:
            yield _RuleCandidate(rule, "")
        elif rule.literal_name is not None or rule.problem:
            yield _RuleCandidate(rule, "?", sure=False)


def _covers(candidate: _RuleCandidate, rule: AdapterRule) -> bool:
    """Return whether a candidate finds series wherever a rule for the same series does."""
    if rule is candidate.rule:
        return True
    here, there = (
        {matcher for matcher in of.selector.matchers if matcher.label != "__name__"}
        if of.selector is not None
        else set[Matcher]()
        for of in (candidate.rule, rule)
    )
    return bool(candidate.series) and rule.series == candidate.series and here <= there


def _is_plausible(candidate: _RuleCandidate) -> bool:
    family = candidate.series.removeprefix("container_")
    return not (
        candidate.rule.of_chart
        and family != candidate.series
        and not family.startswith(_CONTAINER_FAMILIES)
    )


def _last_matching(
    rules: Sequence[AdapterRule],
    possible: Sequence[_RuleCandidate],
    asked: _AdapterMetric,
    find_series: FindSeries,
) -> _RuleCandidate | None:
    """Return the last rule that finds series with the right labels, as the adapter does."""
    for rule in reversed(rules):
        of_rule = [candidate for candidate in possible if candidate.rule is rule]
        if not of_rule or rule.selector is None:
            continue
        known = (
            []
            if any(candidate.is_guess or not candidate.sure for candidate in of_rule)
            else of_rule
        )
        label = asked.resource(rule.resources)
        query = _discovery(
            rule.selector, [candidate.series for candidate in known if candidate.series], label
        )
        names = {series.get("__name__", "") for series in find_series(query)}
        found = sorted(name for name in names if rule.name_of(name) == asked.name)
        if found:
            return _RuleCandidate(rule, found[-1], is_found=True)
    return None


def _discovery(selector: VectorSelector, names: Sequence[str], label: str | None) -> str:
    """Return the selector for the series of a rule with a label, no wider than these names."""
    matchers = [*selector.matchers]
    matchers += [Matcher("__name__", "=", selector.name)] if selector.name else []
    matchers += [Matcher("__name__", "=~", "|".join(names))] if names else []
    matchers += [Matcher(label, "!=", "")] if label else []
    texts = [f"{matcher.label}{matcher.operator}{quoted(matcher.value)}" for matcher in matchers]
    return f"{{{','.join(texts)}}}"


def _nothing(rules: AdapterRules, asked: _AdapterMetric) -> UnresolvedQuery:
    """Return that no rule gives a metric, and which metrics are similar."""
    considered = rules.external if asked.kind == "External" else rules.custom
    others = rules.custom if asked.kind == "External" else rules.external
    known = dict.fromkeys(rule.literal_name or rule.metric or "" for rule in considered)
    names = [name for name in known if name and len(name) <= _LONGEST_COMPARED][:_MOST_COMPARED]
    near = difflib.get_close_matches(asked.name[:_LONGEST_COMPARED], names, n=_MOST_NEAREST)
    nearest = ", ".join(printable(name, _LONGEST_SHOWN) for name in near)
    where = "externalRules" if asked.kind == "External" else "rules"
    sentence = f"none of the {len(considered)} {where} of prometheus-adapter gives this metric"
    if not considered:
        sentence = f"prometheus-adapter has no {where} here"
    sentence += f"; near it are {nearest}" if nearest else ""
    for rule in considered:
        if group := unknown_group(rule.name_as, rule.matches):
            sentence += (
                f"; `name.as` of {rule.where} has {group}, which Go reads as a group that "
                "does not exist: write the number in braces, as ${1}"
            )
            break
    if any(True for rule in others for _ in _of_rule(rule, asked.name, ()) if not rule.of_chart):
        kinds = "Pods and Object" if asked.kind == "External" else "External"
        sentence += f"; a rule for metrics of type {kinds} does"
    if rules.problems:
        sentence += f"; left out are rules with mistakes: {'; '.join(rules.problems[:3])}"
    return UnresolvedQuery(f"{sentence}; give the file with its rule, or write its query")


# -- its query ------------------------------------------------------------------------------------


class _WrittenQuery(NamedTuple):
    """PromQL for a metric; ``own`` names the HPA if the query is not for all."""

    promql: str
    selector: Mapping[str, object] | None
    labels: tuple[str, ...]
    nan: bool
    own: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _written(
    candidates: Sequence[_RuleCandidate], others: Sequence[_RuleCandidate], asked: _AdapterMetric
) -> ResolvedQuery:
    parts = [
        _RuleWriter(candidate.rule, candidate.series, asked).write() for candidate in candidates
    ]
    first = parts[0]
    # A query written for one HPA cannot be combined with a query written for all.
    parts = [
        candidate
        for candidate in parts
        if candidate[1:3] == first[1:3] and candidate.own == first.own
    ]
    texts = list(dict.fromkeys(candidate.promql for candidate in parts))
    notes = list(dict.fromkeys(note for candidate in parts for note in candidate.notes))
    notes += _doubts(candidates, others, asked, texts)
    settings: dict[str, object] = {}
    if asked.kind != "External":
        resources = candidates[0].rule.resources
        pod = asked.resource(resources) if asked.kind == "Pods" else ""
        labels = {"namespace": resources.label("", "Namespace"), "pod": pod}
        if own := {key: label for key, label in labels.items() if label and label != key}:
            settings["labels"] = own
        if any(candidate.nan for candidate in parts):
            settings["nan"] = "zero"  # as the custom metrics API of the adapter answers
    promql = "\nor ".join(texts)
    query: Query = {"query": promql, **settings} if settings else promql
    name = _OUTSIDE.sub("-", "-".join((asked.name, *filter(None, first.own))))[:_LONGEST_NAME]
    return ResolvedQuery(name, query, first.selector, tuple(notes))


def _doubts(
    candidates: Sequence[_RuleCandidate],
    others: Sequence[_RuleCandidate],
    asked: _AdapterMetric,
    texts: Sequence[str],
) -> Iterator[str]:
    """Return why the rule that counts is uncertain: the existing series are unknown."""
    where = candidates[0].rule.where
    if len(texts) > 1:
        yield (
            "which of these the adapter takes depends on the existing series; here the first: "
            f"{asked.advice}, or leave out the others"
        )
    if asked.advice == _ASKED and not candidates[0].is_found:
        yield f"Prometheus has no series for {where} now: the adapter does not serve this"
    for candidate in candidates:
        if candidate.is_guess:
            yield (
                f"{candidate.rule.where} takes any series that its seriesQuery matches, and here "
                f"{candidate.series}: {asked.advice}"
            )
    differ = dict.fromkeys(
        other.rule.where
        for number, other in enumerate(others)
        if number >= _MOST_WRITTEN or not _has_text(other, texts, asked)
    )
    if differ:
        more = len(differ) - _MOST_NEAREST
        several = f" and {more} others" if more > 0 else ""
        yield (
            f"{', '.join(list(differ)[:_MOST_NEAREST])}{several} can give this metric, too: the "
            f"adapter takes the last rule that finds series, and here {where} "
            f"counts: {asked.advice}, or leave out the others"
        )


def _has_text(candidate: _RuleCandidate, texts: Sequence[str], asked: _AdapterMetric) -> bool:
    try:
        return _RuleWriter(candidate.rule, candidate.series, asked).write().promql in texts
    except _NoQueryError:
        return False


@dataclass
class _RuleWriter:
    """Writes the query of one rule and one series for a request."""

    rule: AdapterRule
    series: str
    asked: _AdapterMetric
    notes: list[str] = field(default_factory=list)
    pinned: dict[str, str] = field(default_factory=dict)
    resource: str | None = None
    conditions: tuple[_SelectorCondition, ...] = ()

    def write(self) -> _WrittenQuery:
        asked, template = self.asked, self.rule.metrics_query
        if self.rule.problem:
            raise _NoQueryError(f"a rule that gives it is not understood: {self.rule.problem}")
        if template is None:
            raise _NoQueryError(
                f"{self.rule.where} has no metricsQuery, with which the adapter answers nothing: "
                "write one"
            )
        for condition in asked.conditions:
            if _LABEL.fullmatch(condition.key) is None:
                raise _NoQueryError(
                    f"its selector has the key {printable(condition.key)}, which is not a label of "
                    "Prometheus, so that the adapter finds nothing: name a label"
                )
        self.pinned = self._pinned()
        self.resource = asked.resource(self.rule.resources)
        self.conditions = tuple(
            condition for condition in asked.conditions if not self._is_pinned(condition)
        )
        text = self._filled(template)
        tree = self._parsed(text)
        if self.resource is not None and not promql_answers.has(tree, self.resource):
            raise _NoQueryError(
                f"the query of {self.rule.where} gives no series with the label {self.resource}, "
                "so that the adapter finds no value: aggregate it by <<.GroupBy>>"
            )
        labels = {name.partition(".")[2] for name in template.fields} - {""}
        of_all = labels - ({self.resource} if asked.kind == "Pods" else set())
        marked = [_is_marked(selector) for selector in selectors_in(tree)]
        if not any(marked) and _PINNED not in text and not of_all:
            return self._constant(text, tree)
        shared = self._shared(text) if all(marked) and not of_all else None
        return shared or self._for_one(text, tree)

    def _pinned(self) -> dict[str, str]:
        """Return the labels that the adapter pins, with their values."""
        asked, rule = self.asked, self.rule
        namespace = rule.resources.label("", "Namespace")
        if asked.kind == "External":
            if not rule.resources.namespaced:
                return {}
            if namespace is None:
                self.notes.append(
                    f"{rule.where} names no label for namespaces, so that the adapter refuses "
                    "to answer: here the query reads all namespaces"
                )
                return {}
            return {namespace: asked.namespace}
        if namespace is None or asked.resource(rule.resources) is None:
            of_what = "a namespace" if namespace is None else self._of_what()
            raise _NoQueryError(
                f"`resources` of {rule.where} names no label for {of_what}, without which the "
                "adapter finds no value: write it into `overrides`"
            )
        pinned = {namespace: asked.namespace}
        if asked.described is not None and not asked.of_namespace:
            pinned[asked.resource(rule.resources) or ""] = asked.described.name
        return pinned

    def _is_pinned(self, condition: _SelectorCondition) -> bool:
        """Return whether a condition of the selector is implied by the pinned labels."""
        key, operator, values = condition
        pinned = self.pinned.get(key)
        if pinned is None or operator != "=":
            return False
        if values[0] != pinned:
            both = f"its selector asks for {key}={quoted(values[0])}, and {self.rule.where} for "
            both += f"{key}={quoted(pinned)}, so that the adapter finds nothing"
            if self.asked.kind != "External":
                raise _NoQueryError(f"{both}: leave one of them out")
            self.notes.append(f"{both}: here what the selector says counts")
            self.pinned[key] = values[0]
        return True

    def _of_what(self) -> str:
        return f"{self.asked.described.kind if self.asked.described else 'Pod'} objects"

    def _filled(self, template: Template) -> str:
        values = {
            condition.key: "|".join(condition.values) for condition in self.conditions
        } | self.pinned
        if self.asked.kind == "Pods":
            values[self.resource or ""] = ".+"
        data = {f"{VALUES}.{label}": value for label, value in values.items()}
        data |= {"Series": self.series, "LabelMatchers": _MARK, "GroupBy": self.resource or ""}
        try:
            return promql_answers.tidied(template.fill(data))
        except TemplateError as error:
            raise _NoQueryError(f"metricsQuery of {self.rule.where}: {error}") from error

    def _parsed(self, text: str) -> Node:
        try:
            return parse(text)
        except ValueError as error:
            shown = printable(text.replace(_MARK, "..."), _LONGEST_SHOWN)
            raise _NoQueryError(
                f"metricsQuery of {self.rule.where} becomes {shown}, which is invalid PromQL: "
                f"{error}"
            ) from error

    def _constant(self, text: str, tree: Node) -> _WrittenQuery:
        """Write a query that namespace and selector do not affect."""
        nan = promql_answers.may_be_nan(tree)
        selector: Mapping[str, object] | None = None
        if self.conditions:
            self.notes.append(
                f"{self.rule.where} does not use the selector of the metric: it had no effect, and "
                "is left out"
            )
        if self.asked.kind != "External" and not self.asked.of_namespace:
            self.notes.append(
                f"{self.rule.where} does not select a namespace: if several namespaces have "
                "an object of this name, the adapter takes any, and here it is the right one"
            )
        if self.asked.kind == "Pods":
            text = self._by_namespace(text, tree)
        labels = tuple(filter(None, (*self.pinned, self.resource)))
        return self._done(text, selector, () if self.asked.kind == "External" else labels, nan)

    def _by_namespace(self, text: str, tree: Node) -> str:
        """Return the query with the label for namespaces, which also distinguishes pods."""
        namespace = next(iter(self.pinned))
        if promql_answers.has(tree, namespace):
            return text
        kept = promql_answers.keeping(text, [namespace])
        if kept is None or not promql_answers.has(self._parsed(kept), namespace):
            raise _NoQueryError(
                f"the query of {self.rule.where} gives no series with the label {namespace}: "
                "aggregate it by that, too"
            )
        return kept

    def _shared(self, text: str) -> _WrittenQuery | None:
        """Write the query for all HPAs; None if the expression does not permit it."""
        asked = self.asked
        keys = {condition.key: condition.values for condition in self.conditions}
        plain = all(
            condition.operator == "=" and condition.values[0] for condition in self.conditions
        )
        if (
            not plain
            or len(keys) < len(self.conditions)
            or not keys.keys().isdisjoint({*self.pinned, self.resource})
        ):
            return None
        labels = list(dict.fromkeys((*self.pinned, *keys)))
        kept = promql_answers.keeping(text, labels)
        if kept is None:
            return None
        tree = self._parsed(kept)
        if not all(promql_answers.has(tree, label) for label in labels):
            return None
        present = dict.fromkeys((*labels, *filter(None, [self.resource])))
        matched = {key: values[0] for key, values in keys.items()}
        if asked.kind == "External":
            matched = {**self.pinned, **matched}
        selector = {"matchLabels": matched} if matched else None
        written = _unmarked(kept, _presence(tree, [(label, "") for label in present]))
        return self._done(written, selector, tuple(present), promql_answers.may_be_nan(tree))

    def _for_one(self, marked: str, tree: Node) -> _WrittenQuery:
        """Write the query that the adapter sends for this HPA."""
        asked = self.asked
        matchers = [condition.matcher for condition in self.conditions]
        matchers += [f"{label}={quoted(value)}" for label, value in self.pinned.items()]
        if asked.kind == "Pods":
            matchers.append(f'{self.resource}!=""')
        text = _unmarked(marked, ",".join(matchers))
        namespace = next(iter(self.pinned), "")
        if asked.kind == "Pods" and not promql_answers.has(tree, namespace):
            text = f'label_replace({text}, "{namespace}", {quoted(asked.namespace)}, "", "")'
        own = (
            *self.pinned.values(),
            *(value for condition in self.conditions for value in condition.values),
        )
        labels = tuple(filter(None, (*self.pinned, self.resource)))
        return self._done(text, None, labels, promql_answers.may_be_nan(tree), own)

    def _done(
        self,
        promql: str,
        selector: Mapping[str, object] | None,
        labels: tuple[str, ...],
        nan: bool,  # noqa: FBT001 - a fact of the tree
        own: tuple[str, ...] = (),
    ) -> _WrittenQuery:
        described = self.asked.described
        of_one = {
            *labels,
            *self.pinned,
            self.resource,
            *(condition.key for condition in self.conditions),
        }
        if self.asked.kind != "External" and promql_answers.has_more(self._parsed(promql), of_one):
            self.notes.append(
                f"the query of {self.rule.where} may give several series of one object: the "
                "adapter takes any of them, and here the metric fails and names them: aggregate "
                "it by (<<.GroupBy>>)"
            )
        if described is not None and not self.asked.of_namespace:
            wanted = described.kind.lower()
            if self.resource != wanted:
                promql = f'label_replace({promql}, "{wanted}", "$1", "{self.resource}", "(.+)")'
        return _WrittenQuery(
            promql, selector, tuple(dict.fromkeys(labels)), nan, own, tuple(self.notes)
        )


def _is_marked(selector: VectorSelector) -> bool:
    return any(matcher.label == _PINNED for matcher in selector.matchers)


def _presence(tree: Node, wanted: Sequence[tuple[str, str]]) -> str:
    """Return matchers that require labels to exist, without those that are already there."""
    marked = [selector for selector in selectors_in(tree) if _is_marked(selector)]
    return ",".join(
        f"{label}!={quoted(value)}"
        for label, value in wanted
        if not all(Matcher(label, "!=", value) in event.matchers for event in marked)
    )


def _unmarked(text: str, matchers: str) -> str:
    """Replace the mark by the matchers; empty braces are omitted."""
    if matchers:
        return text.replace(_MARK, matchers)
    for written in (f"{_MARK}, ", f"{_MARK},", f", {_MARK}", f",{_MARK}", f"{{{_MARK}}}", _MARK):
        text = text.replace(written, "")
    return text


def _conditions(selector: object) -> Iterator[_SelectorCondition]:
    """Yield the conditions of a LabelSelector in Kubernetes' order."""
    found: list[_SelectorCondition] = []
    labels = child(selector, "matchLabels")
    for key, value in labels.items() if isinstance(labels, Mapping) else ():
        found.append(_SelectorCondition(str(key), "=", (str(value),)))
    for _, expression in entries(selector, "matchExpressions"):
        key, operator = str(child(expression, "key")), str(child(expression, "operator"))
        values = tuple(sorted({str(value) for _, value in entries(expression, "values")}))
        if operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
            raise _NoQueryError(f"its selector has the operator {printable(operator)}")
        if bool(values) is not operator.endswith("In"):
            raise _NoQueryError(f"its selector has {operator} with the wrong number of values")
        found.append(_SelectorCondition(key, operator, values))
    if len(found) > _MOST_CONDITIONS:
        raise _NoQueryError(f"its selector has more than {_MOST_CONDITIONS} conditions")
    yield from sorted(found, key=lambda node: node.key)


# -- resourceRules --------------------------------------------------------------------------------


def _resource_query(name: str, rule: ResourceRule) -> Query | None:
    """Return the query of a resource; None if the built-in one replaces it."""
    namespace, pod = (rule.resources.label("", kind) for kind in ("Namespace", "Pod"))
    container = rule.container_label
    if namespace is None or pod is None:
        raise _NoQueryError("`resources` names no labels for namespaces and pods")
    data = {"LabelMatchers": _MARK, "GroupBy": f"{pod}, {container}"}
    data |= {f"{VALUES}.{label}": ".+" for label in (namespace, pod)}
    marked = promql_answers.tidied(rule.container_query.fill(data))
    kept = promql_answers.keeping(marked, [namespace])
    tree = parse(kept or marked)
    names = (namespace, pod, container)
    if kept is None or not all(promql_answers.has(tree, name) for name in names):
        raise _NoQueryError(f"it gives no series by {namespace}, {pod} and {container}")
    # The container label is empty for a pod's own cgroup and POD for its pause container.
    wanted = ((namespace, ""), (pod, ""), (container, ""), (container, "POD"))
    usage = _usage_of(tree, marked, wanted)
    if usage is None:
        rule.place.different("containerQuery", why=_ADDED_UP)
        promql = _unmarked(kept, _presence(tree, wanted))
    else:
        read, matchers = usage
        if names == CONTAINER and f"{SERIES[name]}{{{CONTAINERS}}}" in _RANGE.sub("", read):
            if name == "cpu":
                rule.place.different("containerQuery", why=_BUILT_IN)
            return None
        promql = usage_once(read, names, matchers)
    others = {key: label for key, label in zip(CONTAINER, names, strict=True) if key != label}
    return {
        "query": promql,
        **({"window": rule.window} if rule.window else {}),
        **({"labels": others} if others else {}),
    }


def _usage_of(tree: Node, marked: str, wanted: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """Return what a query sums up from cAdvisor, and its matchers; None for anything else."""
    match tree:
        case Aggregation("sum" | "max" | "avg", "by", arguments=(inner,)):
            pass
        case _:
            return None
    match inner:
        case Call("rate" | "irate" as name, (VectorSelector() as read,)):
            form = f"{name}({{}})"
        case VectorSelector() as read:
            form = "{}"
        case _:
            return None
    ranges = _RANGE.findall(marked)
    modified = "offset" in marked or "@" in marked or len(ranges) != (form != "{}")
    if modified or not read.name.startswith("container_"):
        return None
    implied = {Matcher(label, "!=", value) for label, value in wanted}
    others = [
        matcher for matcher in read.matchers if matcher.label != _PINNED and matcher not in implied
    ]
    container = wanted[-1][0]
    matchers = ", ".join(
        (
            CONTAINERS.replace("container!", f"{container}!"),
            *(f"{other.label}{other.operator}{quoted(other.value)}" for other in others),
        )
    )
    of_range = f"[{ranges[0]}]" if ranges else ""
    return form.format(f"{read.name}{{{matchers}}}{of_range}"), matchers
