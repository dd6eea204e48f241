"""What numba does not offer: ten instructions, and the wiping of a thread's stack and vector registers with them."""

# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False, disallow-untyped-calls=False
from platform import machine

from llvmlite import binding, ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

_READ, _OUTER, _NEAREST, _DATA = 0, 1, 3, 1


@intrinsic
def prefetch(typing_context, array, index):  # noqa: ARG001 - the signature is numba's
    """Start to load ``array[index]`` into the outer caches; changes nothing and cannot fail."""
    return types.void(array, types.uint64), _into(_OUTER)


@intrinsic
def prefetch_near(typing_context, array, index):  # noqa: ARG001 - the signature is numba's
    """`prefetch` into the nearest cache: for a line that is read first and then written, and may be in an outer one."""
    return types.void(array, types.uint64), _into(_NEAREST)


def _into(cache):
    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        word, byte_pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, word, word, word])
        instruction = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte_pointer)
        builder.call(instruction, [address, *(ir.Constant(word, n) for n in (_READ, cache, _DATA))])
        return context.get_dummy_value()

    return generate


@intrinsic
def load_pair(typing_context, octets, index):  # noqa: ARG001 - the signature is numba's
    """``octets[index]`` and the byte behind it as one number, the first the low one, wherever they stand."""

    def generate(context, builder, signature, arguments):
        pair = builder.load(_pair_at(context, builder, signature, arguments), align=1)
        return builder.zext(pair, ir.IntType(64))

    return types.uint64(octets, types.uint64), generate


@intrinsic
def store_pair(typing_context, octets, index, pair):  # noqa: ARG001 - the signature is numba's
    """Write the low 16 bits of a number where `load_pair` reads them."""

    def generate(context, builder, signature, arguments):
        low = builder.trunc(arguments[2], ir.IntType(16))
        builder.store(low, _pair_at(context, builder, signature, arguments), align=1)
        return context.get_dummy_value()

    return types.void(octets, types.uint64, types.uint64), generate


def _pair_at(context, builder, signature, arguments):
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(16).as_pointer())


@intrinsic
def shift_right(typing_context, value, bits):  # noqa: ARG001 - the signature is numba's
    """``value >> bits`` in 32 bits; numba would widen both to 64, and halve what a vector register holds."""

    def generate(context, builder, signature, arguments):  # noqa: ARG001
        return builder.lshr(*arguments)

    return types.uint32(types.uint32, types.uint32), generate


@intrinsic
def ones_in(typing_context, word):  # noqa: ARG001 - the signature is numba's
    """How many bits of a 64-bit word are 1."""

    def generate(context, builder, signature, arguments):  # noqa: ARG001
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def pointer_to(typing_context, address):  # noqa: ARG001 - the signature is numba's
    """A pointer to memory that is not numba's, for `numba.carray`; its content is not checked."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.uint64), generate


@intrinsic
def call(typing_context, function, argument):  # noqa: ARG001 - the signature is numba's
    """Call the C function that is at an address, which takes one pointer and returns nothing."""

    def generate(context, builder, signature, arguments):  # noqa: ARG001
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [arguments[1]])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


_DEEP = 2**16  # bytes of stack: a deep call of Python's and the registers that a signal saves


@intrinsic
def overwrite_dead_stack(typing_context):  # noqa: ARG001 - the signature is numba's
    """Write zeros over the stack below this call, where calls that have returned left what they had."""

    def generate(context, builder, signature, arguments):  # noqa: ARG001
        octet, size = ir.IntType(8), ir.IntType(64)
        area = builder.alloca(octet, size=ir.Constant(size, _DEEP))
        memset = builder.module.declare_intrinsic("llvm.memset", [octet.as_pointer(), size])
        volatile = ir.Constant(ir.IntType(1), 1)  # written, although it is never read
        builder.call(memset, [area, ir.Constant(octet, 0), ir.Constant(size, _DEEP), volatile])
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def clear_vector_registers(typing_context):  # noqa: ARG001 - the signature is numba's
    """Put zeros into the registers that copies and loops of this thread worked with.

    Otherwise a thread that ends its work, or one that starts, pushes their content to its stack.
    """

    def generate(context, builder, signature, arguments):  # noqa: ARG001
        binding.initialize_native_asmparser()
        lines, named = _clearing()
        kind = ir.FunctionType(ir.VoidType(), [])
        changed = ",".join(f"~{{{register}}}" for register in named)
        builder.call(ir.InlineAsm(kind, "\n".join(lines), changed, side_effect=True), [])
        return context.get_dummy_value()

    return types.void(), generate


def _clearing():
    """The instructions of this processor that clear its vector and mask registers, and their names; none for others."""
    has = binding.get_host_cpu_features()
    if machine().lower() in ("x86_64", "amd64"):
        first, rest = [f"xmm{i}" for i in range(16)], [f"xmm{i}" for i in range(16, 32)]
        if has.get("avx512f"):
            masks = [f"k{i}" for i in range(8)]  # a comparison of bytes leaves 64 coins in one of them
            clear = [f"vpxord %z{name[1:]}, %z{name[1:]}, %z{name[1:]}" for name in rest]
            clear += [f"kxorw %{name}, %{name}, %{name}" for name in masks]
            return ["vzeroall", *clear], first + rest + masks
        return (["vzeroall"] if has.get("avx") else [f"xorps %{name}, %{name}" for name in first]), first
    if machine().lower() in ("aarch64", "arm64"):
        return [f"movi v{i}.2d, #0" for i in range(32)], [f"v{i}" for i in range(32)]
    return [], []


@njit(types.void(), nogil=True, cache=True)
def wipe_stack() -> None:
    """Overwrite the dead part of this thread's stack, and clear its vector registers.

    A signal saves all registers on the stack, and so do calls into libraries; after a copy of bits they hold bits.
    """
    overwrite_dead_stack()  # type: ignore[call-arg]
    clear_vector_registers()
