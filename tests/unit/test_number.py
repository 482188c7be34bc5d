"""Times as all readers see them: short ones keep the digits that count."""

from __future__ import annotations

import math

import pytest

from workbench.records.number import microseconds


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (1234.567, "1,234.57"),
        (0.5, "0.50"),
        (0.1, "0.10"),
        (0.0999, "0.100"),
        (0.05, "0.050"),
        (0.01, "0.010"),
        (0.00423, "0.0042"),
        (0.000001, "0.0000010"),
        (1e-9, "1.0e-09"),
        (5e-324, "4.9e-324"),
        (-0.00423, "-0.0042"),
        (1e15, "1.000e+15"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_a_time_has_two_decimals_or_as_many_as_two_of_its_digits_need(value: float, text: str) -> None:
    assert microseconds(value) == text


@pytest.mark.parametrize(("value", "text"), [(1462.66, "1,462.7"), (1.0, "1.0"), (0.94, "0.94"), (0.042, "0.042"), (0.0, "0.0")])
def test_fewer_decimals_are_as_many_as_are_asked_for_where_they_say_enough(value: float, text: str) -> None:
    assert microseconds(value, decimals=1) == text


def test_no_time_above_zero_is_shown_as_none() -> None:
    for exponent in range(-12, 4):
        for digit in (1, 2.5, 9.99):
            value = digit * 10.0**exponent
            assert float(microseconds(value).replace(",", "")) == pytest.approx(value, rel=0.06)
