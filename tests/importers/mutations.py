"""Manifests that are broken in many ways, each reproducible from its number."""

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import yaml

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3, 10**20, 1.5, float("inf"), float("nan"), "", " ", "x", "0"),
    *("-5", "1.5Gb", "30", "500m", "${MAX}", "{{ .Values.x }}", "true", "a" * 300),
    "\u202e\x1b[31m",
    *("http://[::1", "http://u:p@h/?a=b", "sum(up", 'up{a="b"}', "<<.Series>>", "0 8 * * *", "a,b"),
    *("* * * * *", "*/1 */1 * * */1", "@daily", "nan", "1e400", "=,=", "a=b=c", "$HOST", "<x>"),
    *("(" * 500, "[" * 500, "sum(" * 400, "one ** " * 100 + "one", "one ? " * 150, "=" * 3_000),
    *('{__name__=~"^a_(.*)$"}', "(a+)+$", "^((a|b)*)*c", "$1_x", "${2}", "kube_<<.Group>>_x", "<<"),
    *("<<range .X>><<end>>", '<<index .LabelValuesByName "pod">>', "topk(1, x)", "1+" * 90 + "1"),
    *([], {}, [None], [[]], [{}], {"a": 1}, {"name": "x"}, {"type": "prometheus"}, ["x", 1]),
)
"""What takes the place of a value."""

KEYS = ("name", "namespace", "spec", "metadata", "type", "target", "metric", "x", "", "items", "1")


def mutated(documents: list[Any], number: int) -> str:
    """Return the text that has this number: one of the documents with a few faults."""
    chance = random.Random(number)  # noqa: S311 - no secret
    document = deepcopy(chance.choice(documents))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        _change(document, chance)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return _break(text, chance) if chance.random() < 0.25 else text


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        for key in value:
            yield value, key
            yield from _places(value[key])
    elif isinstance(value, list):
        for index in range(len(value)):
            yield value, index
            yield from _places(value[index])


def _change(document: Any, chance: random.Random) -> None:
    places = list(_places(document))
    if not places:
        return
    holder, key = chance.choice(places)
    match chance.randrange(6):
        case 0:
            del holder[key]
        case 1 | 2:
            holder[key] = deepcopy(chance.choice(VALUES))
        case 3:
            other, its = chance.choice(places)
            if its in other if isinstance(other, dict) else its < len(other):
                holder[key] = deepcopy(other[its])
        case 4 if isinstance(holder, dict):
            holder[chance.choice(KEYS)] = holder.pop(key)
        case 5 if isinstance(holder, list):
            holder.append(deepcopy(holder[key]))
        case _:
            holder[key] = [holder[key]]


def _break(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    match chance.randrange(5):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + chance.choice("{}[]:#&*!|>'\"%@`\t\n-,?") + text[at:]
        case 2:
            return text[:at] + "\n---\n" + text[at:]
        case 3:
            lines = text.splitlines(keepends=True)
            chance.shuffle(lines)
            return "".join(lines)
    return text.replace(" ", chance.choice(("  ", "", "\t")), 3)
