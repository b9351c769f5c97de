"""What PromQL is made of: strings, blanks and comments, words, numbers, signs.

https://prometheus.io/docs/prometheus/latest/querying/basics/
"""

import re

# A string that is never closed goes on to the end, so that no part of a text is read twice.
TOKEN = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\])*+(?:"|\\?\Z)|'(?:\\.|[^'\\])*+(?:'|\\?\Z)|`[^`]*+(?:`|\Z))"""
    r"|(?P<blank>\#[^\n]*+|\s++)"
    r"|(?P<word>[A-Za-z_:][A-Za-z0-9_:]*+)"
    r"|(?P<number>[0-9][A-Za-z0-9_.]*+)"
    r"|(?P<sign>=~|!~|[=!<>]=|.)",
    re.DOTALL,
)
