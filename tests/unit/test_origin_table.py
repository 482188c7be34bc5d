"""The table of origins hands out names, and knows which source operators a name refers to."""

from __future__ import annotations

import pytest

from workbench.engines.relax.origins import OriginTable
from workbench.records.origin import Origin


def test_a_table_hands_out_names_that_survive_the_digits_of_the_block_builder() -> None:
    table = OriginTable()
    first, second = table.add("Conv", "a"), table.add("Relu", "b", "line 3")
    assert table.lookup(f"{first}17") == (Origin("Conv", "a"),)
    assert table.lookup(second) == (Origin("Relu", "b", "line 3"),)
    assert table.lookup("o2_") == table.lookup("lv3") == table.lookup("o_1") == ()


def test_a_joined_name_has_each_origin_once() -> None:
    table = OriginTable()
    first, second = table.add("Conv", "a"), table.add("BatchNormalization", "b")
    joined = table.join(first, second)
    assert table.lookup(table.join(joined, second, "unknown")) == (Origin("Conv", "a"), Origin("BatchNormalization", "b"))
    assert table.origins == [Origin("Conv", "a"), Origin("BatchNormalization", "b")]


def test_an_alias_has_the_origin_of_its_hint() -> None:
    table = OriginTable()
    table.alias("lv3", table.add("Split", "s"))
    assert table.lookup("lv3") == (Origin("Split", "s"),)
    with pytest.raises(ValueError, match="no name hint"):
        table.alias("lv4", "lv9")
