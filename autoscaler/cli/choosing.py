"""The targets that are named on the command line."""

import difflib
from collections.abc import Iterable, Sequence

_MOST_LISTED, _MOST_MEANT = 10, 3


class UnknownTargetError(Exception):
    """Names that no target has; the text says which were probably meant, or which there are."""


def chosen(names: Sequence[str], keys: Sequence[str]) -> frozenset[str]:
    """Return the keys of the named targets, of all where none is named.

    ``keys`` are those that there are, NAMESPACE/KIND/NAME; a name is one of them or NAMESPACE/NAME.
    Raises UnknownTargetError.
    """
    if not names:
        return frozenset(keys)
    by_name: dict[str, set[str]] = {}
    for key in keys:
        by_name.setdefault(key, set()).add(key)
        by_name.setdefault(_short(key), set()).add(key)
    unknown = [name for name in dict.fromkeys(names) if name not in by_name]
    if unknown:
        raise UnknownTargetError("\n".join(_sentences(unknown, keys)))
    return frozenset(key for name in names for key in by_name[name])


def _short(key: str) -> str:
    parts = key.split("/")
    return f"{parts[0]}/{parts[-1]}" if len(parts) > 1 else key


def _sentences(unknown: Iterable[str], keys: Sequence[str]) -> Iterable[str]:
    """Say of each name what was meant, and of those where that is not clear what there is."""
    shorts = list(dict.fromkeys(map(_short, keys)))
    others = []
    for name in unknown:
        meant = _meant(_short(name).lower(), shorts)
        if meant:
            yield f"no target is called {name}; did you mean {' or '.join(meant)}?"
        else:
            others.append(name)
    if others:
        more = len(keys) - _MOST_LISTED
        listed = ", ".join(keys[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
        there = f"there are: {listed}" if keys else "there are none"
        yield f"no target is called {', '.join(others)}; {there}"


def _meant(name: str, shorts: Sequence[str]) -> list[str]:
    """Return those spelt alike, else those of that name in any namespace, else the nearest.

    ``name`` is in lower case, as upper case is what people leave out.
    """
    alike = [short for short in shorts if short.lower() == name]
    same = [short for short in shorts if _last(short) == _last(name)]
    if alike or same:
        return (alike or same)[:_MOST_MEANT]
    by_form: dict[str, str] = {}
    for short in shorts:
        by_form.setdefault(short.lower() if "/" in name else _last(short), short)
    return [by_form[form] for form in difflib.get_close_matches(name, by_form, n=1)]


def _last(short: str) -> str:
    return short.rpartition("/")[2].lower()
