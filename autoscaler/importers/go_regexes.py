"""Regular expressions of Go (RE2), matched in linear time, and turned around.

Python's own would do for most, but takes exponential time for some that Go matches at once.
https://github.com/google/re2/wiki/Syntax; what rules for names do not need is refused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import NamedTuple, TypeAlias

LONGEST = 1_000
"""Characters of an expression."""
LONGEST_TEXT = 255
"""Characters of a text that is matched; longer ones match nothing."""
_LARGEST = 1_000
"""Instructions of an expression, which repetitions multiply."""
_DEEPEST = 50
_MOST_REPETITIONS = 1_000
"""The most that RE2 takes in ``{n,m}``."""
_MOST_PLACES = 30
"""Of an expression in which it repeats: each is a further way for all that follow."""
_MOST_TEXTS = 16
_FEW = 4
"""A class of so many characters is taken for each of them; a larger one for any."""

_Ranges: TypeAlias = tuple[tuple[int, int], ...]
_LAST = 0x10FFFF
_CLASSES: dict[str, _Ranges] = {
    "d": ((48, 57),),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "s": ((9, 10), (12, 13), (32, 32)),
}
_POSIX: dict[str, _Ranges] = {
    "alpha": ((65, 90), (97, 122)),
    "digit": _CLASSES["d"],
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "lower": ((97, 122),),
    "upper": ((65, 90),),
    "word": _CLASSES["w"],
    "space": ((9, 13), (32, 32)),
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
_ESCAPES = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "a": 7}
_COUNT = re.compile(r"\{([0-9]{1,4})(,([0-9]{0,4}))?\}")
_NAME = re.compile(r"P?<([A-Za-z0-9_]{1,100})>")
_FLAGS = re.compile(r"([is]{0,2})(-[is]{1,2})?([:)])")
_REFERENCE = re.compile(r"\$(?:(\$)|\{([A-Za-z0-9_]{1,100})\}|([A-Za-z0-9_]{1,100}))?")


@dataclass(frozen=True, slots=True)
class _Chars:
    ranges: _Ranges


@dataclass(frozen=True, slots=True)
class _Sequence:
    parts: tuple["_Node", ...]


@dataclass(frozen=True, slots=True)
class _Alternatives:
    options: tuple["_Node", ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    of: "_Node"
    least: int
    most: int | None
    greedy: bool


@dataclass(frozen=True, slots=True)
class _Capture:
    number: int
    of: "_Node"


@dataclass(frozen=True, slots=True)
class _Place:
    """A condition on a place: ``^``, ``$``, ``b`` (a word begins or ends) or ``B``."""

    kind: str


_Node: TypeAlias = _Chars | _Sequence | _Alternatives | _Repeat | _Capture | _Place


class Match(NamedTuple):
    """A match: begin and end of the whole and of each group, None for one that took no part."""

    text: str
    spans: tuple[tuple[int, int] | None, ...]

    def group(self, number: int) -> str:
        """Return what a group took; nothing if it took no part or does not exist."""
        span = self.spans[number] if number < len(self.spans) else None
        return "" if span is None else self.text[span[0] : span[1]]


class Made(NamedTuple):
    """A text that an expression matches; not ``sure`` if it could have more in some place."""

    text: str
    sure: bool


class GoRegex:
    """A compiled expression.  Raises ValueError for what is no expression, or is not known here."""

    def __init__(self, source: str) -> None:
        if len(source) > LONGEST:
            raise ValueError(f"has {len(source):,} characters, and may have {LONGEST:,}")
        parser = _RegexParser(source)
        self.source = source
        self._tree = parser.parse()
        self.groups: Mapping[str, int] = parser.names
        """The numbers of its named groups."""
        self.count = parser.captures
        """How many groups it has."""
        self._program = _Program(self._tree)
        self._python = _as_python(self._tree)

    def search(self, text: str) -> Match | None:
        """Return the leftmost match that Go finds, or None."""
        if len(text) > LONGEST_TEXT:
            return None
        if self._python is None:
            return self._program.run(text, 2 * (self.count + 1))
        found = self._python.search(text)
        if found is None:
            return None
        spans = (found.span(number) for number in range(self.count + 1))
        return Match(text, tuple(span if span[0] >= 0 else None for span in spans))

    def matches_all(self, text: str) -> bool:
        """Return whether the whole text is a match, as Prometheus matches labels."""
        if len(text) > LONGEST_TEXT:
            return False
        if self._python is None:
            return self._program.accepts(text)
        return self._python.fullmatch(text) is not None

    def texts(self, given: Mapping[int, str] | None = None) -> list[Made]:
        """Return a few short texts that it matches, with groups (0 is all of it) as ``given``.

        None for what can be any text.  A group is not compared with what is given for it.
        """
        given = given or {}
        if 0 in given:
            return [Made(given[0], sure=True)]
        return list(islice(_texts(self._tree, given), _MOST_TEXTS))


def expand(template: str, regex: GoRegex, match: Match) -> str:
    """Fill in a template as Go's Expand: ``$name`` takes all letters, digits and ``_`` there are.

    So ``$1_total`` is the group of the name ``1_total``, which there is not, and is empty.
    """
    return "".join(
        part if isinstance(part, str) else match.group(part) for part in parts_of(template, regex)
    )


def parts_of(template: str, regex: GoRegex) -> Iterator[str | int]:
    """Yield the texts of a template, and the numbers of the groups between them."""
    at = 0
    for found in _REFERENCE.finditer(template):
        if found.start() > at:
            yield template[at : found.start()]
        at = found.end()
        name = found[2] or found[3]
        if name is None:
            yield "$"
        elif name.isdecimal():
            yield int(name[:4])
        elif name in regex.groups:
            yield regex.groups[name]
    if at < len(template):
        yield template[at:]


def unknown_group(template: str, regex: GoRegex) -> str:
    """Return the first reference of a template to a group that does not exist, or nothing."""
    for found in _REFERENCE.finditer(template):
        name = found[2] or found[3] or "0"
        known = int(name[:4]) <= regex.count if name.isdecimal() else name in regex.groups
        if not known:
            return found[0]
    return ""


def captures_of(name: str, template: str, regex: GoRegex) -> dict[int, str] | None:
    """Return what the groups took if a template has become ``name``; None if it cannot have.

    Of several ways it is the one in which each group takes as much as it can.
    """
    parts = list(parts_of(template, regex))
    numbers = [part for part in parts if isinstance(part, int)]
    texts = [part for part in parts if isinstance(part, str)]
    if len(name) > LONGEST_TEXT or sum(map(len, texts)) > len(name):
        return None
    if not numbers:
        return {} if "".join(texts) == name else None
    if len(numbers) == 1:
        at = parts.index(numbers[0])
        before, after = "".join(texts[:at]), "".join(texts[at:])
        fits = name.startswith(before) and name.endswith(after)
        return {numbers[0]: name[len(before) : len(name) - len(after)]} if fits else None
    found = _Program(_Sequence(tuple(_nodes_of(parts)))).run(name, 2 * (len(numbers) + 1))
    if found is None:
        return None
    return {number: found.group(index) for index, number in enumerate(numbers, 1)}


def _nodes_of(parts: Sequence[str | int]) -> Iterator[_Node]:
    """Yield what matches all of a text that a template with these parts has become."""
    yield _Place("^")
    number = 0
    for part in parts:
        if isinstance(part, int):
            number += 1
            yield _Capture(number, _Repeat(_Chars(((0, _LAST),)), 0, None, greedy=True))
        else:
            yield from map(_literal, part)
    yield _Place("$")


def _literal(character: str) -> _Chars:
    return _Chars(((ord(character), ord(character)),))


def _texts(node: _Node, given: Mapping[int, str]) -> Iterator[Made]:  # noqa: C901 - one of each
    match node:
        case _Chars(ranges):
            if sum(last - first + 1 for first, last in ranges) <= _FEW:
                for first, last in ranges:
                    yield from (Made(chr(code), sure=True) for code in range(first, last + 1))
        case _Place():
            yield Made("", sure=True)
        case _Capture(number, of):
            yield from [Made(given[number], sure=True)] if number in given else _texts(of, given)
        case _Alternatives(options):
            for option in options:
                yield from islice(_texts(option, given), _MOST_TEXTS)
        case _Repeat(of, least, _, _):
            inner = list(islice(_texts(of, given), _MOST_TEXTS))
            if least == 0:
                yield Made("", sure=bool(inner))
            if inner:
                yield from _joined([inner] * max(1, min(least, LONGEST_TEXT)))
        case _Sequence(parts):
            yield from _joined(list(_choices(parts, given)))


def _choices(parts: Sequence[_Node], given: Mapping[int, str]) -> Iterator[Sequence[Made]]:
    """Yield the texts of each part; characters that are beside one another are one."""
    literal = ""
    for part in parts:
        match part:
            case _Chars(((first, last),)) if first == last:
                literal += chr(first)
            case _:
                yield [Made(literal, sure=True)]
                literal = ""
                yield list(islice(_texts(part, given), _MOST_TEXTS))
    yield [Made(literal, sure=True)]


def _joined(choices: Sequence[Sequence[Made]]) -> Iterator[Made]:
    if all(choices):
        for chosen in islice(product(*choices), _MOST_TEXTS):
            text = "".join(one.text for one in chosen)
            yield Made(text, sure=all(one.sure for one in chosen))


# -- reading -------------------------------------------------------------------------------------


class _RegexParser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._depth = 0
        self._folds = False
        self._dot_is_all = False
        self._places = 0
        self.captures = 0
        self.names: dict[str, int] = {}

    def parse(self) -> _Node:
        node = self._choice()
        if self._at < len(self._source):
            raise self._error("a parenthesis is closed that is not open")
        return node

    def _error(self, message: str) -> ValueError:
        return ValueError(f"{message}, at character {self._at + 1}")

    def _peek(self, text: str) -> bool:
        return self._source.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        taken = self._peek(text)
        self._at += len(text) if taken else 0
        return taken

    def _next(self) -> str:
        if self._at >= len(self._source):
            raise self._error("it ends too early")
        self._at += 1
        return self._source[self._at - 1]

    def _choice(self) -> _Node:
        folds, dot = self._folds, self._dot_is_all
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        self._folds, self._dot_is_all = folds, dot
        return options[0] if len(options) == 1 else _Alternatives(tuple(options))

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._at < len(self._source) and self._source[self._at] not in "|)":
            part = self._atom()
            if part is not None:
                parts.append(self._repeated(part))
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _repeated(self, node: _Node) -> _Node:
        bounds = self._bounds()
        if bounds is None:
            return node
        greedy = not self._take("?")
        if self._bounds() is not None:
            raise self._error("a repetition is repeated")
        self._places += 1
        if self._places > _MOST_PLACES:
            raise self._error(f"it repeats in more than {_MOST_PLACES} places: write it shorter")
        return _Repeat(node, *bounds, greedy)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        count = _COUNT.match(self._source, self._at)
        if count is None:
            return None
        self._at = count.end()
        least = int(count[1])
        most = least if count[2] is None else int(count[3]) if count[3] else None
        if max(least, most or 0) > _MOST_REPETITIONS or (most is not None and most < least):
            raise self._error("a count of repetitions is wrong")
        return least, most

    def _atom(self) -> _Node | None:
        if _COUNT.match(self._source, self._at) is not None:
            raise self._error("nothing stands before a repetition")
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case ".":
                return _Chars(((0, _LAST),) if self._dot_is_all else _others(((10, 10),)))
            case "^" | "$":
                return _Place(character)
            case "*" | "+" | "?":
                raise self._error("nothing stands before a repetition")
            case "\\":
                return self._escape()
        return self._chars(((ord(character), ord(character)),))

    def _group(self) -> _Node | None:
        number = 0
        if self._take("?"):
            name = _NAME.match(self._source, self._at)
            if name is None:
                if not self._flagged():
                    return None
            elif name[1] in self.names:
                raise self._error("two groups have one name")
            else:
                self._at = name.end()
                number = self.captures = self.captures + 1
                self.names[name[1]] = number
        else:
            number = self.captures = self.captures + 1
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"groups stand more than {_DEEPEST} deep in one another")
        inner = self._choice()
        self._depth -= 1
        if not self._take(")"):
            raise self._error("a parenthesis is not closed")
        return _Capture(number, inner) if number else inner

    def _flagged(self) -> bool:
        """Read flags after ``(?``; return whether a group follows, which then has them alone."""
        flags = _FLAGS.match(self._source, self._at)
        if flags is None:
            raise self._error("a group begins that is not known here")
        self._at = flags.end()
        before = self._folds, self._dot_is_all
        self._folds = (self._folds or "i" in flags[1]) and "i" not in (flags[2] or "")
        self._dot_is_all = (self._dot_is_all or "s" in flags[1]) and "s" not in (flags[2] or "")
        if flags[3] == ":" and (self._folds, self._dot_is_all) != before:
            raise self._error("flags of a group are not known here")
        return flags[3] == ":"

    def _escape(self) -> _Node:
        character = self._next()
        match character:
            case "A":
                return _Place("^")
            case "z":
                return _Place("$")
            case "b" | "B":
                return _Place(character)
            case "Q":
                end = self._source.find("\\E", self._at)
                quoted = self._source[self._at : end if end >= 0 else len(self._source)]
                self._at += len(quoted) + 2
                if self._bounds() is not None:
                    raise self._error("a repetition after \\Q and \\E is not known here")
                parts = (self._chars(((ord(one), ord(one)),)) for one in quoted)
                return _Sequence(tuple(parts))
        return self._chars(self._escaped(character))

    def _escaped(self, character: str) -> _Ranges:
        if character in _CLASSES:
            return _CLASSES[character]
        if character.lower() in _CLASSES:
            return _others(_CLASSES[character.lower()])
        code = _ESCAPES.get(character, -1)
        if character == "x":
            digits = self._next() + self._next()
            if not all(one in "0123456789abcdefABCDEF" for one in digits):
                raise self._error("a code of a character is not known here")
            code = int(digits, 16)
        elif code < 0:
            if character.isalnum() or not character.isascii():
                raise self._error(f"\\{character} is not known here")
            code = ord(character)
        return ((code, code),)

    def _class(self) -> _Node:
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        while not ranges or not self._take("]"):
            first = self._of_class()
            if len(first) == 1 and first[0][0] == first[0][1] and self._ranges_on():
                last = self._of_class()
                if len(last) != 1 or last[0][0] != last[0][1] or last[0][0] < first[0][0]:
                    raise self._error("a range of characters is wrong")
                first = ((first[0][0], last[0][0]),)
            ranges += first
        chars = self._chars(tuple(ranges))
        return _Chars(_others(chars.ranges)) if negated else chars

    def _ranges_on(self) -> bool:
        return not self._peek("-]") and self._take("-")

    def _of_class(self) -> _Ranges:
        if self._take("[:"):
            end = self._source.find(":]", self._at)
            name = self._source[self._at : end] if end >= 0 else ""
            if name not in _POSIX:
                raise self._error("a class of characters is not known here")
            self._at = end + 2
            return _POSIX[name]
        character = self._next()
        if character == "\\":
            return self._escaped(self._next())
        return ((ord(character), ord(character)),)

    def _chars(self, ranges: _Ranges) -> _Chars:
        if not self._folds:
            return _Chars(ranges)
        # Names of series are ASCII.
        more = [
            (max(first, low) + by, min(last, high) + by)
            for first, last in ranges
            for low, high, by in ((65, 90, 32), (97, 122, -32))
            if max(first, low) <= min(last, high)
        ]
        return _Chars((*ranges, *more))


def _others(ranges: _Ranges) -> _Ranges:
    others, begin = [], 0
    for first, last in sorted(ranges):
        if first > begin:
            others.append((begin, first - 1))
        begin = max(begin, last + 1)
    if begin <= _LAST:
        others.append((begin, _LAST))
    return tuple(others)


# -- as an expression of Python -------------------------------------------------------------------

_MOST_LOOPS = 2
"""Of repetitions without end: each may go over all of a text for each way of the others."""
_MOST_WAYS = 64
"""In which its alternatives and what may be left out can be taken together."""


@dataclass(slots=True)
class _Backtracking:
    """What bounds the time of Python's `re`, which tries one way after the other."""

    loops: int
    ways: int = 1


def _begins(tree: _Node) -> bool:
    """Return whether matches only begin where the text does."""
    first = tree.parts[0] if isinstance(tree, _Sequence) and tree.parts else tree
    return first == _Place("^")


def _as_python(tree: _Node) -> re.Pattern[str] | None:
    """Return the same as an expression of Python, ten times as fast; None where it may be slow.

    Nor is there one for repetitions of more than a character, which differ where they take nothing.
    """
    cost = _Backtracking(loops=0 if _begins(tree) else 1)
    written = _python(tree, cost)
    slow = cost.loops > _MOST_LOOPS or cost.ways > _MOST_WAYS
    return None if written is None or slow else re.compile(written)


def _python(node: _Node, cost: _Backtracking) -> str | None:  # noqa: PLR0911 - one of each
    match node:
        case _Chars(ranges):
            parts = (f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
            return f"[{''.join(parts)}]" if ranges else None
        case _Place(kind):
            return {"^": r"\A", "$": r"\Z"}.get(kind)
        case _Capture(_, of):
            return _joined_python((of,), cost, "({})")
        case _Repeat(_Chars() as of, 0 | 1 as least, None | 1 as most, greedy):
            cost.loops += most is None
            cost.ways *= 1 if most is None else 2
            sign = {(0, None): "*", (1, None): "+", (0, 1): "?", (1, 1): ""}[least, most]
            return _joined_python((of,), cost, f"{{}}{sign}{'' if greedy or not sign else '?'}")
        case _Repeat():
            return None
        case _Alternatives(options):
            cost.ways *= len(options)
            return _joined_python(options, cost, "(?:{})", "|")
        case _Sequence(parts):
            return _joined_python(parts, cost)


def _joined_python(
    nodes: Sequence[_Node], cost: _Backtracking, form: str = "{}", between: str = ""
) -> str | None:
    several = [_python(node, cost) for node in nodes]
    known = [one for one in several if one is not None]
    return form.format(between.join(known)) if len(known) == len(several) else None


# -- matching ------------------------------------------------------------------------------------

_TAKE, _SPLIT, _JUMP, _SAVE, _CHECK, _DONE = range(6)


class _Program:
    """Instructions that a set of threads carries out, one character after the other (Thompson)."""

    def __init__(self, tree: _Node) -> None:
        self._code: list[tuple[int, int, int]] = []
        self._chars: list[_Ranges] = []
        self._places: list[str] = []
        self._begins = _begins(tree)
        self._save(tree, 0)
        self._add(_DONE)

    def _add(self, kind: int, first: int = 0, second: int = 0) -> int:
        if len(self._code) >= _LARGEST:
            raise ValueError("repeats too much: write it shorter")
        self._code.append((kind, first, second))
        return len(self._code) - 1

    def _save(self, node: _Node, number: int) -> None:
        self._add(_SAVE, 2 * number)
        self._compile(node)
        self._add(_SAVE, 2 * number + 1)

    def _compile(self, node: _Node) -> None:
        match node:
            case _Chars(ranges):
                self._chars.append(ranges)
                self._add(_TAKE, len(self._chars) - 1)
            case _Place(kind):
                self._places.append(kind)
                self._add(_CHECK, len(self._places) - 1)
            case _Capture(number, of):
                self._save(of, number)
            case _Sequence(parts):
                for part in parts:
                    self._compile(part)
            case _Alternatives(options):
                self._choose(options)
            case _Repeat(of, least, most, greedy):
                for _ in range(least):
                    self._compile(of)
                self._repeat(of, None if most is None else most - least, greedy=greedy)

    def _choose(self, options: Sequence[_Node]) -> None:
        ends = []
        for option in options[:-1]:
            split = self._add(_SPLIT)
            self._compile(option)
            ends.append(self._add(_JUMP))
            self._code[split] = (_SPLIT, split + 1, len(self._code))
        self._compile(options[-1])
        for end in ends:
            self._code[end] = (_JUMP, len(self._code), 0)

    def _repeat(self, of: _Node, most: int | None, *, greedy: bool) -> None:
        splits = []
        for _ in range(1 if most is None else most):
            splits.append(self._add(_SPLIT))
            self._compile(of)
        if most is None:
            self._add(_JUMP, splits[0])
        end = len(self._code)
        for split in splits:
            ways = (split + 1, end) if greedy else (end, split + 1)
            self._code[split] = (_SPLIT, *ways)

    def accepts(self, text: str) -> bool:
        """Return whether all of a text is a match."""
        threads = self._follow([(0, ())], text, 0)
        for at, character in enumerate(text):
            threads = self._step(threads, text, at, ord(character))
        return any(self._code[counter][0] == _DONE for counter, _ in threads)

    def run(self, text: str, saved: int) -> Match | None:
        """Return the leftmost match; of those that begin there, the one that Perl would take."""
        found: tuple[int, ...] | None = None
        threads: list[tuple[int, tuple[int, ...]]] = []
        for at in range(len(text) + 1):
            if found is None and (at == 0 or not self._begins):
                # Those that began before have precedence.
                threads = self._follow([*threads, (0, (-1,) * saved)], text, at)
            for index, (counter, spans) in enumerate(threads):
                if self._code[counter][0] == _DONE:
                    found = spans
                    threads = threads[:index]
                    break
            if at == len(text) or (not threads and (found is not None or self._begins)):
                break
            threads = self._step(threads, text, at, ord(text[at]))
        if found is None:
            return None
        pairs = zip(found[::2], found[1::2], strict=True)
        spans_of = ((begin, end) if end >= 0 else None for begin, end in pairs)
        return Match(text, tuple(spans_of))

    def _step(
        self, threads: Sequence[tuple[int, tuple[int, ...]]], text: str, at: int, code: int
    ) -> list[tuple[int, tuple[int, ...]]]:
        moved = []
        for counter, spans in threads:
            kind, first, _ = self._code[counter]
            if kind == _TAKE and any(low <= code <= high for low, high in self._chars[first]):
                moved.append((counter + 1, spans))
        return self._follow(moved, text, at + 1)

    def _follow(
        self, starts: Sequence[tuple[int, tuple[int, ...]]], text: str, at: int
    ) -> list[tuple[int, tuple[int, ...]]]:
        """Return the threads that wait for a character or are done, the preferred ones first."""
        waiting: list[tuple[int, tuple[int, ...]]] = []
        seen: set[int] = set()
        stack = list(reversed(starts))
        while stack:
            counter, spans = stack.pop()
            if counter in seen:
                continue
            seen.add(counter)
            kind, first, second = self._code[counter]
            if kind == _JUMP:
                stack.append((first, spans))
            elif kind == _SPLIT:
                stack += [(second, spans), (first, spans)]
            elif kind == _SAVE:
                if first < len(spans):
                    spans = (*spans[:first], at, *spans[first + 1 :])
                stack.append((counter + 1, spans))
            elif kind == _CHECK:
                if _is_at(self._places[first], text, at):
                    stack.append((counter + 1, spans))
            else:
                waiting.append((counter, spans))
        return waiting


def _is_at(place: str, text: str, at: int) -> bool:
    if place == "^":
        return at == 0
    if place == "$":
        return at == len(text)
    before = at > 0 and _is_word(text[at - 1])
    after = at < len(text) and _is_word(text[at])
    return (before is not after) is (place == "b")


def _is_word(character: str) -> bool:
    return any(low <= ord(character) <= high for low, high in _CLASSES["w"])
