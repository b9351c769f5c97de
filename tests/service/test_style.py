"""The patterns that `scripts/check_style.py` keeps out of documents and examples."""

import runpy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "check_style.py"))


def places_and_patterns(root: Path) -> list[str]:
    """Return the place and the pattern of each finding, which must have a replacement."""
    findings = [line.partition(": write instead: ") for line in SCRIPT["findings"](root)]
    assert all(replacement for _, _, replacement in findings)
    return [place for place, _, _ in findings]


def test_a_planted_sentence_fails_with_its_place_and_a_replacement(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "config").mkdir()
    page = "It is `is told`.\n\n```\nthat of\n```\n\nIt is told.\n"
    (tmp_path / "docs" / "page.md").write_text(page)
    (tmp_path / "config" / "a.yaml").write_text("beside: 1  # Beside a server.\n")
    assert places_and_patterns(tmp_path) == [
        "config/a.yaml:1: 'Beside'",
        "docs/page.md:7: 'is told'",
    ]


def test_planted_messages_and_names_of_code_fail(tmp_path: Path) -> None:
    (tmp_path / "autoscaler").mkdir()
    code = '"""Those of."""\n\n\ndef told(one: str) -> str:\n'
    code += '    # It goes on.\n    return f"{one} is no time"\n'
    (tmp_path / "autoscaler" / "a.py").write_text(code)
    assert places_and_patterns(tmp_path) == [
        "autoscaler/a.py:1: 'Those of'",
        "autoscaler/a.py:5: 'goes on'",
        "autoscaler/a.py:6: 'is no'",
        "autoscaler/a.py:4: 'one'",
        "autoscaler/a.py:4: 'told'",
    ]


def test_the_documents_and_examples_have_no_pattern() -> None:
    assert SCRIPT["findings"](ROOT) == []
