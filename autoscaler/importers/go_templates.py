"""Go's text/template, as far as rules of prometheus-adapter use it; the delimiters are << and >>.

Fields, variables, pipelines, `if`, `with`, `range`, and the functions that make or compare texts.
https://pkg.go.dev/text/template
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

LONGEST = 64 << 10
"""Characters of a template, and of what it becomes."""
_MOST_STEPS = 10_000
"""Actions that are carried out, so that loops in one another end."""
_DEEPEST = 40

Data: TypeAlias = "str | int | float | bool | Sequence[Data] | Mapping[str, Data] | None"
"""What a template is given; the fields of a struct are the keys of a mapping."""

_TRIMMED = " \t\r\n"
_TOKEN = re.compile(
    r"""(?P<blank>\s++)"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*+"|`[^`]*+`)"""
    r"""|(?P<field>(?:\$[A-Za-z0-9_]*+)?(?:\.[A-Za-z_][A-Za-z0-9_]*+)+|\$[A-Za-z0-9_]*+|\.)"""
    r"""|(?P<number>[-+]?[0-9][0-9.]*+)"""
    r"""|(?P<word>[A-Za-z_][A-Za-z0-9_]*+)"""
    r"""|(?P<sign>:=|[=|(),])"""
)
_VERB = re.compile(r"%(%|[-+ #0]?[0-9]{0,3}(?:\.[0-9]{1,3})?[svdqtfg])")


class TemplateError(ValueError):
    """The template is wrong, or uses what is not known here; the message says which."""


class _TemplateToken(NamedTuple):
    kind: str
    text: str


class _Action(NamedTuple):
    tokens: tuple[_TemplateToken, ...]


_Pipeline: TypeAlias = "tuple[_TemplateToken | tuple[_Pipeline, ...], ...]"


@dataclass(slots=True)
class _TemplateBlock:
    """An `if`, `with` or `range`: what it asks, and its two bodies."""

    word: str
    asks: tuple[_TemplateToken, ...]
    body: "list[_Part]" = field(default_factory=list)
    otherwise: "list[_Part]" = field(default_factory=list)


_Part: TypeAlias = str | _Action | _TemplateBlock


class Template:
    """A parsed template.  Raises TemplateError for what is none, or is not known here."""

    def __init__(self, source: str) -> None:
        if len(source) > LONGEST:
            raise TemplateError(f"has {len(source):,} characters, and may have {LONGEST:,}")
        self._parts = _parsed(source)

    def fill(self, data: Data) -> str:
        """Return what it becomes.  Raises TemplateError."""
        run = _Run(data)
        run.carry_out(self._parts, data, {"$": data})
        return "".join(run.written)


def _parsed(source: str) -> list[_Part]:
    builder = _TemplateBuilder()
    for part in _pieces(source):
        builder.add(part)
    return builder.built()


class _TemplateBuilder:
    def __init__(self) -> None:
        self._bodies: list[list[_Part]] = [[]]
        self._open: list[tuple[_TemplateBlock, int]] = []
        """The blocks that are open, and how many bodies the end of each ends."""

    def built(self) -> list[_Part]:
        if self._open:
            raise TemplateError(f"an end is missing for {self._open[-1][0].word}")
        return self._bodies[0]

    def add(self, part: str | tuple[_TemplateToken, ...]) -> None:
        word = "" if isinstance(part, str) or part[0].kind != "word" else part[0].text
        if isinstance(part, str):
            self._bodies[-1].append(part)
        elif word in {"if", "with", "range"}:
            self._begin(_TemplateBlock(word, part[1:]), 1)
        elif word == "else":
            self._else(part[1:])
        elif word == "end":
            _, bodies = self._last(word)
            del self._bodies[len(self._bodies) - bodies :]
        elif word in {"define", "template", "block", "break", "continue"}:
            raise TemplateError(f"{word} is not known here")
        else:
            self._bodies[-1].append(_Action(part))

    def _last(self, word: str) -> tuple[_TemplateBlock, int]:
        if not self._open:
            raise TemplateError(f"{word} stands where no if, with or range is open")
        return self._open.pop()

    def _begin(self, block: _TemplateBlock, bodies: int) -> None:
        if not block.asks:
            raise TemplateError(f"nothing stands after {block.word}")
        if len(self._bodies) > _DEEPEST:
            raise TemplateError(f"blocks stand more than {_DEEPEST} deep in one another")
        self._bodies[-1].append(block)
        self._bodies.append(block.body)
        self._open.append((block, bodies))

    def _else(self, then: tuple[_TemplateToken, ...]) -> None:
        block, bodies = self._last("else")
        self._bodies[-1] = block.otherwise
        if not then:
            self._open.append((block, bodies))
        elif then[0].text in {"if", "with"}:
            # A block within, which ends with the same end.
            self._begin(_TemplateBlock(then[0].text, then[1:]), bodies + 1)
        else:
            raise TemplateError("after else stands what is no if")


def _pieces(source: str) -> Iterator[str | tuple[_TemplateToken, ...]]:
    """Yield the texts and the actions of a template, with blanks trimmed where an action says."""
    at, trims = 0, False
    while at <= len(source):
        begin = source.find("<<", at)
        text = source[at : begin if begin >= 0 else len(source)]
        text = text.lstrip(_TRIMMED) if trims else text
        if begin < 0:
            yield from [text] if text else []
            return
        at = begin + 2
        if source.startswith("-", at) and source[at + 1 : at + 2] in set(_TRIMMED):
            text = text.rstrip(_TRIMMED)
            at += 1
        yield from [text] if text else []
        tokens, at, trims = _action(source, at)
        if tokens is not None:
            yield tokens


def _action(source: str, at: int) -> tuple[tuple[_TemplateToken, ...] | None, int, bool]:
    """Return the tokens of an action, where it ends, and whether it trims what follows.

    A comment has none.
    """
    comment = at
    while comment < len(source) and source[comment] in _TRIMMED:
        comment += 1
    is_comment = source.startswith("/*", comment)
    if is_comment:
        end = source.find("*/", comment)
        at = end + 2 if end >= 0 else len(source)
    tokens: list[_TemplateToken] = []
    while at < len(source):
        if source.startswith(">>", at):
            return _checked(tokens, is_comment=is_comment), at + 2, False
        if source[at - 1] in _TRIMMED and source.startswith("->>", at):
            return _checked(tokens, is_comment=is_comment), at + 3, True
        found = _TOKEN.match(source, at)
        if found is None:
            raise TemplateError(f"{source[at : at + 20]!r} within << >> is not known here")
        at = found.end()
        if found.lastgroup != "blank":
            tokens.append(_TemplateToken(found.lastgroup or "", found[0]))
    raise TemplateError("a << is not closed by >>")


def _checked(
    tokens: Sequence[_TemplateToken], *, is_comment: bool
) -> tuple[_TemplateToken, ...] | None:
    if bool(tokens) is is_comment:
        raise TemplateError("an action is empty" if not tokens else "a comment is not alone")
    return None if is_comment else tuple(tokens)


_Scope: TypeAlias = dict[str, Data]


@dataclass
class _Run:
    """One filling in: what was written, and what is left of its bounds."""

    data: Data
    written: list[str] = field(default_factory=list)
    steps: int = _MOST_STEPS
    room: int = LONGEST

    def carry_out(self, parts: Sequence[_Part], dot: Data, scope: _Scope) -> None:
        for part in parts:
            self.steps -= 1
            if self.steps < 0:
                raise TemplateError("does too much: write it shorter")
            if isinstance(part, str):
                self._write(part)
            elif isinstance(part, _Action):
                shown = self._shown(part.tokens, dot, scope)
                if shown is not None:
                    self._write(shown)
            else:
                self._enter(part, dot, dict(scope))

    def _write(self, text: str) -> None:
        self.room -= len(text)
        if self.room < 0:
            raise TemplateError(f"becomes more than {LONGEST:,} characters")
        self.written.append(text)

    def _shown(self, tokens: Sequence[_TemplateToken], dot: Data, scope: _Scope) -> str | None:
        names, asks = _declared(tokens)
        value = self.value(asks, dot, scope)
        if value is self.data:
            raise TemplateError(". stands for all fields: name one")
        if not names:
            return text_of(value)
        scope[names[0]] = value
        return None

    def _enter(self, block: _TemplateBlock, dot: Data, scope: _Scope) -> None:
        names, asks = _declared(block.asks)
        value = self.value(asks, dot, scope)
        if block.word == "range":
            self._range(block, names, value, dot, scope)
            return
        if names:
            scope[names[0]] = value
        body = block.body if _is_true(value) else block.otherwise
        inner = value if block.word == "with" and _is_true(value) else dot
        self.carry_out(body, inner, scope)

    def _range(
        self, block: _TemplateBlock, names: Sequence[str], value: Data, dot: Data, scope: _Scope
    ) -> None:
        items: list[tuple[Data, Data]]
        if isinstance(value, Mapping):
            items = [(key, value[key]) for key in sorted(value)]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            items = list(enumerate(value))
        elif value is None:
            items = []
        else:
            raise TemplateError(f"range cannot go over {text_of(value)!r}")
        for key, item in items:
            inner = dict(scope)
            inner |= dict(zip(names, (key, item) if len(names) == 2 else (item,), strict=False))
            self.carry_out(block.body, item, inner)
        if not items:
            self.carry_out(block.otherwise, dot, scope)

    def value(
        self, tokens: Sequence[_TemplateToken], dot: Data, scope: _Scope, depth: int = 0
    ) -> Data:
        """Return the value of a pipeline: each command gets the value of the one before, last."""
        if depth > _DEEPEST:
            raise TemplateError(f"parentheses stand more than {_DEEPEST} deep in one another")
        result: list[Data] = []
        for command in _commands(tokens):
            result = [self._command(command, result, dot, scope, depth)]
        if not result:
            raise TemplateError("an action is empty")
        return result[0]

    def _command(
        self,
        tokens: Sequence[_TemplateToken],
        piped: list[Data],
        dot: Data,
        scope: _Scope,
        depth: int,
    ) -> Data:
        self.steps -= 1
        if not tokens or self.steps < 0:
            raise TemplateError("does too much" if tokens else "a command is empty")
        first = tokens[0]
        if first.kind == "word" and first.text not in _CONSTANTS:
            function = _FUNCTIONS.get(first.text)
            if function is None:
                raise TemplateError(f"the function {first.text} is not known here")
            arguments = [*self._operands(tokens[1:], dot, scope, depth), *piped]
            try:
                return function(*arguments)
            except (TypeError, IndexError, AttributeError) as error:
                raise TemplateError(f"{first.text} has wrong arguments") from error
        if first.text == "nil":
            raise TemplateError("nil is no command")
        operands = self._operands(tokens, dot, scope, depth)
        if len(operands) != 1 or piped:
            raise TemplateError(f"{first.text} takes no arguments")
        return operands[0]

    def _operands(
        self, tokens: Sequence[_TemplateToken], dot: Data, scope: _Scope, depth: int
    ) -> list[Data]:
        found: list[Data] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.text == "(":
                end = _closing(tokens, at)
                found.append(self.value(tokens[at + 1 : end], dot, scope, depth + 1))
                at = end
            else:
                found.append(_operand(token, dot, scope))
            at += 1
        return found


def _declared(tokens: Sequence[_TemplateToken]) -> tuple[list[str], Sequence[_TemplateToken]]:
    """Split the variables that are set from what they are set to."""
    for sign in (1, 3):
        if len(tokens) > sign and tokens[sign].text in {":=", "="}:
            names = [token.text for token in tokens[:sign] if token.text != ","]
            if all(name.startswith("$") and "." not in name for name in names):
                return names, tokens[sign + 1 :]
    return [], tokens


def _commands(tokens: Sequence[_TemplateToken]) -> Iterator[Sequence[_TemplateToken]]:
    depth = begin = 0
    for at, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "sign" else 0
        if token.text == "|" and token.kind == "sign" and depth == 0:
            yield tokens[begin:at]
            begin = at + 1
    yield tokens[begin:]


def _closing(tokens: Sequence[_TemplateToken], at: int) -> int:
    depth = 0
    for index in range(at, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[index].text, 0)
        if depth == 0:
            return index
    raise TemplateError("a parenthesis is not closed")


_CONSTANTS: Mapping[str, Data] = {"true": True, "false": False, "nil": None}


def _operand(token: _TemplateToken, dot: Data, scope: _Scope) -> Data:
    match token.kind:
        case "text":
            return token.text[1:-1] if token.text[0] == "`" else _unquoted(token.text)
        case "number":
            return float(token.text) if "." in token.text else int(token.text[:18])
        case "word" if token.text in _CONSTANTS:
            return _CONSTANTS[token.text]
        case "field":
            first, *names = token.text.split(".")
            if first and first not in scope:
                raise TemplateError(f"the variable {first} is not set")
            value = scope[first] if first else dot
            for name in filter(None, names):
                value = _field(value, name)
            return value
    raise TemplateError(f"{token.text} is not known here")


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise TemplateError(f"{text} is not known here") from error


def _field(value: Data, name: str) -> Data:
    if not isinstance(value, Mapping):
        raise TemplateError(f"there is no field .{name}")
    try:
        return value[name]
    except KeyError as error:
        raise TemplateError(f"there is no field .{name}") from error


def text_of(value: Data) -> str:
    """Write a value as Go does by ``%v``."""
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{text_of(value[key])}' for key in sorted(value))}]"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{' '.join(map(text_of, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _is_true(value: Data) -> bool:
    return bool(value)


def _index(value: Data, *keys: Data) -> Data:
    for key in keys:
        if isinstance(value, Mapping):
            # A key that a map lacks has the empty text.
            value = value.get(str(key), "")
        elif isinstance(value, Sequence) and isinstance(key, int) and key >= 0:
            value = value[key]
        else:
            raise TemplateError("index has wrong arguments")
    return value


def _printf(form: Data, *values: Data) -> str:
    if not isinstance(form, str):
        raise TemplateError("printf begins with no text")
    left = list(values)
    text = _VERB.sub(lambda found: _formatted(found[1], left), form)
    if left:
        raise TemplateError("printf has more values than verbs")
    return text


def _formatted(verb: str, left: list[Data]) -> str:
    if verb == "%":
        return "%"
    if not left:
        raise TemplateError("printf has more verbs than values")
    value = left.pop(0)
    if verb == "q":
        return json.dumps(text_of(value), ensure_ascii=False)
    if verb in {"s", "v", "t"}:
        return text_of(value)
    kinds = {"d": int, "f": float, "g": float}
    if isinstance(value, kinds.get(verb[-1], ())) and not isinstance(value, bool):
        return format(value, verb.replace("-", "<"))
    raise TemplateError(f"%{verb} of printf is not known here")


def _print(*values: Data) -> str:
    # Blanks stand between two of which none is a text.
    written = ""
    for at, value in enumerate(values):
        apart = at > 0 and not isinstance(value, str) and not isinstance(values[at - 1], str)
        written += f"{' ' if apart else ''}{text_of(value)}"
    return written


def _equal(first: Data, *others: Data) -> bool:
    if not others:
        raise TemplateError("eq has wrong arguments")
    return any(type(first) is type(other) and first == other for other in others)


def _first_that(wanted: bool, values: Sequence[Data]) -> Data:  # noqa: FBT001 - a table's word
    return next((value for value in values if _is_true(value) is wanted), values[-1])


def _length(value: Data) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, Sequence | Mapping):
        return len(value)
    raise TemplateError("len has wrong arguments")


def _slice(value: Data, *bounds: Data) -> Data:
    numbers = [bound for bound in bounds if isinstance(bound, int)]
    if not isinstance(value, Sequence) or len(numbers) < len(bounds) or len(bounds) > 2:
        raise TemplateError("slice has wrong arguments")
    return value[slice(*numbers)] if len(numbers) == 2 else value[sum(numbers) :]


_FUNCTIONS: Mapping[str, Callable[..., Data]] = {
    "index": _index,
    "printf": _printf,
    "print": _print,
    "println": lambda *values: f"{' '.join(map(text_of, values))}\n",
    "eq": _equal,
    "ne": lambda first, other: not _equal(first, other),
    "not": lambda value: not _is_true(value),
    "and": lambda *values: _first_that(False, values),  # noqa: FBT003
    "or": lambda *values: _first_that(True, values),  # noqa: FBT003
    "len": _length,
    "slice": _slice,
    "lt": lambda first, other: first < other,
    "le": lambda first, other: first <= other,
    "gt": lambda first, other: first > other,
    "ge": lambda first, other: first >= other,
}
