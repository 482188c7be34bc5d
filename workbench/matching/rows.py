"""Matches rows of a debug table to the fused functions of a program, each match with its evidence and a confidence."""

from __future__ import annotations

import difflib
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from workbench.matching.layouts import likeness
from workbench.matching.names import MOVES, FunctionName, call_number, parse_function
from workbench.matching.shapes import Shape
from workbench.matching.structure import Structure

_OPERATORS, _SHAPE, _CALLS, _ORDER, _COST = 10.0, 6.0, 1.5, 0.6, 0.2
"""What a difference counts: of operators, of shapes, of the number of calls, of the order, of time to work."""

_AGAIN = 1.2
"""What counts that the program's function is another compiled function's too: more than order and time, less than the number of calls."""

_ALONE = 9.0
"""What counts that a function is none of the program's, as changes of layout are. Above it lies what fits in two ways badly: half of the operators
and, say, a shape of as many elements and another number of calls."""

_NEVER = 1e6

_SAME = 0.5
"""Candidates whose costs differ by less look the same."""

_SAME_HASH = 1000.0
"""What counts for a function of the same hash: more than all differences together."""

NOP = "__nop"
"""What the graph calls a reshape that does nothing: the node's name tells more."""
_LEAST_LIKENESS = 0.5
"""Functions whose operators are less alike are not matched."""

_OTHER_KIND = 0.7
"""How alike a depthwise convolution and one of all channels are."""

_COMPILERS_OWN = ("a change of layout that the compiler put in",)
_OTHER_PROGRAM = "most rows of the table fit nothing in the program: it may be of another one"
_LEAST_FITTING = 0.5
"""Of the rows of a program's own table more than three quarters fit, of another network's less than a fifth."""

_CERTAIN, _SURE, _ORDERED, _ORDER_ALONE, _COST_ALONE, _ALIKE = 1.0, 0.99, 0.9, 0.75, 0.6, 0.5


@dataclass(frozen=True)
class NodeRow:
    """What a row tells.

    Attributes:
        node: Its name.
        function: The compiled function that it calls.
        shape: Of its output, in the layout of the rewritten program; None if it is not known.
        time_us: Its time.
        order: Its place in execution order; None if only the table is there, which is sorted by time.
        structural_hash: Hash of the function; empty where nothing says it.
        count: How many calls it stands for: several in a profiler's report.
    """

    node: str
    function: str
    shape: Shape | None
    time_us: float
    order: int | None = None
    structural_hash: str = ""
    count: int = 1


@dataclass(frozen=True)
class Match:
    """What a row is.

    Attributes:
        structure: Place of the fused function among the program's; None if it is no operator of the program.
        call: Which call of it.
        confidence: From 0 to 1.
        evidence: Why, in words.
        alternatives: Identifiers of other functions that the row could be.
    """

    structure: int | None
    call: int
    confidence: float
    evidence: tuple[str, ...]
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Function:
    """A compiled function with its rows, in the order of their calls."""

    symbol: str
    name: FunctionName
    rows: tuple[NodeRow, ...]

    @property
    def shape(self) -> Shape | None:
        return self.rows[0].shape

    @property
    def time_us(self) -> float:
        return statistics.median(row.time_us / row.count for row in self.rows)

    @property
    def calls(self) -> int:
        return sum(row.count for row in self.rows)

    def has_hash_of(self, structure: Structure) -> bool:
        return self.rows[0].structural_hash in structure.hashes


def match_rows(rows: Sequence[NodeRow], program: Sequence[Structure]) -> dict[str, Match]:
    """Find for each row, by its node's name, the fused function and the call that it is.

    Functions are matched as wholes, since all calls of one are one task: by operators, output shape and number of calls, and where these leave
    several, by the order in which functions of one name are numbered (that of their first calls), and by time against work.
    """
    functions = _functions([replace(row, function=row.node) if row.function == NOP else row for row in rows])
    if not functions:
        return {}
    if not program:
        return {row.node: Match(None, 0, 0.0, ("there is no program to match it with",)) for row in rows}
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - it takes half a second to load, and no other command needs it

    alike = np.array([[_likeness(function.name, structure) for structure in program] for function in functions])
    shapes = np.array([[likeness(function.shape, structure.shape) for structure in program] for function in functions])
    calls = np.array([[function.calls != len(structure.calls) for structure in program] for function in functions], dtype=float)
    same = np.array([[function.has_hash_of(structure) for structure in program] for function in functions], dtype=float)
    costs = _OPERATORS * (1 - alike) + _SHAPE * (1 - shapes) + _CALLS * calls - _SAME_HASH * same
    order, work = _order_costs(functions, program, costs), _work_costs(functions, program, costs)
    columns, again = _columns(program)
    fits = np.where((same > 0.0) | ((alike >= _LEAST_LIKENESS) & (shapes > 0.0)), costs + _ORDER * order + _COST * work, _NEVER)
    gains = np.minimum(fits[:, columns] + _AGAIN * again - _ALONE, 0.0)  # 0 where a function is better left alone
    found, taken = linear_sum_assignment(gains)
    chosen = {place: columns[column] for place, column in zip(found.tolist(), taken.tolist(), strict=True) if gains[place, column] < 0}
    tables = (alike, shapes, costs, order, work)
    judged = [_judged(place, chosen.get(place), function, program, tables=tables) for place, function in enumerate(functions)]
    return _doubted(_called(functions, judged, program))


def _columns(program: Sequence[Structure]) -> tuple[list[int], np.ndarray]:
    """The program's functions, each as often as it has calls, since layouts may have made several compiled ones of it; and which are repeats."""
    columns = [place for place, structure in enumerate(program) for _ in structure.calls]
    again = np.array([float(number > 0) for structure in program for number in range(len(structure.calls))])
    return columns, again


def _called(functions: Sequence[_Function], judged: Sequence[Match], program: Sequence[Structure]) -> dict[str, Match]:
    """The match of each row: that of its function, with the call that it is."""
    sharing: dict[int, list[int]] = {}
    for place, match in enumerate(judged):
        sharing.setdefault(-1 - place if match.structure is None else match.structure, []).append(place)
    matches: dict[str, Match] = {}
    for structure, places in sharing.items():
        rows = [(row, judged[place]) for place in places for row in functions[place].rows]
        known = all(row.order is not None for row, _ in rows)
        if known:
            rows.sort(key=lambda item: item[0].order or 0)
        calls, there = sum(functions[place].calls for place in places), len(program[structure].calls) if structure >= 0 else 0
        whole, call = len(places) == 1 or calls == there, 0
        for row, match in rows:
            shared = _shared(match, len(places), known=known, whole=whole)
            matches[row.node] = shared if structure < 0 else replace(_crowded(shared, calls, there), call=min(call, there - 1))
            call += row.count
    return matches


def _shared(match: Match, functions: int, *, known: bool, whole: bool) -> Match:
    """The match of a row whose function is one of several that the program's became: which call it is, only the order of execution tells."""
    if functions == 1 or match.confidence == _CERTAIN:
        return match
    most = (_ORDERED if known else _ORDER_ALONE) if whole else _ALIKE
    told = f"one of {functions} compiled functions that it became" + (", which have as many calls together" if whole else "")
    return replace(match, confidence=min(match.confidence, most), evidence=(*match.evidence, told))


def _crowded(match: Match, calls: int, there: int) -> Match:
    """The match of a row of a function that the table calls more often than the program does: some of its rows are something else."""
    if calls <= there or match.confidence == _CERTAIN:
        return match
    return replace(match, confidence=min(match.confidence, _ALIKE), evidence=(*match.evidence, f"{calls} calls, where the program has {there}"))


def _doubted(matches: dict[str, Match]) -> dict[str, Match]:
    """The matches, less sure where most rows fit nothing: then the table is of another program, and what fits does so by chance."""
    own = [match for match in matches.values() if match.evidence != _COMPILERS_OWN]
    if sum(match.confidence >= _ORDER_ALONE for match in own) >= _LEAST_FITTING * len(own):
        return matches
    return {
        node: match
        if match.structure is None
        else replace(match, confidence=min(match.confidence, _ALIKE), evidence=(*match.evidence, _OTHER_PROGRAM))
        for node, match in matches.items()
    }


def _functions(rows: Sequence[NodeRow]) -> list[_Function]:
    """The compiled functions in the order of their numbers, each with its rows in the order of their calls."""
    members: dict[str, list[NodeRow]] = {}
    for row in rows:
        members.setdefault(row.function, []).append(row)
    found = [
        _Function(symbol, parse_function(symbol), tuple(sorted(items, key=lambda row: (row.order or 0, call_number(row.node, symbol)))))
        for symbol, items in members.items()
    ]
    return sorted(found, key=lambda function: (function.name.operators, function.name.number))


def _likeness(name: FunctionName, structure: Structure) -> float:
    """How well a name fits the operators of a fused function, moves of data and folded scales left out."""
    wanted = [operator for operator in name.operators if operator not in MOVES]
    best = 0.0
    for without_optional in (False, True):
        operators = [
            operator
            for place, operator in enumerate(structure.operators)
            if operator not in MOVES and not (without_optional and place in structure.optional)
        ]
        if name.is_cut:
            operators = operators[: len(wanted)]
        best = max(best, _ratio(wanted, operators))
    if name.depthwise is not None and name.depthwise != structure.depthwise:
        best *= _OTHER_KIND
    if not wanted:  # moves of data alone
        own = {"layout_transform"}  # the compiler's
        return _ratio(*([item for item in side if item not in own] for side in (name.operators, structure.operators)))
    return best


def _ratio(first: Sequence[str], second: Sequence[str]) -> float:
    if not first and not second:
        return 1.0
    if not first or not second or first[0] != second[0]:  # what comes first is what the function is about
        return 0.6 * difflib.SequenceMatcher(None, first, second, autojunk=False).ratio()
    return difflib.SequenceMatcher(None, first, second, autojunk=False).ratio()


def _order_costs(functions: Sequence[_Function], program: Sequence[Structure], costs: np.ndarray) -> np.ndarray:
    """Distance of the ranks among those that look the same: functions by their numbers or their place in the run, structures by first call."""
    result = np.zeros_like(costs)
    known = all(row.order is not None for function in functions for row in function.rows)
    for group, candidates in _groups(costs):
        ranked = sorted(group, key=lambda place: (functions[place].rows[0].order or 0) if known else functions[place].name.number)
        targets = sorted(candidates, key=lambda place: program[place].first)
        for rank, place in enumerate(ranked):
            for target_rank, target in enumerate(targets):
                result[place, target] = abs(rank / max(len(ranked) - 1, 1) - target_rank / max(len(targets) - 1, 1))
    return result


def _work_costs(functions: Sequence[_Function], program: Sequence[Structure], costs: np.ndarray) -> np.ndarray:
    """Distance of time from what the work lets expect, within those that look the same."""
    result = np.zeros_like(costs)
    for group, candidates in _groups(costs):
        times = np.log([max(functions[place].time_us, 1e-3) for place in group])
        works = np.log([program[place].work for place in candidates])
        shift = float(np.median(times) - np.median(works))
        result[np.ix_(group, candidates)] = np.minimum(np.abs(times[:, None] - works[None, :] - shift), 2.0)
    return result


def _groups(costs: np.ndarray) -> list[tuple[list[int], list[int]]]:
    """Functions whose best candidates are the same, with these candidates."""
    found: dict[tuple[int, ...], list[int]] = {}
    for place in range(len(costs)):
        best = costs[place].min()
        found.setdefault(tuple(np.flatnonzero(costs[place] <= best + _SAME).tolist()), []).append(place)
    return [(group, list(candidates)) for candidates, group in found.items() if len(candidates) > 1]


def _judged(place: int, target: int | None, function: _Function, program: Sequence[Structure], *, tables: tuple[np.ndarray, ...]) -> Match:
    """What speaks for a match, and how surely."""
    alike, shapes, costs, order, work = tables
    if target is not None and function.has_hash_of(program[target]):
        return Match(target, 0, _CERTAIN, ("the same hash",))
    if target is None:
        moves = set(function.name.operators) <= MOVES
        return Match(None, 0, 0.9, _COMPILERS_OWN) if moves else Match(None, 0, 0.0, ("no function of the program is like it",))
    evidence = [
        "the same operators" if alike[place, target] == 1.0 else f"similar operators ({alike[place, target]:.0%})",
        _shape_words(function.shape, program[target].shape, float(shapes[place, target])),
    ]
    if function.calls == len(program[target].calls):
        evidence.append(f"as many calls ({function.calls})")
    rivals = [other for other in np.flatnonzero(costs[place] <= costs[place, target] + _SAME).tolist() if other != target]
    exact = alike[place, target] == 1.0 and shapes[place, target] >= 0.9
    if not rivals:
        evidence.append("no other function of the program is like it")
        confidence = _SURE if exact else _ALIKE + 0.3 * float(alike[place, target] * shapes[place, target])
    else:
        in_order = order[place, target] <= min(order[place, other] for other in rivals)
        by_cost = work[place, target] <= min(work[place, other] for other in rivals) + math.log(1.5)
        evidence += ["the order of the functions' numbers"] * bool(in_order) + ["time against work"] * bool(by_cost)
        confidence = _ORDERED if in_order and by_cost else _ORDER_ALONE if in_order else _COST_ALONE if by_cost else _ALIKE
        confidence = confidence if exact else min(confidence, _ALIKE)
    names = tuple(program[other].identifier for other in rivals)
    return Match(target, 0, round(confidence, 2), tuple(evidence), names)


def _shape_words(found: Shape | None, wanted: Shape | None, fit: float) -> str:
    if found is None or wanted is None:
        return "shapes are not known"
    if found == wanted:
        return f"the same output shape {found}"
    return f"output shape {found} is {wanted} in another layout" if fit >= 0.9 else f"output shape {found} has as many elements as {wanted}"
