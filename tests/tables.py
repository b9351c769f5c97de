"""Tables of cases as text, for rows that would each take many lines of Python."""


def rows(table: str) -> list[list[str]]:
    """Return the columns, between ` | `, of each row; lines that are indented continue a row."""
    lines = filter(None, table.replace("\n    ", " ").splitlines())
    return [[column.strip() for column in line.split(" | ")] for line in lines]
