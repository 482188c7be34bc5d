"""Profiles, progress and texts made of plain records, for widgets without TVM: the same in unit tests, in a notebook's kernel, and in benchmarks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import InputError
from workbench.links import build_profile
from workbench.records.origin import Origin
from workbench.records.profile import CallTime, Kernel, KernelCall, Measurement, Profile, TensorShape
from workbench.records.trial import BUILD_ERROR, OK, Trial
from workbench.records.tuning import FASTER, FINISHED, NOT_FASTER, SEARCHING, Final, TaskProgress
from workbench.records.view import Link, ViewInfo, ViewText
from workbench.records.view_diff import KnobDifference, ViewDiff

FAILED_TRIAL = 7
"""The trial that could not be built, wherever an inspector looks at one."""
HOSTILE = "<img src=x onerror=\"document.body.dataset.hacked='yes'\">"
"""A name that becomes an element, and runs code, wherever it is taken for HTML."""

OPERATORS = (("conv2d", "add", "relu"), ("conv2d",), ("dense", "add"), ("max_pool2d",), ("softmax",))


def profile_of(rows: int, *, kernels: int = 7, hostile: bool = False, measured: bool = True, broken: bool = False) -> Profile:
    """A profile with so many kernel rows, the first the hottest, on kernels that take turns.

    Args:
        rows: Kernel calls; the ``runtime`` row comes on top.
        kernels: Distinct kernels; the last cannot be tuned.
        hostile: Model, kernels, operators and origins are called `HOSTILE`.
        measured: False leaves the times out, as without a device.
        broken: The second row has NaN and infinite values in its output.
    """
    tail = HOSTILE if hostile else ""
    tensor = TensorShape((1, 64, 56, 56), "float32")
    made = [
        Kernel(
            name=f"fused_{'_'.join(OPERATORS[index % len(OPERATORS)])}{index}{tail}",
            structural_hash=f"hash {index}",
            ops=(*OPERATORS[index % len(OPERATORS)], *([tail] if tail else [])),
            parameters=(tensor, tensor),
            results=(tensor,),
            flop=(index + 1) * 12_345_678,
            space_size=10_000,
            untunable=f"it has a dynamic shape{tail}" if index == kernels - 1 and kernels > 1 else "",
        )
        for index in range(kernels)
    ]
    times = tuple(
        CallTime(1200.0 / (index + 1), 6.0 / (index + 1), 30, 12 if broken and index == 1 else 0, 3 if broken and index == 1 else 0)
        for index in range(rows)
    )
    total_us = sum(time.median_us for time in times) + 25.0
    return build_profile(
        model=f"squeezenet{tail}",
        engine="relax",
        target="llvm znver5, 2 threads",
        kernels=made,
        calls=[
            KernelCall(made[index % kernels].name, (Origin("Conv", f"/features/{index}/conv{tail}"), Origin("Relu", f"/relu{index}")))
            for index in range(rows)
        ],
        measurement=Measurement(
            calls=times if measured else (),
            runtime=CallTime(18.0, 0.5, 30) if measured else None,
            builtins=(("vm.builtin.reshape", 2),),
            total=CallTime(total_us, 12.5, 30) if measured else None,
            hook_us=0.1,
            threads=2,
            unmeasured="" if measured else "no CUDA device is here",
        ),
        builtin_origins=[],
        notes=["random weights: the text had none"],
    )


def progress_of(profile: Profile) -> list[TaskProgress]:
    """A search of the first three tasks: one ended with a gain, one without, one goes on."""
    first, second, third = profile.tasks[:3]
    won = Final(17, 1200.0, 4.0, 700.0, 3.0, 17, 11, FASTER, "1.71 times faster (1,200.0 us to 700.0 us)")
    lost = Final(0, 600.0, 4.0, 598.0, 3.0, 9, 11, NOT_FASTER, "no difference beyond the noise")
    return [
        TaskProgress(
            first.task, first.name, first.weight, FINISHED, "its trials are used up", 10_000, 64, {"run_error": 2}, {}, 1200.0, 17, 700.0, final=won
        ),
        TaskProgress(second.task, second.name, second.weight, FINISHED, "flat", 10_000, 64, {}, {}, 600.0, 9, 598.0, final=lost),
        TaskProgress(third.task, third.name, third.weight, SEARCHING, "", 10_000, 12, {}, {}, 400.0, 5, 310.0),
    ]


TIR = """@T.prim_func
def main(p0: T.Buffer((1, 64, 56, 56), "float32"), T_relu: T.Buffer((1, 64, 56, 56), "float32")):
    for ff_0 in T.parallel(8):
        for yy, xx in T.grid(56, 56):
            with T.sblock("conv2d_nchw"):
                v_ff = T.axis.spatial(64, ff_0 * 8)
                conv2d_nchw[0, v_ff, yy, xx] = T.float32(0.0)
"""
LLVM = """; ModuleID = 'TVMMod'
target triple = "x86_64-pc-linux-gnu"
define void @main_compute(ptr noalias %p0, i64 %ff_0) {
entry:
  %0 = load <16 x float>, ptr %p0, align 64
  %1 = fadd fast <16 x float> %0, zeroinitializer
  ret void
}
"""
SCHEDULE = """def apply_trace(sch):
    b0 = sch.get_sblock(name="conv2d_nchw", func_name="main")
    l1, l2, l3 = sch.get_loops(block=b0)
    v4, v5 = sch.sample_perfect_tile(loop=l1, n=2, decision=[8, {tile}])
    sch.parallel(l1)
"""
ASM = "main:\n\tvmovups\t(%rdi), %zmm0   # load\n\tvfmadd231ps\t%zmm1, %zmm2, %zmm0\n.LBB0_1:\n\tret\n"

TEXTS = {
    "tir": TIR,
    "tir_before": TIR,
    "lowered": TIR,
    "source": LLVM,
    "asm": ASM,
    "resources": "vector width: 512 bits\nspills: 0\n",
    "compute_dag": "conv2d\n",
}
LINKS = (Link("block conv2d_nchw", 5, 7), Link("loop ff_0", 3, 7))
INFOS = (
    ViewInfo("compute_dag", "Computation", "text", "What the kernel computes"),
    ViewInfo("schedule", "Schedule", "python", "Python that makes the same schedule"),
    ViewInfo("decisions", "Decisions", "text", "What the schedule decides"),
    ViewInfo("tir_before", "TIR before", "python", "The kernel before any schedule"),
    ViewInfo("tir", "TIR", "python", "The scheduled kernel in TVMScript"),
    ViewInfo("lowered", "Lowered TIR", "python", "TIR as it goes to code generation"),
    ViewInfo("source", "LLVM IR", "llvm", "What the code generator makes"),
    ViewInfo("asm", "Assembly", "asm", "Assembly of the processor"),
    ViewInfo("ptx", "PTX", "ptx", "Assembly of NVIDIA's virtual machine", "a kernel for llvm has no PTX", "Look at asm."),
    ViewInfo("sass", "SASS", "sass", "Machine code of the GPU", "a kernel for llvm has no SASS", "Look at asm."),
    ViewInfo("resources", "Resources", "text", "What the kernel takes of the machine", "the resources of this kernel cannot be counted", ""),
    ViewInfo("effects", "Effects", "text", "Which decisions matter"),
)


@dataclass(frozen=True)
class MadeRerun:
    """What a re-run found."""

    values: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return dict(self.values)


@dataclass
class FakeSource:
    """An inspector's source that knows its answers.

    Attributes:
        calls: What was asked, in order.
        gate: A question waits for it; None answers at once.
        text_of_tir: What the scheduled kernel looks like.
    """

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    gate: asyncio.Event | None = None
    text_of_tir: str = TIR

    async def views(self, task: str) -> Sequence[ViewInfo]:
        self.calls.append(("views", task))
        return INFOS

    async def text(self, task: str, trial: int, view: str) -> ViewText:
        self.calls.append(("text", task, trial, view))
        if self.gate is not None:
            await self.gate.wait()
        if trial == 13:
            raise InputError("The recorded schedule does not fit the kernel: <b>block</b> conv2d_nchw is missing", "Search the task again.")
        if trial == 14:
            raise RuntimeError("the worker's answer\nmade no sense")
        if view == "schedule":
            return ViewText(view, SCHEDULE.format(tile=trial))
        if view == "decisions":
            knobs = [
                {"knob": "tile conv2d/ff", "kind": "tile", "block": "conv2d", "loop": "ff", "value": "8 x 8", "sampled": True, "instruction": 3},
                {"knob": HOSTILE, "kind": "unroll", "block": HOSTILE, "loop": "", "value": "64", "sampled": False, "instruction": 4},
            ]
            return ViewText(view, "tile conv2d/ff: 8 x 8", data={"knobs": knobs})
        if view == "effects":
            return ViewText(view, "tile conv2d/ff explains 62 %", data=EFFECTS)
        return ViewText(view, self.text_of_tir if view == "tir" else TEXTS[view], LINKS if view in {"tir", "lowered"} else ())

    async def trial(self, task: str, trial: int) -> Trial | None:
        self.calls.append(("trial", task, trial))
        failed = trial == FAILED_TRIAL
        times = () if failed else (700.0,)
        error = f"Traceback of the build\n{HOSTILE}\nValueError: no such intrinsic" if failed else ""
        return Trial(task, trial, BUILD_ERROR if failed else OK, error, "f", "search", "here", times, 1, 0.0, 0.0, 0.0, None, None, 0.0)

    async def diff(self, task: str, left: int, right: int, view: str) -> ViewDiff:
        self.calls.append(("diff", task, left, right, view))
        texts = [(await self.text(task, trial, view)).text for trial in (left, right)]
        decided = (KnobDifference("tile conv2d/ff", "8 x 0", f"8 x {right}"), KnobDifference(HOSTILE, None, "64"))
        return ViewDiff(view, f"trial {left} (untuned), 1,200.0 us", f"trial {right}, 700.0 us", *texts, (), decided)

    async def rerun(self, task: str, trial: int) -> MadeRerun:
        self.calls.append(("rerun", task, trial))
        if self.gate is not None:
            await self.gate.wait()
        return MadeRerun(
            {
                "task": task,
                "kernel": "conv2d",
                "trial": trial,
                "status": "ok",
                "error": "",
                "recorded_us": 700.0,
                "recorded_us_iqr": 3.0,
                "recorded_status": "ok",
                "measured_us": 712.5,
                "measured_us_iqr": 4.0,
                "distance_percent": 1.8,
                "distance": "1.8 % slower than the record, within the noise",
                "baseline_us": 1201.0,
                "baseline_us_iqr": 5.0,
                "gain": "1.69 times faster than the untuned kernel",
                "same_conditions": True,
                "check": {"max_abs": 1e-6, "max_rel": 1e-6, "mismatches": 0, "elements": 200_704, "abs_tolerance": 1e-4, "rel_tolerance": 1e-4},
            }
        )


EFFECTS = {
    "task": "t",
    "trials": 63,
    "sketches": 2,
    "method": "Share of the variance of the logarithm of the time.",
    "note": "",
    "effects": [
        {
            "knob": "tile conv2d/ff, factor 4 of 4",
            "share": 0.62,
            "p_value": 0.001,
            "matters": True,
            "ratio": 3.1,
            "ratio_low": 2.2,
            "ratio_high": 4.4,
            "trials": 63,
            "levels": [{"value": "16", "trials": 21, "relative_time": 0.61}, {"value": "8", "trials": 30, "relative_time": 1.2}],
        },
        {
            "knob": "unroll",
            "share": 0.01,
            "p_value": 0.81,
            "matters": False,
            "ratio": None,
            "ratio_low": None,
            "ratio_high": None,
            "trials": 63,
            "levels": [],
        },
    ],
}
