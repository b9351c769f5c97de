"""The `mode` of a target is changed in the text of its file, and no other byte of it."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.config import load
from autoscaler.config.documents import Value, read
from autoscaler.config.editing import NotEditableError, places_of, with_mode
from autoscaler.core.extensions import Mode
from tests.config.documents import PROMETHEUS
from tests.config.test_include import MAIN, row, write

REF = "scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}"


def parsed(text: bytes) -> Value:
    """Return what a text says, without a fault."""
    faults: list[str] = []
    value = read(text.removeprefix(b"\xef\xbb\xbf"), lambda *fault: faults.append(fault[2]))
    assert not faults
    return value


def live(text: str, index: int = 0) -> str:
    """Return a text with a target that is live."""
    return with_mode(text.encode(), index, Mode.LIVE).decode()


ONE = "targets:\n- namespace: shop\n  maxReplicas: 3\n"
CASES = {
    "a line": ("targets:\n- namespace: shop\n  mode: shadow\n  maxReplicas: 3\n", ONE),
    "the last line": (f"{ONE}  mode: shadow\n", ONE),
    "the last line without an end": (f"{ONE}  mode: shadow", ONE),
    "the first key": ("targets:\n- mode: shadow\n  namespace: shop\n  maxReplicas: 3\n", ONE),
    "on a line of its own behind the dash": (
        "targets:\n-\n  mode: shadow\n  namespace: shop\n",
        "targets:\n-\n  namespace: shop\n",
    ),
    "quoted": (f"{ONE}  \"mode\" : 'shadow'   \n", ONE),
    "on two lines": (f"{ONE}  mode:\n    shadow\n", ONE),
    "with a tag": (f"{ONE}  mode: !!str shadow\n", ONE),
    "with a comment": (f"{ONE}  mode: shadow  # until Friday\n", f"{ONE}  # until Friday\n"),
    "below a comment": (f"{ONE}  # until Friday\n  mode: shadow\n", f"{ONE}  # until Friday\n"),
    "the first key before a comment": (
        "targets:\n- mode: shadow # a\n  # b\n  namespace: shop\n",
        "targets:\n- # a\n  # b\n  namespace: shop\n",
    ),
    "the first key before a comment on a line": (
        "targets:\n- mode: shadow\n  # b\n  namespace: shop\n",
        "targets:\n-\n  # b\n  namespace: shop\n",
    ),
    "windows": ("targets:\r\n- a: b\r\n  mode: shadow\r\n  c: d\r\n", None),
    "a byte order mark": ("\ufefftargets:\n- a: ä\n  mode: shadow\n", "\ufefftargets:\n- a: ä\n"),
    "flow": (
        "targets: [{namespace: shop, mode: shadow, maxReplicas: 3}]",
        "targets: [{namespace: shop, maxReplicas: 3}]",
    ),
    "flow, last": ("targets:\n- {a: 1, mode: shadow}\n", "targets:\n- {a: 1}\n"),
    "flow, first": ("targets:\n- {mode: shadow, a: 1}\n", "targets:\n- {a: 1}\n"),
    "JSON": (
        '{"targets": [\n  {\n    "mode": "shadow",\n    "a": 1\n  }\n]}',
        '{"targets": [\n  {\n    "a": 1\n  }\n]}',
    ),
    "JSON, last": (
        '{"targets": [\n  {\n    "a": 1,\n    "mode": "shadow"\n  }\n]}',
        '{"targets": [\n  {\n    "a": 1\n  }\n]}',
    ),
    "flow, behind a comment": (
        "targets:\n- {\n  a: 1, # b\n  mode: shadow\n  }\n",
        "targets:\n- {\n  a: 1, # b\n  }\n",
    ),
    "by an alias": (
        "x-mode: &m shadow\ntargets:\n- a: 1\n  mode: *m\n",
        "x-mode: &m shadow\ntargets:\n- a: 1\n",
    ),
    "by a merge": (
        "x-u: &u {mode: shadow}\ntargets:\n- a: 1\n  <<: *u\n- <<: *u\n",
        "x-u: &u {mode: shadow}\ntargets:\n- a: 1\n  mode: live\n  <<: *u\n- <<: *u\n",
    ),
    "over a merge": (
        "x-usual: &usual {mode: shadow}\ntargets:\n- <<: *usual\n  mode: shadow\n",
        "x-usual: &usual {mode: shadow}\ntargets:\n- <<: *usual\n  mode: live\n",
    ),
    "over a merge of a live one": (
        "x-usual: &usual {mode: live}\ntargets:\n- <<: *usual\n  mode: shadow\n",
        "x-usual: &usual {mode: live}\ntargets:\n- <<: *usual\n",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_key_is_taken_away(case: str) -> None:
    """However it is written; comments stay, and a merge is overruled."""
    before, after = CASES[case]
    wanted = before.replace("  mode: shadow\r\n", "") if after is None else after
    assert live(before) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "targets:\n- &a\n  a: 1\n  mode: shadow\n- <<: *a\n  a: 2\n",
        "targets:\n- a: 1\n  mode: &m shadow\n- a: 2\n  mode: *m\n",
        "x-a: &a {a: 1, mode: shadow}\ntargets: [*a]\n",
    ],
)
def test_what_others_share_is_refused(text: str) -> None:
    """Nobody goes live who was not named."""
    with pytest.raises(NotEditableError, match="stand for others too"):
        live(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ONE, "targets:\n- namespace: shop\n  mode: shadow\n  maxReplicas: 3\n"),
        (
            "targets:\n- a: {b: c}\n  d: |\n    e\n",
            "targets:\n- mode: shadow\n  a: {b: c}\n  d: |\n    e\n",
        ),
        ("targets:\n- a: b # c\n", "targets:\n- a: b # c\n  mode: shadow\n"),
        ("targets:\n- a: b", "targets:\n- a: b\n  mode: shadow"),
        ("targets: [{a: b}]", "targets: [{a: b, mode: shadow}]"),
        ("targets:\r\n- a: b\r\n", "targets:\r\n- a: b\r\n  mode: shadow\r\n"),
        ("targets:\n- a: b\n  mode: live # c\n", "targets:\n- a: b\n  mode: shadow # c\n"),
    ],
)
def test_it_goes_into_shadow_again(before: str, after: str) -> None:
    """Behind its first key, or where the key stands that it had."""
    assert with_mode(before.encode(), 0, Mode.SHADOW).decode() == after


def test_it_is_found_in_an_included_file(tmp_path: Path) -> None:
    """By its key, at its place in the file in which it stands."""
    shadow = row("b").replace("maxReplicas", "mode: shadow\n  maxReplicas")
    main = write(tmp_path, {"targets.d/x.yaml": "targets:\n" + row("a") + shadow}, MAIN)
    place = places_of(load(main))["shop/Deployment/b"]
    assert (place.source.path, place.index) == (tmp_path / "targets.d/x.yaml", 1)
    changed = with_mode(place.source.text, place.index, Mode.LIVE)
    assert changed.decode() == "targets:\n" + row("a") + row("b")


KEYS = st.permutations(
    ["namespace: shop", REF, "maxReplicas: 3", "metrics: []", "behavior: {}", "SHADOW"]
)
SHADOWS = st.sampled_from(
    [
        "mode: shadow",
        "'mode': \"shadow\"",
        "mode :   shadow",
        "mode: 'shadow'",
        "mode: !!str shadow",
    ]
)
COMMENTS = st.sampled_from(["", "  # ü, {a: b", " #", "   "])


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, int]:
    """Draw a file with some targets, and which of them is in shadow."""
    end, count = draw(st.sampled_from(["\n", "\r\n"])), draw(st.integers(1, 3))
    which, lines = draw(st.integers(0, count - 1)), [PROMETHEUS.rstrip(), "targets:"]
    for index in range(count):
        keys = [one for one in draw(KEYS) if one != "SHADOW" or index == which]
        keys = [draw(SHADOWS) if one == "SHADOW" else one for one in keys]
        indent = " " * draw(st.integers(0, 2))
        match draw(st.sampled_from(["block", "flow", "lines"])):
            case "block":
                starts = [f"{indent}- ", *[f"{indent}  "] * (len(keys) - 1)]
                own = [f"{at}{key}{draw(COMMENTS)}" for at, key in zip(starts, keys, strict=True)]
            case "flow":
                own = [f"{indent}- {{{', '.join(keys)}}}{draw(COMMENTS)}"]
            case _:
                own = [f"{indent}- {{", *(f"    {key}, # {key}" for key in keys), "    }"]
        if index:
            own[0] = re.sub(r"^ *", lines[2][: len(lines[2]) - len(lines[2].lstrip())], own[0])
            own[1:] = (
                own[1:]
                if own[0].endswith("{") or len(own) == 1
                else [
                    re.sub(r"^ *", " " * (len(own[0]) - len(own[0].lstrip()) + 2), one)
                    for one in own[1:]
                ]
            )
        lines += own
    bom = draw(st.sampled_from(["", "\ufeff"]))
    return (bom + end.join(lines) + draw(st.sampled_from(["", end]))).encode(), which


@settings(max_examples=200)
@given(files())
def test_only_the_key_is_taken_away(drawn: tuple[bytes, int]) -> None:
    """The text says the same without it, its comments stand, and all is one cut."""
    before, index = drawn
    after = with_mode(before, index, Mode.LIVE)
    expected = parsed(before)
    assert isinstance(expected, dict)
    targets = expected["targets"]
    assert isinstance(targets, list)
    entry = targets[index]
    assert isinstance(entry, dict)
    assert entry.pop("mode") == "shadow"
    assert parsed(after) == expected
    cut = len(before) - len(after)
    assert any(before[:at] + before[at + cut :] == after for at in range(len(after) + 1))
    assert re.findall(rb"#.*", after) == re.findall(rb"#.*", before)
    back = with_mode(after, index, Mode.SHADOW)
    entry["mode"] = "shadow"
    assert parsed(back) == expected
