"""The auto-scheduler's search of one kernel: sketches, evolution and cost model; measures nothing."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import auto_scheduler
from tvm.auto_scheduler import MeasureInput, MeasureResult, measure_record
from tvm.auto_scheduler.relay_integration import traverse_to_get_io_tensors
from tvm.auto_scheduler.workload_registry import register_workload_tensors

from .failing import MODEL, Refusal
from .giving_up import GivenUpError, Watch
from .held import Held
from .kernel_code import find_kernel, lower
from .targets import last_line
from .wire import Blob

_PARAMETERS = {"evolutionary_search_population": 64, "evolutionary_search_num_iters": 3, "sample_init_min_population": 32}
"""Much less than stock TVM's 2048 states a round, which take minutes for 16 trials on a few cores."""

_WARM_UP = 16
_MEASURED_SHARE = 0.2
_RANDOM_SHARE = 0.05
_FAILED_S = 1e10
_XGBOOST_TOO_NEW = 2
_OLDER_XGBOOST = "pip install 'xgboost<2'"
_FAILED = auto_scheduler.measure.MeasureErrorNo.RUNTIME_DEVICE


@dataclass
class Sketching:
    """What is known of one kernel's search.

    Attributes:
        task: The `SearchTask`.
        policy: The `SketchPolicy`.
        model: Its cost model.
        seed: Of everything random.
        known: States by their text: those that were proposed or measured, with the seconds of those that were right.
        rounds: How often candidates were asked for.
        watch: Gives it up if no schedule is valid.
        note: Why the cost model is not the usual one; empty if it is.
    """

    task: Any
    policy: Any
    model: Any
    seed: int
    watch: Watch
    known: dict[str, tuple[Any, float | None]] = field(default_factory=dict)
    rounds: int = 0
    note: str = ""


def begin(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> dict[str, Any]:
    """Begin the search of ``kernel`` under the key ``search``, with ``seed``."""
    del blobs, progress
    kernel = find_kernel(held, arguments["kernel"])
    tensors = compute_tensors(kernel.function, held.target)
    dag = auto_scheduler.ComputeDAG(tensors)
    key = register_workload_tensors(dag.workload_key(), tensors)
    task = auto_scheduler.SearchTask(
        compute_dag=dag, workload_key=key, target=held.target, layout_rewrite_option=auto_scheduler.LayoutRewriteOption.NO_REWRITE, desc=kernel.name
    )
    watch = Watch(kernel.name)
    model, note = _cost_model(arguments["seed"], watch)
    policy = auto_scheduler.SketchPolicy(task, model, params=dict(_PARAMETERS), seed=arguments["seed"], verbose=0)
    search = Sketching(task, policy, model, arguments["seed"], watch, note=note)
    held.tasks[arguments["search"]] = search
    return {"space_size": len(policy.generate_sketches()), "workload": key, "note": note}


def propose(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> list[str]:
    """At most ``count`` new candidates as lines of a log without results, most promising first.

    Raises:
        Refusal: No schedule is valid.
    """
    del blobs
    search = _search(held, arguments["search"])
    count = arguments["count"]
    search.rounds += 1
    seed_round(search.seed, search.rounds)
    search.watch.begin(progress)
    try:
        sampled = list(search.policy.sample_initial_population())
    except Exception as error:
        if isinstance(error, GivenUpError) or GivenUpError.__name__ in str(error):  # older TVM makes a text of what is raised in its callbacks
            raise search.watch.refusal() from None
        raise
    measured = sorted((seconds, text) for text, (_, seconds) in search.known.items() if seconds is not None)
    best = [search.known[text][0] for _, text in measured[: int(_MEASURED_SHARE * _PARAMETERS["evolutionary_search_population"])]]
    evolved = list(search.policy.evolutionary_search(sampled + best, count * 2 + len(search.known)))
    random.shuffle(sampled)
    chance = round(_RANDOM_SHARE * count) or int(count >= 8)
    chosen: dict[str, Any] = {}
    for states, most in ((evolved, count - chance), (sampled, count), (evolved, count)):
        for state in states:
            if len(chosen) >= most:
                break
            text = _line(search.task, state)
            if text not in search.known:
                chosen.setdefault(text, state)
    search.known.update({text: (state, None) for text, state in chosen.items()})
    return list(chosen)


def learn(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> None:
    """Take note of ``outcomes``: lines, each with ``seconds`` (null if it failed) and whether it ``counts`` for the cost model."""
    del blobs, progress
    search = _search(held, arguments["search"])
    inputs, results = [], []
    for outcome in arguments["outcomes"]:
        text, seconds = outcome["trace"], outcome["seconds"]
        state = search.known[text][0] if text in search.known else _restored(search.task, text)
        if state is None:
            continue
        search.known[text] = (state, seconds)
        if outcome["counts"]:
            failed = seconds is None
            inputs.append(MeasureInput(search.task, state))
            results.append(MeasureResult([_FAILED_S if failed else seconds], _FAILED if failed else 0, "", 0.0, 0))
    if inputs:
        seed_round(search.seed, search.rounds)
        search.model.update(inputs, results)


def compute_tensors(function: Any, target: Any) -> list[Any]:
    """Inputs and outputs of a kernel's computation, as the auto-scheduler is given it."""
    seen: list[Any] = []
    lower(function, target, schedule=seen.append)
    tensors = traverse_to_get_io_tensors(seen[-1])[0] if seen else []
    if not tensors:
        raise Refusal(MODEL, "The auto-scheduler cannot search this kernel: its shapes are not fixed, or it is no computation of tensors.")
    return list(tensors)


def _restored(task: Any, line: str) -> Any:
    """The state of a line; None if it does not fit the kernel any more: then it tells the search nothing, and TVM says so in errors of many kinds."""
    try:
        found = measure_record.load_record_from_string(_with_result(line))[0]
        if found.task.workload_key != task.workload_key:
            return None
        return task.compute_dag.infer_bound_from_state(found.state).state_object  # the policy takes no wrapper
    except Exception:
        return None


def _line(task: Any, state: Any) -> str:
    """A line of a log without its result, in a form that is equal for equal schedules."""
    record = json.loads(measure_record.dump_record_to_string(MeasureInput(task, state), MeasureResult([0.0], 0, "", 0.0, 0)))
    return json.dumps({"i": record["i"], "v": record["v"]}, sort_keys=True, separators=(",", ":"))


def _with_result(line: str) -> str:
    record = json.loads(line)
    return json.dumps({"i": record["i"], "r": [[0.0], 0, 0.0, 0], "v": record["v"]})


class _WatchedModel(auto_scheduler.XGBModel):  # type: ignore[misc] # TVM has no types
    """XGBoost's cost model, which is asked for the score of every candidate, and says which of them are none."""

    def __init__(self, watch: Watch, seed: int) -> None:
        super().__init__(verbose_eval=0, num_warmup_sample=_WARM_UP, seed=seed)
        self._watch = watch

    def predict(self, task: Any, states: Any) -> Any:
        scores = super().predict(task, states)
        self._watch.look(task, states, scores)
        return scores


def _cost_model(seed: int, watch: Watch) -> tuple[Any, str]:
    """XGBoost's, where it is here in a version that TVM of this age can use; else one that knows nothing, and why."""
    why, remedy = without_xgboost()
    if why:
        return auto_scheduler.RandomModel(), f"{why}, so no cost model guides the search: {remedy}"
    return _WatchedModel(watch, seed), ""


def without_xgboost() -> tuple[str, str]:
    """Why TVM's own cost model cannot be had here, and the remedy; both empty if it can."""
    try:
        import xgboost
    except ModuleNotFoundError as error:
        lacking = "xgboost is missing" if error.name == "xgboost" else f"xgboost lacks the package {error.name}"
        return f"{lacking} in the old Python", _OLDER_XGBOOST
    except ImportError as error:
        return f"xgboost does not load in the old Python ({last_line(error)})", _OLDER_XGBOOST
    version = str(getattr(xgboost, "__version__", ""))
    major = re.match(r"\d+", version)
    if major and int(major.group()) >= _XGBOOST_TOO_NEW:
        return f"xgboost {version} is too new for this TVM", _OLDER_XGBOOST
    return "", ""


def seed_round(seed: int, number: int) -> None:
    """The same random numbers for the same round of a search, whatever else this process does."""
    number = (seed * 1_000_003 + number) % 2**32
    np.random.seed(number)  # noqa: NPY002 - TVM's cost models draw from this one
    random.seed(number)


def _search(held: Held, key: str) -> Sketching:
    search: Sketching = held.tasks[key]
    return search


CALLS = {"begin": begin, "propose": propose, "learn": learn}
