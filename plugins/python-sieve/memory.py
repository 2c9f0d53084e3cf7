"""Memory of the guest, as Numba compiles it: pointers, texts, and what the host is called for.

    0 .. 64 KiB      stack and constants; the linker holds them to that
    STATE .. ARENA   words of the policy, answers
    ARENA .. SLOTS   what the host hands over; empty again after each call
    SLOTS ..         16 bytes a slot, grown to what `resize` asks for
"""

import llvmlite.ir as ir
from numba import njit, types
from numba.extending import intrinsic

PAGE = 1 << 16
STATE = PAGE
COUNTS = STATE + 256
ANSWER = STATE + 512
FIGURES = STATE + 640
VICTIMS = STATE + 1024
VICTIMS_MAX = 1024
ERROR = VICTIMS + 4 * VICTIMS_MAX
ERROR_BYTES_MAX = 1024
ARENA = 2 * PAGE
SLOTS = 3 * PAGE

I32 = ir.IntType(32)
POINTER = ir.IntType(8).as_pointer()
# What is called by name: the host's log, and instructions that Numba knows nothing of.
EXTERNAL = {
    "host_log": ir.FunctionType(ir.VoidType(), [I32, POINTER, I32]),
    "memory_size": ir.FunctionType(I32, []),
    "memory_grow": ir.FunctionType(I32, [I32]),
    "trap": ir.FunctionType(ir.VoidType(), []),
}


def pointers(element):
    """A function from an address to a pointer of this type, which is indexed as an array is."""

    @intrinsic
    def at(typingctx, address):
        def generate(context, builder, signature, arguments):
            kind = context.get_value_type(signature.return_type)
            return builder.inttoptr(arguments[0], kind)

        return types.CPointer(element)(types.int64), generate

    return at


bytes_at = pointers(types.uint8)
words_at = pointers(types.uint32)
longs_at = pointers(types.int64)
doubles_at = pointers(types.float64)


def external(name, result, *arguments):
    """A function that calls one of EXTERNAL."""

    def generate(context, builder, signature, values):
        module = builder.module
        function = module.globals.get(name) or ir.Function(module, EXTERNAL[name], name)
        wanted = EXTERNAL[name].args
        cast = [
            builder.inttoptr(value, kind) if kind == POINTER else builder.trunc(value, kind)
            for value, kind in zip(values, wanted)
        ]
        answer = builder.call(function, cast)
        if result is types.void:
            return context.get_dummy_value()
        return builder.zext(answer, ir.IntType(64))

    # As many arguments as it takes; Numba looks at the parameters.
    if len(arguments) == 0:
        return intrinsic(lambda typingctx: (result(), generate))
    if len(arguments) == 1:
        return intrinsic(lambda typingctx, a: (result(*arguments), generate))
    return intrinsic(lambda typingctx, a, b, c: (result(*arguments), generate))


host_log = external("host_log", types.void, types.int64, types.int64, types.int64)
memory_size = external("memory_size", types.int64)
memory_grow = external("memory_grow", types.int64, types.int64)
trap = external("trap", types.void)


@intrinsic(prefer_literal=True)
def text(typingctx, words):
    """The address of a constant text."""
    if not isinstance(words, types.StringLiteral):
        return None
    content = words.literal_value.encode()

    def generate(context, builder, signature, arguments):
        place = context.insert_const_bytes(builder.module, content)
        return builder.ptrtoint(place, ir.IntType(64))

    return types.int64(words), generate


@intrinsic(prefer_literal=True)
def length(typingctx, words):
    """Bytes of a constant text."""
    if not isinstance(words, types.StringLiteral):
        return None
    count = len(words.literal_value.encode())
    return types.int64(words), lambda *_: ir.Constant(ir.IntType(64), count)


@njit(_nrt=False)
def fail(words, count):
    """Ends the instance; the host keeps the last error line for its record."""
    host_log(4, words, count)
    trap()


@njit(_nrt=False)
def reserve(end):
    """Makes sure that memory goes up to `end`."""
    missing = (end + PAGE - 1) // PAGE - memory_size()
    if missing > 0 and memory_grow(missing) == 0xFFFFFFFF:
        fail(text("out of memory"), length("out of memory"))


@njit(_nrt=False)
def put(at, start, count):
    """Writes the two words of a text or list."""
    words = words_at(at)
    words[0] = start
    words[1] = count
