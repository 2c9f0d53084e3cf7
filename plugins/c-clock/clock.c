// CLOCK, the second chance, in C: entries stay in order of insertion, a read marks an entry, and a
// marked entry at the head of the queue goes back to its end without the mark instead of leaving.
//
// Source: F. J. Corbató, "A Paging Experiment with the Multics System", MIT Project MAC report
// MAC-M-384, 1968. Decides exactly as ../clock does, in Rust.
//
// Memory: 9 bytes a slot for two links and the mark, 4 more for the order while it is drained.
//
// Invariant: the list holds exactly the resident slots; the hand is at its cold end.

#include <stdlib.h>
#include <string.h>

#include "eviction_policy.h"

// Events, as the contract (wit/v0.1/eviction.wit) has them.
enum op { ACCESS = 0, INSERT = 1, REMOVE = 2, RESTORE = 4, VICTIM_REFUSED = 8, UPDATE = 9 };

// No slot: an end of the list.
static const uint32_t NONE = UINT32_MAX;
// In `colder` of a slot that is not in the list.
static const uint32_t UNLINKED = UINT32_MAX - 1;

// Second chances in one request for victims. A longer search goes on at the next request, the host
// fills the gap: so a cache in which everything was read cannot stall its shard.
static const uint32_t STEPS_MAX = 1 << 15;

static struct {
    // Arrays indexed by slot.
    uint32_t *colder, *hotter;
    uint8_t *marked;
    uint32_t slots;
    uint32_t coldest, hottest, length;
    // The order that `drain-order` pages through, fixed at cursor 0.
    uint32_t *drained;
    uint32_t drained_length;
    uint64_t second_chances, cut_short;
} clock_of = {.coldest = UINT32_MAX, .hottest = UINT32_MAX};

// The host keeps the last error line for the record of the failure.
static _Noreturn void fail(const char *why) {
    eviction_policy_string_t line;
    eviction_policy_string_set(&line, why);
    tidegate_policy_host_log(4, &line);
    __builtin_trap();
}

static void *grown(void *old, size_t bytes) {
    void *memory = realloc(old, bytes > 0 ? bytes : 1);
    if (memory == NULL) fail("out of memory");
    return memory;
}

static bool contains(uint32_t slot) {
    return clock_of.colder[slot] != UNLINKED;
}

static void link_between(uint32_t colder, uint32_t slot, uint32_t hotter) {
    clock_of.colder[slot] = colder;
    clock_of.hotter[slot] = hotter;
    *(colder == NONE ? &clock_of.coldest : &clock_of.hotter[colder]) = slot;
    *(hotter == NONE ? &clock_of.hottest : &clock_of.colder[hotter]) = slot;
    clock_of.length++;
}

static void unlink_slot(uint32_t slot) {
    if (!contains(slot)) return;
    uint32_t colder = clock_of.colder[slot], hotter = clock_of.hotter[slot];
    *(colder == NONE ? &clock_of.coldest : &clock_of.hotter[colder]) = hotter;
    *(hotter == NONE ? &clock_of.hottest : &clock_of.colder[hotter]) = colder;
    clock_of.colder[slot] = UNLINKED;
    clock_of.length--;
}

static void digest(uint64_t event) {
    uint32_t slot = (uint32_t)event;
    if (slot >= clock_of.slots) fail("an event of a slot that was never announced");
    switch ((event >> 32) & 0xF) {
    case ACCESS:
    case UPDATE:
        clock_of.marked[slot] = 1;
        break;
    case INSERT:
    case RESTORE:
        unlink_slot(slot);
        clock_of.marked[slot] = 0;
        link_between(clock_of.hottest, slot, NONE);
        break;
    case REMOVE:
        unlink_slot(slot);
        break;
    case VICTIM_REFUSED:
        if (contains(slot)) break;
        clock_of.marked[slot] = 0;
        link_between(NONE, slot, clock_of.coldest);
        break;
    default: // MISS, PIN, RESIZE, and what a later host may send.
        break;
    }
}

// The slot that leaves, or NONE: there is none, or the search was long enough for once.
static uint32_t next_victim(uint32_t *steps_left) {
    for (;;) {
        uint32_t slot = clock_of.coldest;
        if (slot == NONE) return NONE;
        if (!clock_of.marked[slot]) {
            unlink_slot(slot);
            return slot;
        }
        if (*steps_left == 0) {
            clock_of.cut_short++;
            return NONE;
        }
        --*steps_left;
        clock_of.second_chances++;
        clock_of.marked[slot] = 0;
        unlink_slot(slot);
        link_between(clock_of.hottest, slot, NONE);
    }
}

void exports_tidegate_policy_eviction_apply(eviction_policy_list_u64_t *events,
                                            eviction_policy_list_u64_t *attrs,
                                            uint32_t want_entries, uint64_t want_bytes,
                                            eviction_policy_list_u32_t *ret) {
    for (size_t at = 0; at < events->len; at++) digest(events->ptr[at]);
    eviction_policy_list_u64_free(events);
    eviction_policy_list_u64_free(attrs);
    ret->ptr = NULL;
    ret->len = 0;
    if (want_entries == 0) return;
    uint32_t most = want_entries < clock_of.length ? want_entries : clock_of.length;
    uint32_t steps_left = STEPS_MAX;
    ret->ptr = grown(NULL, most * sizeof(uint32_t));
    while (ret->len < most) {
        uint32_t victim = next_victim(&steps_left);
        if (victim == NONE) break;
        ret->ptr[ret->len++] = victim;
    }
    if (ret->len == 0) {
        free(ret->ptr);
        ret->ptr = NULL;
    }
}

// What the hand would take if nothing were read: unmarked entries, then the marked ones.
static void fix_order(void) {
    clock_of.drained = grown(clock_of.drained, clock_of.length * sizeof(uint32_t));
    clock_of.drained_length = 0;
    for (int marked = 0; marked <= 1; marked++) {
        for (uint32_t slot = clock_of.coldest; slot != NONE; slot = clock_of.hotter[slot]) {
            if (clock_of.marked[slot] == marked) {
                clock_of.drained[clock_of.drained_length++] = slot;
            }
        }
    }
}

void exports_tidegate_policy_eviction_drain_order(uint32_t cursor, uint32_t max,
                                                  eviction_policy_list_u32_t *ret) {
    if (cursor == 0) fix_order();
    uint32_t left = cursor < clock_of.drained_length ? clock_of.drained_length - cursor : 0;
    ret->ptr = NULL;
    ret->len = left < max ? left : max;
    if (ret->len == 0) {
        free(clock_of.drained);
        clock_of.drained = NULL;
        clock_of.drained_length = 0;
        return;
    }
    ret->ptr = grown(NULL, ret->len * sizeof(uint32_t));
    memcpy(ret->ptr, clock_of.drained + cursor, ret->len * sizeof(uint32_t));
}

void exports_tidegate_policy_eviction_resize(uint64_t capacity_bytes, uint32_t max_slots) {
    if (max_slots <= clock_of.slots) return;
    clock_of.colder = grown(clock_of.colder, max_slots * sizeof(uint32_t));
    clock_of.hotter = grown(clock_of.hotter, max_slots * sizeof(uint32_t));
    clock_of.marked = grown(clock_of.marked, max_slots);
    for (uint32_t slot = clock_of.slots; slot < max_slots; slot++) {
        clock_of.colder[slot] = UNLINKED;
        clock_of.marked[slot] = 0;
    }
    clock_of.slots = max_slots;
}

bool exports_tidegate_policy_lifecycle_init(exports_tidegate_policy_lifecycle_list_param_t *params,
                                            uint32_t max_slots, uint32_t shard, uint64_t seed,
                                            exports_tidegate_policy_lifecycle_caps_t *ret,
                                            eviction_policy_string_t *err) {
    if (params->len > 0) {
        static const char before[] = "unknown parameter '", after[] = "'; this policy has none";
        eviction_policy_string_t name = params->ptr[0].name;
        err->len = sizeof before - 1 + name.len + sizeof after - 1;
        err->ptr = grown(NULL, err->len);
        memcpy(err->ptr, before, sizeof before - 1);
        memcpy(err->ptr + sizeof before - 1, name.ptr, name.len);
        memcpy(err->ptr + sizeof before - 1 + name.len, after, sizeof after - 1);
        return false;
    }
    exports_tidegate_policy_lifecycle_list_param_free(params);
    exports_tidegate_policy_eviction_resize(0, max_slots);
    ret->hook = EXPORTS_TIDEGATE_POLICY_LIFECYCLE_HOOK_EVICTION;
    // The bindings free what is returned.
    eviction_policy_string_dup(&ret->name, "c-clock");
    eviction_policy_string_dup(&ret->version, "0.1.0");
    ret->deterministic = true;
    ret->wants_miss_events = false;
    ret->wants_ticks_ms = 0;
    ret->state_schema = 0;
    ret->bytes_per_slot = 13;
    return true;
}

void exports_tidegate_policy_lifecycle_metrics(
    exports_tidegate_policy_lifecycle_list_metric_t *ret) {
    const struct {
        const char *name;
        double value;
    } figures[] = {{"resident", clock_of.length},
                   {"second_chances", (double)clock_of.second_chances},
                   {"searches_cut_short", (double)clock_of.cut_short}};
    ret->len = sizeof figures / sizeof figures[0];
    ret->ptr = grown(NULL, ret->len * sizeof *ret->ptr);
    for (size_t at = 0; at < ret->len; at++) {
        eviction_policy_string_dup(&ret->ptr[at].name, figures[at].name);
        ret->ptr[at].value = figures[at].value;
    }
}

void exports_tidegate_policy_lifecycle_tick(uint64_t now_us) {
}

void exports_tidegate_policy_lifecycle_snapshot(eviction_policy_list_u8_t *ret) {
    ret->ptr = NULL;
    ret->len = 0;
}

bool exports_tidegate_policy_lifecycle_restore(uint32_t schema, eviction_policy_list_u8_t *state,
                                               eviction_policy_string_t *err) {
    eviction_policy_list_u8_free(state);
    eviction_policy_string_dup(err, "c-clock keeps no state, so there is none to restore");
    return false;
}

void exports_tidegate_policy_lifecycle_fini(void) {
}
