"""Which lines are about which loop: followed by name, and never guessed."""

from __future__ import annotations

from workbench.analysis.view_links import ambiguous_names, asm_links, cuda_links, llvm_links, schedule_links, tir_links

TIR = """\
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        # with T.sblock("root"):
        for i_0 in T.parallel(2):
            for i_1, j in T.grid(2, 8):
                with T.sblock("copy"):
                    vi = T.axis.spatial(4, i_0 * 2 + i_1)

                    B[vi] = A[vi]
            for k in range(4):
                B[k] = 0
        for k in range(4):
            with T.sblock("zero"):
                A[k] = 0
"""

IR = """\
define i32 @main() {
entry:
  br label %for_begin_i
for_begin_i:                                      ; preds = %entry
  %x = phi i32
for_body_i:
  br label %for_body_k

for_body_k:
  ret
for_body_i.us:
  %y = add
for_end_i:
  ret i32 0
}
"""

CUDA = """\
extern "C" __global__ void k(float* a) {
  for (int rc_0 = 0; rc_0 < 4; ++rc_0) {
    for (int i = 0; i < 2; ++i) {
      a[i] = 1;
    }
  }
  for (int i = 0; i < 2; ++i) {
    a[i] = 2;
  }
}
"""

ASM = """\
main:                                   # @main
# %bb.0:                                # %entry
\tpushq\t%rax
.LBB0_1:                                # %for_body_i
\tincq\t%rax
\tjne\t.LBB0_1
.LBB0_2:                                # %for_end_i
\tretq
"""


def named(links: tuple[object, ...]) -> list[tuple[str, int, int]]:
    return [(link.name, link.first_line, link.last_line) for link in links]  # type: ignore[attr-defined]


def test_loops_and_blocks_of_tir_reach_to_the_end_of_what_they_hold() -> None:
    assert named(tir_links(TIR)) == [("loop i_0", 6, 13), ("loop i_1", 7, 11), ("loop j", 7, 11), ("block copy", 8, 11), ("block zero", 15, 16)]


def test_a_name_that_stands_for_two_loops_is_not_followed() -> None:
    assert ambiguous_names(TIR) == {"loop k"}
    assert "loop k" not in {name for name, _, _ in named(tir_links(TIR))}


def test_blocks_of_ir_that_are_called_after_a_loop_belong_to_it() -> None:
    assert named(llvm_links(IR, {"loop i"})) == [("loop i", 4, 5), ("loop i", 6, 7), ("loop i", 11, 12), ("loop i", 13, 15)]
    assert llvm_links(IR, {"loop x"}) == ()


def test_loops_of_c_reach_to_their_brace() -> None:
    assert named(cuda_links(CUDA, {"loop rc_0", "loop i"})) == [("loop rc_0", 2, 6)]  # there are two loops called i
    assert cuda_links(CUDA, set()) == ()


def test_remarks_of_the_assembler_tell_of_loops() -> None:
    assert named(asm_links(ASM, {"loop i"})) == [("loop i", 4, 6), ("loop i", 7, 8)]


def test_lines_of_a_schedule_are_about_what_their_variables_are_in_the_end() -> None:
    text = "b0 = sch.get_sblock(name='copy')\nl1, l2 = sch.get_loops(block=b0)\nl3, l4 = sch.split(loop=l1, factors=[2, 2])\nsch.parallel(loop=l3)\n"
    names = {"b0": "block copy", "l2": "loop j", "l3": "loop i_0", "l4": "loop i_1"}
    assert named(schedule_links(text, names, {"block copy", "loop i_0", "loop j"})) == [
        ("block copy", 1, 1),
        ("loop j", 2, 2),
        ("block copy", 2, 2),
        ("loop i_0", 3, 3),
        ("loop i_0", 4, 4),
    ]


def test_texts_without_loops_have_no_links() -> None:
    for text in ("", "\n\n", "x", "}" * 10, "for (int i = 0;"):
        assert tir_links(text) == ()
        assert llvm_links(text, {"loop i"}) == ()
        assert asm_links(text, {"loop i"}) == ()
