"""Says whether the model with schedules computes what the untuned one does, and what onnxruntime makes of the source model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.engines.apply_protocol import Application, OutputsCompared
from workbench.engines.search_protocol import Failed
from workbench.escaping import plain
from workbench.records.comparison import Difference, Verification

_MOST_FAULTS = 20

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Verifier:
    """Verifies a model that an application has built.

    Attributes:
        seeds: Of the random inputs; the first one also has each kernel compared alone, on the model's own tensors.
        onnx_model: The source model; None where it is not of ONNX, or not here.
        without_onnx: Why it is not compared with onnxruntime; empty if it is.
        on_progress: Told what is done; what it raises ends the work.
    """

    seeds: tuple[int, ...]
    onnx_model: Path | None
    without_onnx: str
    on_progress: Progress

    def verify(self, application: Application, scheduled: Mapping[str, object]) -> Verification:
        """Compare outputs on all inputs; where they differ, find the kernel that does it.

        Args:
            application: Has built both models.
            scheduled: The kernels with a schedule, by name.
        """
        outputs: list[Difference] = []
        random_outputs: list[Difference] = []
        wrong: list[Difference] = []
        checked = 0
        says_nothing = said_of_random = ""
        for place, seed in enumerate(self.seeds):
            self.on_progress(f"verify: inputs of seed {seed}", place / len(self.seeds))
            found = self._compared(application, seed, each_kernel=place == 0 and bool(scheduled), random_weights=False)
            if isinstance(found, Failed):
                return self._crashed(found, scheduled, outputs)
            outputs.extend(found.outputs)
            wrong.extend(found.wrong)
            checked += found.kernels_checked
            says_nothing = says_nothing or found.says_nothing
        if says_nothing and all(item.passed for item in (*outputs, *wrong)):
            self.on_progress(f"verify: random weights and inputs of seed {self.seeds[0]}", 0.0)
            found = self._compared(application, self.seeds[0], each_kernel=bool(scheduled), random_weights=True)
            if isinstance(found, Failed):
                return self._crashed(found, scheduled, outputs)
            said_of_random, says_nothing = _said_of_random_weights(found, says_nothing)
            random_outputs.extend(found.outputs)
            wrong.extend(found.wrong)
        beside, said = self._beside_onnxruntime(application)
        verification = _verification(self.seeds, outputs, random_outputs, wrong, beside, checked=checked, says_nothing=says_nothing)
        return replace(verification, onnxruntime=said, random_weights=said_of_random)

    def _compared(self, application: Application, seed: int, *, each_kernel: bool, random_weights: bool) -> OutputsCompared | Failed:
        """One set of inputs; if the outputs differ, once more with every kernel alone."""
        found = application.compare_outputs(seed, each_kernel=each_kernel, random_weights=random_weights)
        if isinstance(found, Failed) or each_kernel or all(item.passed for item in found.outputs):
            return found
        return application.compare_outputs(seed, each_kernel=True, random_weights=random_weights)

    def _crashed(self, failed: Failed, scheduled: Mapping[str, object], outputs: list[Difference]) -> Verification:
        lines = [line.strip() for line in failed.error.splitlines() if line.strip()]
        first = lines[0] if lines else failed.status
        named = tuple(name for name in scheduled if f"running kernel {plain(name, 120)}" in first)
        reason = plain(first, 600)
        return Verification(verified=False, seeds=self.seeds, differences=tuple(outputs), faulty=named, reason=reason, onnxruntime="not compared")

    def _beside_onnxruntime(self, application: Application) -> tuple[list[Difference], str]:
        if self.onnx_model is None:
            return [], f"not compared: {self.without_onnx}"
        self.on_progress("verify: onnxruntime", 0.0)
        found = application.compare_with_onnxruntime(self.onnx_model, self.seeds[0])
        if isinstance(found, Failed):
            return [], f"not compared: {plain(found.error.strip().splitlines()[0], 300)}"
        if isinstance(found, str):
            return [], f"not compared: {found}"
        return list(found.outputs), _largest_text(found)


def _said_of_random_weights(found: OutputsCompared, own_say_nothing: str) -> tuple[str, str]:
    """What the comparison with random weights gave, and why agreement still proves little; empty if it proves something now."""
    if found.says_nothing:
        return "", f"{own_say_nothing}, and with random weights {found.says_nothing}"
    return f"{_largest_text(found)}; with the model's own weights {own_say_nothing}, which proves little", ""


def _largest_text(found: OutputsCompared) -> str:
    largest = max((item.max_abs for item in found.outputs if item.max_abs is not None), default=0.0)
    return f"largest difference {largest:.3g}"


def _verification(
    seeds: tuple[int, ...],
    outputs: list[Difference],
    random_outputs: list[Difference],
    wrong: list[Difference],
    beside: list[Difference],
    *,
    checked: int,
    says_nothing: str,
) -> Verification:
    differing = [item for item in (*outputs, *random_outputs) if not item.passed]
    foreign = [item for item in beside if not item.passed]
    faulty = tuple(dict.fromkeys(item.kernel for item in wrong))
    return Verification(
        verified=not (differing or wrong or foreign),
        seeds=seeds,
        max_abs_err=_largest([item.max_abs for item in outputs]),
        max_rel_err=_largest([item.max_rel for item in outputs]),
        differences=(*outputs, *random_outputs, *beside, *wrong[:_MOST_FAULTS]),
        kernels_checked=checked,
        faulty=faulty,
        reason=_reason(differing, wrong, foreign) or (f"agreement proves little: {says_nothing}" if says_nothing else ""),
    )


def _reason(differing: list[Difference], wrong: list[Difference], foreign: list[Difference]) -> str:
    """What is wrong, in a sentence; the kernel first, if one is to blame."""
    if wrong:
        names = ", ".join(dict.fromkeys(plain(item.kernel) for item in wrong))
        return f"wrong result of kernel {names}: {wrong[0]}"
    if differing:
        return f"{differing[0]}; no single kernel differs by more than its tolerance on the untuned model's tensors{_ties(differing)}"
    if foreign:
        return f"{foreign[0]}; the untuned model agrees with the tuned one, so that the tuning is not to blame{_ties(foreign)}"
    return ""


def _ties(differing: list[Difference]) -> str:
    """What to know where all outputs that differ are whole numbers: they have no tolerance, and may hang on the last bit of a sum."""
    dtypes = dict.fromkeys(item.dtype for item in differing)
    if not all(name.startswith(("int", "uint", "bool")) for name in dtypes):
        return ""
    names = " and ".join(dtypes)
    return f"; the output is of {names}, which has to be equal: where two values are as good as equal (ties), an index or a rounded value may change"


def _largest(values: list[float | None]) -> float | None:
    """The largest; None if one is no number, or there is none."""
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None
