"""Unix times as text, without a clock's or a calendar's module."""

_DAY = 86400
_DAYS_BEFORE_1970 = 719_468
"""Since 1 March of the year 0, where the eras of the Gregorian calendar begin."""
_ERA_DAYS, _ERA_YEARS = 146_097, 400


def instant(time: float) -> str:
    """Write a Unix time as RFC 3339 in UTC, to the second; what is before 1970 as 1970.

    The calendar is http://howardhinnant.github.io/date_algorithms.html#civil_from_days.
    """
    days, second = divmod(int(max(0.0, time)), _DAY)
    era, day = divmod(days + _DAYS_BEFORE_1970, _ERA_DAYS)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153  # from March on
    day += 1 - (153 * month + 2) // 5
    january = month >= 10
    year += era * _ERA_YEARS + january
    month += -9 if january else 3
    hour, minute = second // 3600, second // 60 % 60
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second % 60:02d}Z"
