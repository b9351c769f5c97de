"""Which of many selectors match a pod, without trying all of them."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from autoscaler.core.selectors import LabelSelector, Operator, parse

_Entry = tuple[str, LabelSelector]
_Pair = tuple[str, str]

_LABEL_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


class SelectorIndex:
    """A fixed set of selectors in string form, each filed under a label that it demands.

    Of the labels that a selector demands, the one that the fewest others demand is chosen: of
    selectors such as `app=web,env=prod`, each is tried only on pods of its own app.  What cannot
    be read, and the empty selector, are left out.
    """

    def __init__(self, selectors: Iterable[str]) -> None:
        entries = list(_readable(selectors))
        self._by_pair: dict[_Pair, list[_Entry]] = defaultdict(list)
        self._by_key: dict[str, list[_Entry]] = defaultdict(list)
        self._others: list[_Entry] = []
        # A pod matches one selector as a rule, and thousands of pods the same one.
        self._shared: dict[tuple[str, ...], tuple[str, ...]] = {}
        demand = Counter(pair for _, selector in entries for pair in selector.match_labels)
        for entry in entries:
            self._file(entry, demand)
        self.selectors = frozenset(text for text, _ in entries)
        """The selectors that are known."""

    def matching(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the selectors that match these labels, each once."""
        found = [text for text, selector in self._candidates(labels) if selector.matches(labels)]
        matching = tuple(found)
        return self._shared.setdefault(matching, matching)

    def _candidates(self, labels: Mapping[str, str]) -> Iterator[_Entry]:
        for pair in labels.items():
            yield from self._by_pair.get(pair, ())
        if self._by_key:
            for key in labels:
                yield from self._by_key.get(key, ())
        yield from self._others

    def _file(self, entry: _Entry, demand: Counter[_Pair]) -> None:
        selector = entry[1]
        if selector.match_labels:
            rarest = min(selector.match_labels, key=lambda pair: demand[pair])
            self._by_pair[rarest].append(entry)
            return
        for requirement in selector.match_expressions:
            if requirement.operator is Operator.IN:
                for value in set(requirement.values):
                    self._by_pair[requirement.key, value].append(entry)
                return
        for requirement in selector.match_expressions:
            if requirement.operator is Operator.EXISTS:
                self._by_key[requirement.key].append(entry)
                return
        self._others.append(entry)


def is_indexable(selector: str) -> bool:
    """Tell whether a selector can be read, states a condition, and holds only labels.

    The API server knows more than `core.selectors` does, such as `size>3`.
    """
    try:
        parsed = parse(selector)
    except ValueError:
        return False
    keys = [key for key, _ in parsed.match_labels]
    keys += [requirement.key for requirement in parsed.match_expressions]
    return not parsed.empty and all(_LABEL_KEY.fullmatch(key) for key in keys)


def _readable(selectors: Iterable[str]) -> Iterator[_Entry]:
    for text in dict.fromkeys(selectors):
        if is_indexable(text):
            yield text, parse(text)
