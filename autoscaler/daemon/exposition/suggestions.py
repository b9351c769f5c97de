"""Which targets may have been meant by the name of one that there is not."""

from difflib import get_close_matches

from autoscaler.daemon.exposition.views import Views

MOST_SUGGESTED = 5
_MOST_COMPARED = 500
_LONGEST_COMPARED = 300


def similar(views: Views, key: str) -> tuple[str, ...]:
    """Return the keys of targets that may have been meant, the likeliest first."""
    keys = [one.target.key for one in views.states.known()]
    name, namespace = _name(key), key.partition("/")[0] + "/"
    found = [one for one in keys if _name(one) == name]
    if not found:
        near = [one for one in keys if one.startswith(namespace)] or keys
        shown = key[:_LONGEST_COMPARED]
        found = get_close_matches(shown, near[:_MOST_COMPARED], MOST_SUGGESTED, 0.5)
    return tuple(found[:MOST_SUGGESTED])


def _name(key: str) -> str:
    return key.rpartition("/")[2].lower()
