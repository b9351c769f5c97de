"""What came of policy tests as JUnit XML, which CI servers show."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from autoscaler.core.text import printable

if TYPE_CHECKING:
    from autoscaler.lab.testing import FileResult

_LONGEST = 20_000


def as_junit(results: "Sequence[FileResult]") -> str:
    """Write the results: a suite for each file, whose error is that of the file."""
    root = Element("testsuites", name="autoscaler test")
    for result in results:
        suite = SubElement(root, "testsuite", name=_text(str(result.file)))
        for one in result.results:
            case = SubElement(
                suite,
                "testcase",
                name=_text(one.name),
                classname=_text(str(result.file)),
                time=f"{one.seconds:.3f}",
            )
            if one.summary:
                failure = SubElement(
                    case, "failure", message=_text(one.summary), type="Expectation"
                )
                failure.text = _lines(one.text)
        if result.error:
            case = SubElement(
                suite, "testcase", name="is valid", classname=_text(str(result.file)), time="0.000"
            )
            first = result.error.partition("\n")[0]
            error = SubElement(case, "error", message=_text(first), type="ConfigError")
            error.text = _lines(result.error)
        _count(suite, sum(one.seconds for one in result.results))
    _count(root, sum(one.seconds for result in results for one in result.results))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _count(element: Element, seconds: float) -> None:
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        element.set(name, str(sum(1 for _ in element.iter(tag))))
    element.set("time", f"{seconds:.3f}")


def _text(text: str) -> str:
    """Return one line of which XML takes each character."""
    return printable(text, _LONGEST)


def _lines(text: str) -> str:
    """Return the same of several lines, which stay aligned."""
    return "".join(one if one.isprintable() or one == "\n" else " " for one in text)
