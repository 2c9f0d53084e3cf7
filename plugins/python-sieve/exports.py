"""What the world `eviction-policy` exports: names and core signatures of the canonical ABI."""

from numba import njit, types

from memory import (
    ANSWER,
    ARENA,
    COUNTS,
    ERROR,
    ERROR_BYTES_MAX,
    FIGURES,
    SLOTS,
    STATE,
    VICTIMS,
    VICTIMS_MAX,
    bytes_at,
    doubles_at,
    fail,
    length,
    longs_at,
    put,
    reserve,
    text,
    words_at,
)
from sieve import (
    COUNT,
    CUT_SHORT,
    DRAINED,
    LENGTH,
    ORDER,
    STEPS,
    WORDS,
    digest,
    fix_order,
    resize,
    start,
    take_victims,
)

LIFECYCLE = "tidegate:policy/lifecycle@0.1.0#"
EVICTION = "tidegate:policy/eviction@0.1.0#"
# A word of the state: bytes of the arena that are taken.
TAKEN = 16
# Bytes a slot, of the claim that the host checks.
SLOT_BYTES = 16

i32, i64, void = types.uint32, types.uint64, types.void
EXPORTS = []


def export(name, signature):
    """Marks a function as an export of the component."""

    def mark(function):
        EXPORTS.append((name, signature, function))
        return function

    return mark


@export("cabi_realloc", i32(i32, i32, i32, i32))
def cabi_realloc(old, old_size, align, size):
    # The first call comes before `init`.
    reserve(SLOTS)
    state = words_at(STATE)
    start_at = (ARENA + state[TAKEN] + align - 1) & (0 - align)
    if start_at + size > SLOTS:
        fail(text("more came in than 64 KiB"), length("more came in than 64 KiB"))
    state[TAKEN] = start_at + size - ARENA
    source = bytes_at(old)
    target = bytes_at(start_at)
    for at in range(min(old_size, size)):
        target[at] = source[at]
    return start_at


@njit(_nrt=False)
def done():
    """What came in was read."""
    words_at(STATE)[TAKEN] = 0


@njit(_nrt=False)
def append(at, source, count):
    """Appends to the text of an error, as far as there is room."""
    count = min(count, ERROR_BYTES_MAX - at)
    target = bytes_at(ERROR + at)
    found = bytes_at(source)
    for place in range(count):
        target[place] = found[place]
    return at + count


@njit(_nrt=False)
def refuse(count):
    """An answer that is the text at ERROR."""
    bytes_at(ANSWER)[0] = 1
    put(ANSWER + 4, ERROR, count)
    return ANSWER


@export(LIFECYCLE + "init", i32(i32, i32, i32, i32, i64))
def init(params, count, max_slots, shard, seed):
    reserve(SLOTS)
    if count > 0:
        name = words_at(params)
        size = append(0, text("unknown parameter '"), length("unknown parameter '"))
        size = append(size, name[0], name[1])
        size = append(size, text("'; this policy has none"), length("'; this policy has none"))
        done()
        return refuse(size)
    start(max_slots)
    # The record `caps`, behind the case of the result.
    flags = bytes_at(ANSWER)
    flags[0] = 0
    flags[4] = 0
    put(ANSWER + 8, text("python-sieve"), length("python-sieve"))
    put(ANSWER + 16, text("0.1.0"), length("0.1.0"))
    # Deterministic; no MISS events.
    flags[24] = 1
    flags[25] = 0
    words = words_at(ANSWER + 28)
    # No ticks, no snapshot.
    words[0] = 0
    words[1] = 0
    words[2] = SLOT_BYTES
    return ANSWER


@export(LIFECYCLE + "tick", void(i64))
def tick(now_us):
    pass


@export(LIFECYCLE + "snapshot", i32())
def snapshot():
    put(ANSWER, 0, 0)
    return ANSWER


@export(LIFECYCLE + "restore", i32(i32, i32, i32))
def restore(schema, state, count):
    done()
    return refuse(append(0, text("it keeps no state"), length("it keeps no state")))


@export(LIFECYCLE + "metrics", i32())
def metrics():
    counts = longs_at(COUNTS)
    put(FIGURES, text("resident"), length("resident"))
    doubles_at(FIGURES + 8)[0] = words_at(STATE)[LENGTH]
    put(FIGURES + 16, text("hand_steps"), length("hand_steps"))
    doubles_at(FIGURES + 24)[0] = counts[STEPS]
    put(FIGURES + 32, text("searches_cut_short"), length("searches_cut_short"))
    doubles_at(FIGURES + 40)[0] = counts[CUT_SHORT]
    put(ANSWER, FIGURES, 3)
    return ANSWER


@export(LIFECYCLE + "fini", void())
def fini():
    pass


@export(EVICTION + "apply", i32(i32, i32, i32, i32, i32, i64))
def apply(events, count, attrs, attr_count, want_entries, want_bytes):
    words = longs_at(events)
    for at in range(count):
        digest(words[at])
    done()
    put(ANSWER, VICTIMS, take_victims(want_entries, words_at(VICTIMS)))
    return ANSWER


@export(EVICTION + "drain-order", i32(i32, i32))
def drain_order(cursor, limit):
    if cursor == 0:
        fix_order()
    slots = words_at(SLOTS)
    victims = words_at(VICTIMS)
    left = max(0, words_at(STATE)[DRAINED] - cursor)
    count = min(left, limit, VICTIMS_MAX)
    for at in range(count):
        victims[at] = slots[(cursor + at) * WORDS + ORDER]
    put(ANSWER, VICTIMS, count)
    return ANSWER


@export(EVICTION + "resize", void(i64, i32))
def resized(capacity_bytes, max_slots):
    resize(max_slots)
