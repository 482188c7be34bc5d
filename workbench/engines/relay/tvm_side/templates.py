"""AutoTVM's search of one kernel: the configurations of its templates, and the tuners that choose among them; measures nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Sequence

from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.record import decode, encode

from .failing import ENVIRONMENT, INPUT, MODEL, Refusal
from .held import Held
from .kernel_code import find_kernel, traced_templates
from .sketches import seed_round, without_xgboost
from .wire import Blob

_PLAN = 16
"""Trials between two fits of XGBoost's model; stock TVM waits for 64."""

_LAYOUT_KNOBS = {
    "conv2d_NCHWc.x86": (5, {"tile_ic": 0, "tile_oc": 1}),
    "depthwise_conv2d_NCHWc.x86": (5, {"tile_ic": 0, "tile_oc": 1}),
    "dense_pack.x86": (3, {"tile_x": 1}),
}
"""What the layout of the model has decided, by template: rank of a packed tensor, and for each knob that packs a tensor the place of that tensor."""

_PATIENCE = 64


@dataclass
class Tuning:
    """One template of a kernel, and its tuner.

    Attributes:
        task: AutoTVM's task.
        tuner: Chooses configurations.
        known: Seconds of configurations by their index; None for those that failed or have no time yet.
    """

    task: Any
    tuner: Any
    known: dict[int, float | None] = field(default_factory=dict)


@dataclass
class Templates:
    """What is known of one kernel's search.

    Attributes:
        tunings: One for each template of the kernel.
        seed: Of everything random.
        rounds: How often candidates were asked for.
        turn: The template that is asked next.
    """

    tunings: list[Tuning]
    seed: int
    rounds: int = 0
    turn: int = 0


def begin(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> dict[str, Any]:
    """Begin the search of ``kernel`` under the key ``search`` with a ``tuner`` and a ``seed``."""
    del blobs, progress
    kernel = find_kernel(held, arguments["kernel"])
    search = Templates([], arguments["seed"])
    seed_round(search.seed, 0)
    for task in tasks_of(kernel.function, held.target):
        search.tunings.append(Tuning(task, _tuner(arguments["tuner"], task)))
    if not search.tunings:
        raise Refusal(MODEL, f"AutoTVM has no template for the kernel {kernel.name}.", "Use the space auto-scheduler.")
    held.tasks[arguments["search"]] = search
    spaces = [tuning.task.config_space for tuning in search.tunings]
    workloads = [[tuning.task.name, tuning.task.args] for tuning in search.tunings]
    return {"space_size": sum(map(len, spaces)), "workload": json.dumps(workloads), "note": ""}


def propose(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> list[str]:
    """At most ``count`` new candidates as lines of a log without results; of several templates by turns."""
    del blobs, progress
    search = held.tasks[arguments["search"]]
    search.rounds += 1
    seed_round(search.seed, search.rounds)
    chosen: list[str] = []
    idle = 0
    while len(chosen) < arguments["count"] and idle < len(search.tunings):
        tuning = search.tunings[search.turn % len(search.tunings)]
        search.turn += 1
        config = _next(tuning)
        idle = idle + 1 if config is None else 0
        if config is not None:
            tuning.known[config.index] = None
            chosen.append(_line(tuning, config))
    return chosen


def learn(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> None:
    """Take note of ``outcomes``: lines, each with ``seconds`` (null if it failed) and whether it ``counts``."""
    del blobs, progress
    search = held.tasks[arguments["search"]]
    search.rounds += 1
    seed_round(search.seed, search.rounds)
    for tuning in search.tunings:
        inputs, results = [], []
        for outcome in arguments["outcomes"]:
            config = _config(tuning, outcome["trace"])
            if config is None:
                continue
            tuning.known[config.index] = outcome["seconds"]
            if outcome["counts"]:
                inputs.append(MeasureInput(tuning.task.target, tuning.task, config))
                results.append(_result(outcome["seconds"]))
        if inputs:
            tuning.tuner.update(inputs, results)


def tasks_of(function: Any, target: Any) -> list[Any]:
    """AutoTVM's tasks of a fused function, with the configurations for the layout that it has."""
    tasks = []
    for name, values in traced_templates(function, target):
        try:
            task = autotvm.task.create(name, args=values, target=target)
        except Exception:  # noqa: S112 - a template that does not take this shape is none of the kernel's
            continue
        _keep_layout(task.config_space, name, values)
        tasks.append(task)
    return tasks


class Chosen(autotvm.task.DispatchContext):  # type: ignore[misc] # TVM has no types
    """Gives one workload its configuration, and all others what TVM falls back on.

    Args:
        workload: AutoTVM's.
        config: Its configuration.
    """

    def __init__(self, workload: Any, config: Any) -> None:
        super().__init__()
        self._workload = workload
        self._config = config
        self._config.cost = 0.0  # TVM compares those of several
        self.asked = False

    def _query_inside(self, target: Any, workload: Any) -> Any:
        del target
        if workload != self._workload:
            return None
        self.asked = True
        return self._config


def _next(tuning: Tuning) -> Any:
    """A configuration that was not tried; None if there is none left. What the tuner repeats, it is told again."""
    for _ in range(_PATIENCE * max(len(tuning.known), 1)):
        if len(tuning.known) >= len(tuning.task.config_space) or not tuning.tuner.has_next():
            return None
        batch = tuning.tuner.next_batch(1)
        if not batch:
            return None
        if batch[0].index not in tuning.known:
            return batch[0]
        seconds = tuning.known[batch[0].index]
        tuning.tuner.update([MeasureInput(tuning.task.target, tuning.task, batch[0])], [_result(seconds)])
    return None


def _tuner(name: str, task: Any) -> Any:
    if name == "xgb":
        why, remedy = without_xgboost()
        if why:
            raise Refusal(ENVIRONMENT, f"AutoTVM's tuner xgb cannot be used: {why}.", f"In the old Python: {remedy}; or use --space autotvm-ga.")
        tuner = autotvm.tuner.XGBTuner(task, plan_size=_PLAN, feature_type="knob", num_threads=1, log_interval=0)
        tuner.cost_model._get_pool = lambda: _Here(task.config_space)  # noqa: SLF001 - its own pool starts a Python for each fit
        return tuner
    tuners = {"ga": autotvm.tuner.GATuner, "random": autotvm.tuner.RandomTuner, "gridsearch": autotvm.tuner.GridSearchTuner}
    return tuners[name](task)


class _Here:
    """Takes features in this process, in the place of the pool of XGBoost's cost model.

    Args:
        space: AutoTVM's.
    """

    def __init__(self, space: Any) -> None:
        self._space = space

    def map_with_error_catching(self, function: Any, indexes: Sequence[int]) -> list[Any]:
        from tvm.contrib.popen_pool import MapResult, StatusKind

        del function
        return [MapResult(StatusKind.COMPLETE, self._space.get(index).get_flatten_feature()) for index in indexes]


def _keep_layout(space: Any, name: str, values: Sequence[Any]) -> None:
    """Leave only configurations for the layout that the kernel's tensors have."""
    rank, knobs = _LAYOUT_KNOBS.get(name, (0, {}))
    for knob, place in knobs.items():
        shape = [int(size) for size in values[place][1]]
        if len(shape) < rank or knob not in space.space_map:
            continue
        choices = space.space_map[knob]
        fitting = [entity for entity in choices.entities if entity.size[-1] == shape[-1]]
        if fitting:
            choices.entities = fitting


def _config(tuning: Tuning, line: str) -> Any:
    """The configuration of a line, with its index in this space; None if the line is another workload's or its knobs are others."""
    try:
        found = _decoded(line)
        if found.task.workload != tuning.task.workload:
            return None
        space = tuning.task.config_space
        knobs = []
        for name, choices in space.space_map.items():
            wanted = str(found.config[name])
            knobs.append([str(entity) for entity in choices.entities].index(wanted))
        return space.get(space.knob2point(knobs) if hasattr(space, "knob2point") else _point(knobs, space))
    except Exception:
        return None


def _point(knobs: Sequence[int], space: Any) -> int:
    """The index of a configuration, as older TVM counts: the first knob fastest."""
    point, step = 0, 1
    for knob, choices in zip(knobs, space.space_map.values()):
        point += knob * step
        step *= len(choices)
    return point


def _line(tuning: Tuning, config: Any) -> str:
    """A line of a log without its result, in a form that is equal for equal configurations."""
    record = json.loads(encode(MeasureInput(tuning.task.target, tuning.task, config), _result(1.0), "json"))
    del record["result"]
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def _decoded(line: str) -> Any:
    record = json.loads(line)
    if record.get("version") != 0.2:  # older ones hold pickles
        raise Refusal(INPUT, "The recorded schedule is of a version that cannot be read.", "Search the task again.")
    return decode(json.dumps(dict(record, result=[[1.0], 0, 1.0, 0])), "json")[0]


def _result(seconds: float | None) -> Any:
    failed = seconds is None
    return MeasureResult((1e9 if failed else seconds,), MeasureErrorNo.RUNTIME_DEVICE if failed else MeasureErrorNo.NO_ERROR, 0.0, 0)


CALLS = {"begin": begin, "propose": propose, "learn": learn}
