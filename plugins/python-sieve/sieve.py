"""SIEVE (Zhang et al., NSDI'24): entries stay in order of insertion; a hit only marks an entry; a hand
walks from the oldest to the newest, spares marked entries once and takes the first unmarked one.
Decides exactly as ../sieve does, in Rust.

Memory: four words a slot, so that more slots move nothing.

Invariant: the list holds exactly the resident slots, oldest first, and the hand is in it.
"""

from numba import njit

from memory import COUNTS, SLOTS, STATE, VICTIMS_MAX, fail, length, longs_at, reserve, text, words_at

# No slot: an end of the list.
NONE = 0xFFFFFFFF
# In COLDER of a slot that is not in the list.
UNLINKED = 0xFFFFFFFE

# Steps of the hand in one request for victims. A longer search goes on at the next request, the host
# fills the gap: so a cache in which everything was read cannot stall its shard.
STEPS_MAX = 1 << 16

# Words of the state.
COLDEST, HOTTEST, LENGTH, HAND, COUNT, DRAINED = range(6)
# Of these there are 64 bits.
STEPS, CUT_SHORT = range(2)
# Words of a slot.
COLDER, HOTTER, VISITED, ORDER = range(4)
WORDS = 4

ACCESS, INSERT, REMOVE, RESTORE, VICTIM_REFUSED, UPDATE = 0, 1, 2, 4, 8, 9


@njit(_nrt=False)
def start(max_slots):
    state = words_at(STATE)
    state[COLDEST] = NONE
    state[HOTTEST] = NONE
    state[HAND] = NONE
    resize(max_slots)


@njit(_nrt=False)
def resize(max_slots):
    """Makes room for slots below `max_slots`; never shrinks."""
    state = words_at(STATE)
    slots = words_at(SLOTS)
    reserve(SLOTS + max_slots * WORDS * 4)
    for slot in range(state[COUNT], max_slots):
        slots[slot * WORDS + COLDER] = UNLINKED
        slots[slot * WORDS + VISITED] = 0
    if max_slots > state[COUNT]:
        state[COUNT] = max_slots


@njit(_nrt=False)
def link(colder, slot, hotter):
    state = words_at(STATE)
    slots = words_at(SLOTS)
    slots[slot * WORDS + COLDER] = colder
    slots[slot * WORDS + HOTTER] = hotter
    if colder == NONE:
        state[COLDEST] = slot
    else:
        slots[colder * WORDS + HOTTER] = slot
    if hotter == NONE:
        state[HOTTEST] = slot
    else:
        slots[hotter * WORDS + COLDER] = slot
    state[LENGTH] += 1


@njit(_nrt=False)
def unlink(slot):
    state = words_at(STATE)
    slots = words_at(SLOTS)
    colder = slots[slot * WORDS + COLDER]
    if colder == UNLINKED:
        return
    hotter = slots[slot * WORDS + HOTTER]
    if colder == NONE:
        state[COLDEST] = hotter
    else:
        slots[colder * WORDS + HOTTER] = hotter
    if hotter == NONE:
        state[HOTTEST] = colder
    else:
        slots[hotter * WORDS + COLDER] = colder
    slots[slot * WORDS + COLDER] = UNLINKED
    state[LENGTH] -= 1


@njit(_nrt=False)
def leave(slot):
    state = words_at(STATE)
    if state[HAND] == slot:
        state[HAND] = words_at(SLOTS)[slot * WORDS + HOTTER]
    unlink(slot)


@njit(_nrt=False)
def put_back(slot):
    """Puts a victim back where the hand took it, so that it is the next candidate."""
    state = words_at(STATE)
    slots = words_at(SLOTS)
    if slots[slot * WORDS + COLDER] != UNLINKED:
        return
    slots[slot * WORDS + VISITED] = 0
    hand = state[HAND]
    if hand == NONE:
        link(state[HOTTEST], slot, NONE)
    else:
        link(slots[hand * WORDS + COLDER], slot, hand)
    state[HAND] = slot


@njit(_nrt=False)
def digest(event):
    slot = event & 0xFFFFFFFF
    if slot >= words_at(STATE)[COUNT]:
        fail(text("an event of a slot beyond the last"), length("an event of a slot beyond the last"))
    op = (event >> 32) & 0xF
    slots = words_at(SLOTS)
    if op == ACCESS or op == UPDATE:
        slots[slot * WORDS + VISITED] = 1
    elif op == INSERT or op == RESTORE:
        leave(slot)
        slots[slot * WORDS + VISITED] = 0
        link(words_at(STATE)[HOTTEST], slot, NONE)
    elif op == REMOVE:
        leave(slot)
    elif op == VICTIM_REFUSED:
        put_back(slot)


@njit(_nrt=False)
def after(slot):
    """Where the hand goes from a slot of the list: the next newer one, from the newest the oldest."""
    hotter = words_at(SLOTS)[slot * WORDS + HOTTER]
    return words_at(STATE)[COLDEST] if hotter == NONE else hotter


@njit(_nrt=False)
def where():
    """The slot at the hand; NONE when the list is empty."""
    state = words_at(STATE)
    return state[COLDEST] if state[HAND] == NONE else state[HAND]


@njit(_nrt=False)
def take_victims(want, victims):
    """Writes up to `want` victims and says how many."""
    state = words_at(STATE)
    slots = words_at(SLOTS)
    counts = longs_at(COUNTS)
    steps_left = STEPS_MAX
    found = 0
    while found < min(want, VICTIMS_MAX):
        at = where()
        if at == NONE:
            break
        while slots[at * WORDS + VISITED] != 0 and steps_left > 0:
            steps_left -= 1
            counts[STEPS] += 1
            slots[at * WORDS + VISITED] = 0
            at = after(at)
        if slots[at * WORDS + VISITED] != 0:
            state[HAND] = at
            counts[CUT_SHORT] += 1
            break
        state[HAND] = slots[at * WORDS + HOTTER]
        unlink(at)
        victims[found] = at
        found += 1
    return found


@njit(_nrt=False)
def fix_order():
    """What the hand would take if nothing were read: unmarked entries from the hand on, then the
    marked ones. Each is written into the slot of its place in the order."""
    state = words_at(STATE)
    slots = words_at(SLOTS)
    count = 0
    for visited in range(2):
        at = where()
        for _ in range(state[LENGTH]):
            if slots[at * WORDS + VISITED] == visited:
                slots[count * WORDS + ORDER] = at
                count += 1
            at = after(at)
    state[DRAINED] = count
