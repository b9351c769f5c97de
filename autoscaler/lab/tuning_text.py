"""What `autoscaler tune` tells of a search, as text and as JSON."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic.alias_generators import to_camel

from autoscaler.cli.asked_queries import named_queries
from autoscaler.cli.output import aligned, wrapped
from autoscaler.config import Config
from autoscaler.config.documents import as_flow, as_yaml
from autoscaler.config.durations import format_seconds
from autoscaler.config.written import as_written
from autoscaler.core.spec import SOURCES
from autoscaler.core.target import QueryKey, Target
from autoscaler.core.text import rfc3339
from autoscaler.lab.engine.comparison import LEAST_DAYS, total
from autoscaler.lab.engine.measures import A_DAY, Measures
from autoscaler.lab.engine.tuning import Candidate, Choice, Preference, Tuned, TuningSpace
from autoscaler.lab.rendering import MEASURES, MeasureText, day_counts_document, measure_text

_MOST_SHOWN = 10
_GAP = "  "
_WIDTH = 80
_WORDS = {
    "target_factors": "targets x",
    "tolerances": "tolerance",
    "scale_up_windows": "up window",
    "scale_down_windows": "down window",
    "scale_up_percents": "up",
    "scale_down_percents": "down",
    "min_replicas": "minReplicas",
}


def lines_of(found: Tuned, begin: float, config: Config) -> Iterator[str]:
    """Yield what a search has found, and the YAML to paste."""
    end = begin + found.days * A_DAY
    first, judged = found.first_days, found.days - found.split
    yield f"{found.target.key}, {rfc3339(begin)} to {rfc3339(end)}, {found.days} days"
    tried = len(found.candidates) - 1
    were = "candidate was" if tried == 1 else "candidates were"
    yield f"{tried} {were} rehearsed, of this space:"
    for key, values in space_document(found.space).items():
        yield f"{_GAP}{key}: {as_flow(values)}"
    yield f"preferred: {_preferred(found.preference)}"
    split, rest = _days(found.split), _days(judged)
    yield f"chosen by the first {split}, judged on the last {rest}: both are told"
    yield ""
    on_front = found.front()
    shown = sorted(on_front, key=lambda one: found.preference.key(total(one.days[first])))
    shown = shown[:_MOST_SHOWN]
    objectives = [one.heading for one in _objectives(found.preference)]
    told = f"none is better than one of these in {', '.join(objectives[:-1])} and {objectives[-1]}"
    told += " together"
    if len(shown) < len(on_front):
        told += f"; the {len(shown)} of {len(on_front)} that are preferred most"
    if found.today not in shown:
        shown.append(found.today)
        told += "; beside them the configuration as it is"
    yield f"{told}:"
    yield ""
    shown.sort(key=lambda one: total(one.days[first]).replica_hours)
    yield from _table(found, shown)
    yield ""
    if found.chosen.is_today:
        yield "none that was tried is preferred to the configuration as it is"
        return
    yield from _judgement(found)
    if not _is_better(found):
        return
    yield ""
    yield f"to paste into the entry of {found.target.key} in {config.path}:"
    yield ""
    yield from pasted(found.target, found.tuned, config)


def _days(number: int) -> str:
    return "day" if number == 1 else f"{number} days"


def _preferred(preference: Preference) -> str:
    if preference.most_short is not None:
        short = f"{100 * preference.most_short:g}%"
        return f"the fewest replica-hours with at most {short} of the time short"
    return (
        f"the least of {preference.shortage_cost:g} for each missing pod-hour and "
        f"{preference.replica_hour_cost:g} for each replica-hour"
    )


def _objectives(preference: Preference) -> list[MeasureText]:
    """Return the measures of `Preference.objectives`."""
    shortage = "shortage_pod_hours" if preference.most_short is None else "tau_under"
    return [one for one in MEASURES if one.field in {shortage, "replica_hours", "changes"}]


# -- the table -------------------------------------------------------------------------------------


def _table(found: Tuned, shown: Sequence[Candidate]) -> Iterator[str]:
    """Yield for each candidate what it has, and below it its measures a day."""
    measures = _objectives(found.preference)
    rows = [["", *(f"{one.heading}{'' if one.unit == '%' else ' a day'}" for one in measures)]]
    for one in shown:
        numbers = [
            " -> ".join(
                _daily(measure, one.days[days]) for days in (found.first_days, found.last_days)
            )
            for measure in measures
        ]
        rows.append(["", *numbers])
    heading, *lines = (f"{_GAP}{line}".rstrip() for line in aligned(rows))
    yield heading
    for line, one in zip(lines, shown, strict=True):
        has = "as it is" if one.is_today else described(found.space, one.choice)
        mark = "chosen: " if one is found.chosen else ""
        yield from wrapped(f"{mark}{has}", _WIDTH, first=_GAP, others=2 * _GAP)
        yield line


def _daily(measure: MeasureText, days: Sequence[Measures]) -> str:
    value = getattr(total(days), measure.field)
    if value is not None and measure.unit != "%":
        value /= len(days)
    if value is not None and measure.field == "changes":
        return f"{value:.1f}"
    return measure_text(measure, value)


def described(space: TuningSpace, choice: Choice) -> str:
    """Write what a candidate has."""
    return ", ".join(
        f"{_WORDS[name]} {_value_text(name, getattr(space, name)[number])}"
        for name, number in choice.items()
    )


def _value_text(name: str, value: object) -> str:
    return f"{_written(name, value)}{'%/60s' if name.endswith('percents') else ''}"


# -- what to believe, and what to paste ------------------------------------------------------------


def _is_better(found: Tuned) -> bool:
    """Return whether what was chosen is better on the days that it was not chosen by."""
    last, key = found.last_days, found.preference.key
    return key(total(found.chosen.days[last])) < key(total(found.today.days[last]))


def _judgement(found: Tuned) -> Iterator[str]:
    """Say how what was chosen did on the days that it was not chosen by."""
    counts = found.judged()
    if not _is_better(found):
        yield (
            "on the last days what was chosen is no better than the configuration as it is: what "
            "it gained on the first ones it does not keep"
        )
    elif counts.sure:
        yield "on the last days what was chosen is better than the configuration as it is"
    else:
        yield (
            "on the last days what was chosen is better than the configuration as it is, by no "
            "more than days differ by chance"
        )
    few = ": too few days to be sure" if counts.days < LEAST_DAYS else ""
    yield f"by days it is better on {counts.better} of {counts.days}{few}"


def pasted(before: Target, after: Target, config: Config) -> Iterator[str]:
    """Yield the YAML of those keys of a target that differ.

    Metrics whose query is one of `queries` go on naming it.
    """
    old, new = as_written(before), as_written(after)
    changed = {key: new.get(key) for key in new | old if new.get(key) != old.get(key)}
    if "metrics" in changed:
        changed["metrics"] = _by_name(after, changed["metrics"], named_queries(config))
    yield from as_yaml(changed).splitlines()


def _by_name(target: Target, metrics: object, named: Mapping[str, QueryKey]) -> object:
    """Leave the query out of each metric whose name stands for it."""
    if not isinstance(metrics, list):
        return metrics
    for written, metric, query in zip(metrics, target.spec.metrics, target.queries, strict=True):
        if named.get(metric.name) == query.key:
            written[SOURCES[metric.type]].get("metric", {}).pop("query", None)
    return metrics


# -- as JSON ---------------------------------------------------------------------------------------


def space_document(space: TuningSpace) -> dict[str, object]:
    """Return a space as its file has it, without the settings that have no values."""
    return {
        to_camel(name): [_written(name, value) for value in getattr(space, name)]
        for name in TuningSpace.model_fields
        if getattr(space, name)
    }


def _written(name: str, value: object) -> object:
    if name.endswith("windows") and isinstance(value, float):
        return format_seconds(value)
    return value


def document_of(found: Tuned) -> dict[str, object]:
    """Return what a search has found as JSON."""
    on_front, chosen = found.front(), found.chosen

    def told(one: Candidate) -> dict[str, object]:
        settings = {
            to_camel(name): _written(name, getattr(found.space, name)[number])
            for name, number in one.choice.items()
        }
        return {
            "settings": settings,
            "asItIs": one.is_today,
            "front": one in on_front,
            "chosen": one is chosen,
            "firstDays": total(one.days[found.first_days]).document(),
            "lastDays": total(one.days[found.last_days]).document(),
        }

    return {
        "target": found.target.key,
        "days": found.days,
        "chosenByDays": found.split,
        "space": space_document(found.space),
        "candidates": [told(one) for one in found.candidates],
        "lastDaysOfChosen": day_counts_document(found.judged()),
        "configuration": as_written(found.tuned),
        "interrupted": found.interrupted,
    }
