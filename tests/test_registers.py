"""What a wiped thread leaves in the vector registers of its processor."""

import platform
from typing import Any

import pytest
from llvmlite import binding, ir
from numba import njit, types
from numba.extending import intrinsic

from panprivacy.memory.intrinsics import clear_vector_registers

SECRET = 0x1234_5678_9ABC_DEF0


def in_register(assembly: str, constraint: str) -> Any:
    """An instruction that writes a number to a register, and returns it, or reads one."""

    @intrinsic
    def moved(typing_context: Any, number: Any) -> Any:  # noqa: ARG001 - the signature is numba's
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            binding.initialize_native_asmparser()
            kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
            return builder.call(ir.InlineAsm(kind, assembly, constraint, side_effect=True), list(arguments))

        return types.uint64(types.uint64), generate

    return moved


WIDE = bool(binding.get_host_cpu_features().get("avx512bw"))


def _registers() -> list[Any]:
    without = pytest.mark.skipif(not WIDE, reason="this processor has no AVX-512")
    beyond = [pytest.param(name, marks=without) for name in ("xmm16", "xmm31", "k0", "k3", "k7")]
    return ["xmm0", "xmm7", "xmm15", *beyond]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the registers are those of x86-64")
@pytest.mark.parametrize("register", _registers())
def test_vector_and_mask_registers_are_zeros_afterwards(register: str) -> None:
    """A comparison of bytes leaves 64 coins in a mask register, which a thread that ends pushes to its stack."""
    move = "kmovq" if register.startswith("k") else "vmovq" if len(register) > 4 and WIDE else "movq"
    write = in_register(f"{move} $1, %{register}\nmovq $1, $0", "=r,r")
    read = in_register(f"{move} %{register}, $0", "=r,r")

    @njit(types.uint64(types.boolean))
    def left(cleared: bool) -> int:
        write(SECRET)
        if cleared:
            clear_vector_registers()  # type: ignore[call-arg]
        return int(read(0))

    assert left(False) == SECRET
    assert left(True) == 0
