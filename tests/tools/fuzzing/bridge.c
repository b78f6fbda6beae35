/* From gcc's coverage to libFuzzer's: gcc calls a function in every basic block, libFuzzer reads arrays of counters.
 *
 * Each place of the code gets a counter of its own in a table that libFuzzer is told of. Without libFuzzer the counters
 * are read by tests.tools.fuzzing.measure.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SLOTS (1 << 17)

static uint8_t counters[SLOTS];
static uintptr_t places[SLOTS];
/* libFuzzer wants to know which place of the code a counter is for, and whether it is the first of a function. */
static struct { uintptr_t place, flags; } table[SLOTS];

void __sanitizer_cov_trace_pc(void) {
    uintptr_t place = (uintptr_t)__builtin_return_address(0);
    size_t slot = (place * 0x9E3779B97F4A7C15ull) >> 47;
    while (places[slot] != place) {
        if (!places[slot]) { places[slot] = place; break; }
        slot = (slot + 1) % SLOTS;
    }
    counters[slot]++;
}

size_t bridge_slots(void) { return SLOTS; }
uint8_t *bridge_counters(void) { return counters; }
void bridge_reset(void) { memset(counters, 0, sizeof counters); }

void bridge_connect(void (*counters_init)(uint8_t *, uint8_t *), void (*table_init)(const uintptr_t *, const uintptr_t *)) {
    for (size_t i = 0; i < SLOTS; i++) { table[i].place = 16 * (i + 1); table[i].flags = 0; }
    counters_init(counters, counters + SLOTS);
    table_init((const uintptr_t *)table, (const uintptr_t *)(table + SLOTS));
}

#define NOTHING(name, type) void name(type a, type b) { (void)a; (void)b; }
/* libFuzzer makes nothing of comparisons of floating point numbers. */
NOTHING(__sanitizer_cov_trace_cmpf, float) NOTHING(__sanitizer_cov_trace_cmpd, double)
#ifdef ALONE  /* It has the functions for all others; without it they have to be somewhere. */
NOTHING(__sanitizer_cov_trace_cmp1, uint8_t) NOTHING(__sanitizer_cov_trace_cmp2, uint16_t)
NOTHING(__sanitizer_cov_trace_cmp4, uint32_t) NOTHING(__sanitizer_cov_trace_cmp8, uint64_t)
NOTHING(__sanitizer_cov_trace_const_cmp1, uint8_t) NOTHING(__sanitizer_cov_trace_const_cmp2, uint16_t)
NOTHING(__sanitizer_cov_trace_const_cmp4, uint32_t) NOTHING(__sanitizer_cov_trace_const_cmp8, uint64_t)
void __sanitizer_cov_trace_switch(uint64_t value, void *cases) { (void)value; (void)cases; }
#endif
