"""What assembly says of a kernel, on lines as LLVM prints them."""

from __future__ import annotations

from workbench.analysis.assembly import assembly_facts

AVX512 = """\
\t.text
main:
\tpushq\t%rbp
\tvmovups\t%zmm1, 64(%rsp)                # 64-byte Spill
.LBB1_2:                                # %for_body_k
\tvmovups\t(%rdx,%rax), %zmm4
\tvfmadd231ps\t(%rcx,%rax,4){1to16}, %zmm4, %zmm0
\tvfmadd231ps\t4(%rcx,%rax,4){1to16}, %zmm4, %zmm1
\tvaddps\t%ymm2, %ymm3, %ymm2
\tvfmadd213ss\t%xmm1, %xmm2, %xmm3
\taddq\t$64, %rax
\tjne\t.LBB1_2
.LBB1_3:
\tvmovups\t64(%rsp), %zmm1                # 64-byte Reload
\tvfmadd231ps\t%zmm2, %zmm4, %zmm0
\tretq
.Lfunc_end1:
\t.size\tmain, .Lfunc_end1-main
"""

NEON = """\
main:
\tstr\tq8, [sp, #16]                  // 16-byte Folded Spill
.LBB0_1:
\tld1\t{ v0.4s }, [x1]
\tfmla\tv1.4s, v0.4s, v2.s[0]
\tfmla\tv3.4s, v0.4s, v2.s[1]
\tldr\tq8, [sp, #16]                  // 16-byte Folded Reload
\tb.ne\t.LBB0_1
\tret
"""


def test_widths_multiply_adds_and_spills_are_counted() -> None:
    facts = assembly_facts(AVX512)
    assert facts.vector_bits == 512
    assert facts.fma == {0: 1, 512: 3}
    assert facts.arithmetic == {0: 1, 256: 1, 512: 3}
    assert (facts.spills, facts.reloads, facts.spill_bytes) == (1, 1, 64)
    assert (facts.hot_label, facts.hot_fma, facts.hot_instructions) == (".LBB1_2", 3, 7)
    assert facts.instructions == 12


def test_without_remarks_the_stack_pointer_tells_of_spills() -> None:
    facts = assembly_facts("f:\n\tvmovaps\t%ymm3, -32(%rsp)\n\tvmovups\t8(%rsp), %xmm1\n\tvmovups\t%ymm3, (%rdi)\n\tmovq\t%rax, 8(%rsp)\n")
    assert (facts.spills, facts.reloads, facts.spill_bytes) == (1, 1, 32)


def test_the_vectors_of_aarch64_are_read_too() -> None:
    facts = assembly_facts(NEON)
    assert (facts.vector_bits, facts.fma, facts.spills, facts.reloads, facts.spill_bytes) == (128, {128: 2}, 1, 1, 16)
    assert facts.hot_label == ".LBB0_1"


def test_scalar_code_uses_no_vectors() -> None:
    facts = assembly_facts("f:\n\tmulss\t%xmm1, %xmm0\n\taddss\t%xmm2, %xmm0\n\txorps\t%xmm3, %xmm3\n\tretq\n")
    assert (facts.vector_bits, facts.arithmetic, facts.fma, facts.hot_label) == (0, {0: 2}, {}, "")


def test_vectors_of_indices_are_not_those_of_the_arithmetic() -> None:
    facts = assembly_facts("f:\n\tvpaddd\t%zmm0, %zmm1, %zmm1\n\tvfmadd213ss\t%xmm1, %xmm2, %xmm3\n")
    assert (facts.vector_bits, facts.fma) == (0, {0: 1})


def test_moving_vectors_is_no_arithmetic() -> None:
    assert assembly_facts("f:\n\tvmovups\t%zmm0, (%rdi)\n\tvxorps\t%xmm0, %xmm0, %xmm0\n").vector_bits == 0


def test_integer_dot_products_are_arithmetic() -> None:
    assert assembly_facts("f:\n\tvpdpbusd\t(%rdi), %zmm0, %zmm1\n").arithmetic == {512: 1}


def test_an_empty_text_has_nothing() -> None:
    facts = assembly_facts("")
    assert (facts.instructions, facts.vector_bits, facts.fma) == (0, 0, {})
