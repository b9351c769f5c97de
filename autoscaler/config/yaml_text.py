"""Plain values -> YAML as a user would write it."""

import yaml

_LONGEST = 20_000
_MOST_VALUES = 2_000
_WIDTH = 10_000


class _Dumper(yaml.SafeDumper):
    """Writes lists within mappings without an indent, as Kubernetes' manifests mostly have them."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature of PyYAML
        """Repeat what is in two places, instead of naming it."""
        return True


def yaml_text(value: object) -> str:
    """Write a value as YAML in printable ASCII; nothing where it would be very long."""
    if _room_after(value, _MOST_VALUES) < 0:
        return ""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_WIDTH).rstrip("\n")
    return text if len(text) <= _LONGEST else ""


def _room_after(value: object, room: int) -> int:
    """Count down by the values of a value, as aliases repeat them; below 0 it is enough."""
    room -= 1
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        if room < 0:
            break
        room = _room_after(one, room)
    return room
