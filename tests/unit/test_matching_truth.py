"""Debug tables of TVM 0.16 that were made with the exact links beside them (`tests/relay/old_tvm_truth.py`): what matching says of them is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.matching_truth import verdicts
from workbench.importing.program import read_program
from workbench.legacy.debug.table import parse_debug_tables
from workbench.matching.rows import NodeRow, match_rows

SAMPLES = Path(__file__).parents[1] / "samples" / "old_tvm"
NETWORKS = sorted(folder.name for folder in SAMPLES.iterdir())


@pytest.mark.parametrize("network", NETWORKS)
def test_every_row_is_matched_to_its_own_operators(network: str) -> None:
    found = verdicts(SAMPLES / network)
    assert [(item.node, item.wrong) for item in found if item.wrong] == []


def test_what_matching_is_not_sure_of_is_said_with_the_alternatives() -> None:
    unsure = [item for network in NETWORKS for item in verdicts(SAMPLES / network) if item.match.confidence < 0.9]
    assert unsure
    assert all(item.match.alternatives for item in unsure if item.match.confidence == 0.75)


@pytest.mark.parametrize(("table", "program"), [(one, other) for one in NETWORKS for other in NETWORKS if one != other])
def test_of_a_table_of_another_program_nothing_is_sure(table: str, program: str) -> None:
    functions = read_program((SAMPLES / program / "model.relay.txt").read_text(encoding="utf-8")).functions
    (rows,) = parse_debug_tables((SAMPLES / table / "debug_table.txt").read_text(encoding="utf-8"))
    matches = match_rows([NodeRow(row.node_name, row.ops, row.shape, row.time_us) for row in rows.nodes], functions)
    tied = [match for match in matches.values() if match.structure is not None]
    assert all(match.confidence <= 0.5 and "it may be of another one" in match.evidence[-1] for match in tied)


def test_a_blocked_name_tells_a_depthwise_convolution_from_one_of_all_channels() -> None:
    program = read_program((SAMPLES / "branches" / "model.relay.txt").read_text(encoding="utf-8"))
    names = ("fused_nn_contrib_depthwise_conv2d_NCHWc_add_nn_relu", "fused_nn_contrib_conv2d_NCHWc_add_nn_relu")
    matches = match_rows([NodeRow(name, name, (1, 2, 28, 28, 8), 10.0) for name in names], program.functions)
    found = [matches[name].structure for name in names]
    assert None not in found
    assert [program.functions[place].depthwise for place in found if place is not None] == [True, False]
