/* Random calls with bad arguments: each answers a code, and no call crashes. BAD_CALLS says how many.
 *
 * Pointers are null, unaligned, or lead to memory of the size that the call says. Counts are small or impossible.
 * Handles are null, live, of another type, none at all or, unless BAD_FREED is 0, freed; freed memory stays mapped. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <malloc.h>

#define HANDLES 24
#define KINDS 7

enum { FIREWALL, WORKER, UPDATE, LAYOUT, TABLE, ERROR, TEXT };

static uint64_t state = 11;
static void *handles[HANDLES];
/* Live handles by type, so that good calls come, too. */
static void *live[KINDS];
static int with_freed = 1;
/* One of this many builds is done, because a build takes as long as thousands of other calls. */
static unsigned builds = 4;
static _Alignas(64) uint8_t zeros[4096], out[1 << 16];
static uint8_t frame_bytes[FRAME];
static firstmatch_slice slices[64];
static const uint8_t *pointers[64];
static uint32_t lengths[64], rows[64 * 8 + 4];
static firstmatch_test tests[4];
static firstmatch_condition conditions[4];
static firstmatch_range ranges[2];

static unsigned below(unsigned bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % bound;
}

/* Returns a handle: mostly a live one of the type, otherwise anything. */
static void *handle(int kind) {
    if (below(4)) return live[kind];
    switch (below(6)) {
    case 0: return NULL;
    case 1: return zeros + 64;
    case 2: return zeros + 1;
    case 3: return live[below(KINDS)];
    default: return handles[below(HANDLES)];
    }
}

/* Returns memory for results, or a pointer that leads to none. */
static void *place(void) { return below(5) ? out : below(2) ? NULL : (void *)(out + 1 + below(3)); }

/* Returns memory of the caller's that is read. */
static const void *from(const void *memory) {
    return below(6) ? memory : below(2) ? NULL : (const void *)((const uint8_t *)memory + 1);
}

static size_t count(void) {
    static const size_t counts[] = {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 8 + 1, SIZE_MAX - 7};
    return below(5) ? below(33) : counts[below(4)];
}

static uint32_t number(void) { return below(3) ? below(8) : (uint32_t)(state >> 16); }

static uint64_t rule_id(void) {
    switch (below(4)) {
    case 0: return FIRSTMATCH_OPERATION(below(4));
    case 1: return state;
    default: return below(12);
    }
}

/* Returns the place for a new handle, or none. */
static void *new_place(void **made) {
    *made = NULL;
    return below(8) ? (void *)made : NULL;
}

/* Keeps a new handle: as the live one of its type if there is none, otherwise it is freed at once. */
static int32_t keep(int kind, void **from_call, int32_t code, int32_t (*drop)(void *)) {
    void *made = *from_call;
    CHECK(code == FIRSTMATCH_OK || made == NULL);
    if (made == NULL) return code;
    if (live[kind] == NULL || below(3)) {
        void *old = live[kind];
        live[kind] = made;
        made = old;
    }
    if (made != NULL) {
        OK(drop(made));
        if (with_freed) handles[below(HANDLES)] = made;
    }
    return code;
}

static int32_t drop_firewall(void *of) { return firstmatch_firewall_release(of); }
static int32_t drop_worker(void *of) { return firstmatch_worker_free(of); }
static int32_t drop_update(void *of) { return firstmatch_update_free(of); }
static int32_t drop_layout(void *of) { return firstmatch_layout_free(of); }
static int32_t drop_table(void *of) { return firstmatch_table_free(of); }
static int32_t drop_error(void *of) { return firstmatch_error_free(of); }
static int32_t drop_text(void *of) { return firstmatch_text_free(of); }

static const firstmatch_options *options(void) {
    static firstmatch_options made;
    memset(&made, 0, sizeof made);
    made.size = below(8) ? sizeof made : below(sizeof made + 1);
    made.flags = FIRSTMATCH_REBUILD_BY_CALLER | (below(3) ? 0 : number());
    made.memory_limit = below(4) ? 0 : below(2) ? 64 : state;
    made.regions_per_rule = below(4) ? 0 : below(9);
    made.engine = below(3) ? "linear" : below(2) ? "bit_select" : "\xFF?";
    return from(&made);
}

static const char *text(size_t *length) {
    static const char *const texts[] = {"permit",
                                        "deny tcp dport 23\npermit\n",
                                        "deny tpc",
                                        "",
                                        "permit src 300.0.0.0/8",
                                        "family ipv4\npermit udp",
                                        "deny \xFF\xFE",
                                        "default permit\n\n",
                                        "deny dport { 1, 3, 5 }"};
    const char *made = texts[below(9)];
    *length = below(9) ? strlen(made) : below((unsigned)strlen(made) + 1);
    if (below(30) == 0) *length = SIZE_MAX - below(9);
    return below(9) ? made : NULL;
}

static const firstmatch_rule *rule(void) {
    static firstmatch_rule made;
    memset(&made, 0, sizeof made);
    made.size = below(9) ? sizeof made : below(sizeof made + 1);
    made.value = state;
    if (below(2)) {
        made.text = text(&made.text_length);
        made.action = below(6) ? 0 : number();
    } else {
        static const char *const names[] = {"dport", "src", "proto", "none", "a", "\xFF", NULL};
        for (int at = 0; at < 4; at++) {
            tests[at].kind = number();
            tests[at].family = below(3) ? 0 : below(3) * 2;
            tests[at].first.low = below(3) ? below(70000) : state;
            tests[at].first.high = below(9) ? 0 : state;
            tests[at].second.low = below(3) ? below(40) : state;
            tests[at].second.high = below(9) ? 0 : state;
            conditions[at].field = names[below(7)];
            conditions[at].tests = from(tests);
            conditions[at].count = below(9) ? below(5) : SIZE_MAX;
            conditions[at].negated = below(9) ? below(2) : number();
            conditions[at].reserved = below(9) == 0;
        }
        made.action = number();
        made.mark = number();
        made.family = below(3) ? 0 : number();
        made.conditions = from(conditions);
        made.condition_count = below(9) ? below(4) : SIZE_MAX;
    }
    return from(&made);
}

static const firstmatch_entry *entry(void) {
    static firstmatch_entry made;
    memset(&made, 0, sizeof made);
    made.size = below(9) ? sizeof made : below(sizeof made + 1);
    made.priority = number();
    made.key = from(zeros);
    made.mask = below(3) ? from(zeros) : from(frame_bytes);
    for (int at = 0; at < 2; at++) {
        ranges[at].field = below(5);
        ranges[at].first.low = below(70000);
        ranges[at].last.low = below(70000);
    }
    made.ranges = from(ranges);
    made.range_count = below(9) ? below(3) : SIZE_MAX;
    return from(&made);
}

static void no_release_schema(struct ArrowSchema *schema) { schema->release = NULL; }
static void no_release_array(struct ArrowArray *array) { array->release = NULL; }

/* Decides a column of empty frames, or what is none. */
static int32_t arrow(firstmatch_error **told) {
    static const char *const formats[] = {"z", "Z", "+s", "S", "w:4", "", NULL, "\xFF"};
    static const int64_t lengths_of[] = {0, 1, 5, -1, INT64_MAX}, counts[] = {0, 1, 3, 3, -1};
    firstmatch_arrow_options some = {below(9) ? (uint32_t)sizeof some : below(99) & 15, below(3) ? 0 : number(),
                                     below(3) ? 0 : number(), below(9) == 0};
    const void *buffers[3];
    struct ArrowSchema schema, made_schema;
    struct ArrowArray array, made;
    int32_t code;
    memset(&schema, 0, sizeof schema);
    memset(&array, 0, sizeof array);
    for (int at = 0; at < 3; at++) buffers[at] = from(zeros);
    schema.format = formats[below(8)];
    schema.release = below(9) ? no_release_schema : NULL;
    array.release = below(9) ? no_release_array : NULL;
    array.length = lengths_of[below(5)];
    array.offset = lengths_of[below(5)];
    array.null_count = (int64_t)below(3) - 1;
    array.n_buffers = counts[below(5)];
    array.buffers = below(9) ? buffers : NULL;
    schema.n_children = counts[below(5)];
    array.n_children = below(3) ? schema.n_children : counts[below(5)];
    code = firstmatch_classify_arrow(handle(WORKER), from(&schema), from(&array), below(2) ? NULL : from(&some),
                                     below(9) ? &made_schema : NULL, below(9) ? &made : NULL, told);
    if (code == FIRSTMATCH_OK) made_schema.release(&made_schema), made.release(&made);
    return code;
}

static int32_t call(void) {
    static const firstmatch_table_field fields[3] = {{"a", 16, 0}, {"b", 12, 2}, {"c", 3, 9}};
    static const firstmatch_place places[5] = {
        {"src", 0, 1, 0}, {"dst", 4, 1, 0}, {"sport", 8, 1, 0}, {"dport", 10, 1, 0}, {"proto", 12, 0, 0}};
    void *made = NULL, *error = NULL;
    firstmatch_error **told = below(3) ? NULL : (firstmatch_error **)&error;
    size_t length;
    const char *letters;
    int32_t code = FIRSTMATCH_INVALID_ARGUMENT;
    switch (below(46)) {
    case 0:
        if (live[FIREWALL] != NULL && below(builds)) break;
        letters = text(&length);
        code = firstmatch_firewall_from_text(letters, length, options(), new_place(&made), told);
        code = keep(FIREWALL, &made, code, drop_firewall);
        break;
    case 1:
        if (below(builds)) break;
        letters = text(&length);
        code = firstmatch_firewall_from_rules(letters, length, rule(), below(9) ? sizeof(firstmatch_rule) : count(),
                                              below(9) ? below(2) : SIZE_MAX, options(), new_place(&made), told);
        code = keep(FIREWALL, &made, code, drop_firewall);
        break;
    case 2:
        if (below(builds)) break;
        code = firstmatch_firewall_from_table(handle(TABLE), options(), new_place(&made), told);
        code = keep(FIREWALL, &made, code, drop_firewall);
        break;
    case 3: code = keep(WORKER, &made, firstmatch_worker_new(handle(FIREWALL), new_place(&made)), drop_worker); break;
    case 4: code = keep(UPDATE, &made, firstmatch_update_new(new_place(&made)), drop_update); break;
    case 5:
        code = firstmatch_layout_new(handle(FIREWALL), below(3), from(places),
                                     below(9) ? below(6) : SIZE_MAX - below(99), new_place(&made), told);
        code = keep(LAYOUT, &made, code, drop_layout);
        break;
    case 6:
        code = firstmatch_layout_of_keys(handle(FIREWALL), below(3), new_place(&made), told);
        code = keep(LAYOUT, &made, code, drop_layout);
        break;
    case 7:
        code = firstmatch_table_new(from(fields), below(9) ? below(4) : SIZE_MAX - below(99), new_place(&made), told);
        code = keep(TABLE, &made, code, drop_table);
        break;
    case 8:
        code = firstmatch_explain(handle(FIREWALL), number(), from(frame_bytes), below(9) ? below(FRAME) : SIZE_MAX,
                                  place(), new_place(&made));
        code = keep(TEXT, &made, code, drop_text);
        break;
    case 9:
        code = keep(TEXT, &made, firstmatch_rule_text(handle(FIREWALL), rule_id(), new_place(&made)), drop_text);
        break;
    case 10:
        code = keep(TEXT, &made, firstmatch_firewall_warnings(handle(FIREWALL), new_place(&made)), drop_text);
        break;
    case 11:
        code = keep(TEXT, &made, firstmatch_firewall_engines(handle(FIREWALL), new_place(&made)), drop_text);
        break;
    case 12: code = firstmatch_options_init(place(), below(5) ? below(200) : count()); break;
    case 13:
        letters = text(&length);
        code = firstmatch_rule_from_text(place(), below(5) ? sizeof(firstmatch_rule) : count(), letters, length);
        break;
    case 14:
    case 15:
    case 16:
        code = firstmatch_classify_frames(handle(WORKER), below(3) ? 1 : number(), from(slices),
                                          below(2) ? NULL : from(lengths), count(), place());
        break;
    case 17: code = firstmatch_classify_headers(handle(WORKER), from(pointers), from(lengths), count(), place()); break;
    case 18:
        code = firstmatch_classify_records(handle(WORKER), handle(LAYOUT), below(5) ? zeros : NULL,
                                           below(5) ? below(40) : SIZE_MAX - below(9), below(2) ? NULL : from(lengths),
                                           count(), place());
        break;
    case 19:
        code = firstmatch_classify_record_pointers(handle(WORKER), handle(LAYOUT), from(pointers),
                                                   below(2) ? NULL : from(lengths), count(), place());
        break;
    case 20:
        code = firstmatch_classify_rows(handle(WORKER), below(3),
                                        from((uint32_t *)(((uintptr_t)rows + 15) & ~(uintptr_t)15)),
                                        below(2) ? NULL : from(lengths), count(), place());
        break;
    case 21: code = firstmatch_worker_generation(handle(WORKER), place()); break;
    case 22: code = firstmatch_worker_outcome_count(handle(WORKER), number(), place()); break;
    case 23: code = firstmatch_update_insert_before(handle(UPDATE), rule_id(), rule()); break;
    case 24: code = firstmatch_update_insert_after(handle(UPDATE), rule_id(), rule()); break;
    case 25: code = firstmatch_update_prepend(handle(UPDATE), rule()); break;
    case 26: code = firstmatch_update_append(handle(UPDATE), rule()); break;
    case 27: code = firstmatch_update_insert_at(handle(UPDATE), below(2) ? state : below(9), rule()); break;
    case 28: code = firstmatch_update_remove(handle(UPDATE), rule_id()); break;
    case 29: code = firstmatch_update_replace(handle(UPDATE), rule_id(), rule()); break;
    case 30:
        code = below(3) ? firstmatch_update_clear(handle(UPDATE)) : firstmatch_update_count(handle(UPDATE), place());
        break;
    case 31:
        code = firstmatch_update_commit(handle(UPDATE), handle(FIREWALL), below(3) ? below(2) : number(), place(),
                                        below(5) ? 4096 : below(3), below(2) ? NULL : place(), told);
        if (code == FIRSTMATCH_OK || below(2)) break;
        firstmatch_update_clear(live[UPDATE]);
        break;
    case 32: code = firstmatch_firewall_rule_count(handle(FIREWALL), place()); break;
    case 33: code = firstmatch_firewall_generation(handle(FIREWALL), place()); break;
    case 34: code = firstmatch_firewall_rules(handle(FIREWALL), place(), count(), place()); break;
    case 35: code = firstmatch_firewall_counts(handle(FIREWALL), from(zeros), count(), place()); break;
    case 36:
        code = firstmatch_firewall_stats(handle(FIREWALL), below(3), place(), below(5) ? below(100) : count());
        break;
    case 37:
        code = below(99) ? firstmatch_firewall_renumber(handle(FIREWALL), told)
                         : firstmatch_firewall_rebuild(handle(FIREWALL), told);
        break;
    case 38: code = firstmatch_firewall_schema_count(handle(FIREWALL), place()); break;
    case 39:
        code = firstmatch_firewall_schema(handle(FIREWALL), below(3), place(), below(5) ? below(100) : count());
        break;
    case 40:
        code =
            firstmatch_firewall_field(handle(FIREWALL), below(3), below(9), place(), below(5) ? below(100) : count());
        break;
    case 41:
        code = below(2) ? firstmatch_layout_bytes(handle(LAYOUT), place())
                        : firstmatch_table_key_bytes(handle(TABLE), place());
        break;
    case 42: code = firstmatch_table_add(handle(TABLE), entry(), below(2) ? NULL : place(), told); break;
    case 43:
    case 44: code = arrow(told); break;
    default: {
        const firstmatch_error *some = handle(ERROR);
        const firstmatch_text *other = handle(TEXT);
        code = firstmatch_error_code(some);
        CHECK(firstmatch_status_name(code) != NULL);
        CHECK((firstmatch_text_bytes(other) != NULL) || firstmatch_text_length(other) == 0);
        CHECK((firstmatch_error_message(some) != NULL) || firstmatch_error_line(some) == 0);
        CHECK(firstmatch_error_operation(some) != 0 || firstmatch_error_message(some) != NULL);
        if (below(4)) {
            code = firstmatch_error_fault_at(some, below(3), place());
            CHECK(code != FIRSTMATCH_OK || firstmatch_error_fault_count(some) > 0);
        }
    }
    }
    CHECK(error == NULL || code != FIRSTMATCH_OK);
    if (error != NULL) keep(ERROR, &error, FIRSTMATCH_OK, drop_error);
    return code;
}

int main(void) {
    const char *wanted = getenv("BAD_CALLS"), *freed = getenv("BAD_FREED");
    long calls = wanted ? atol(wanted) : 30000, seen[10] = {0};
    int32_t (*const drops[KINDS])(void *) = {drop_firewall, drop_worker, drop_update, drop_layout,
                                             drop_table,    drop_error,  drop_text};
    if (calls > 1000000) builds = 40;
    with_freed = freed == NULL || atoi(freed);
    /* Freed memory stays mapped. */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    tcp_frame(frame_bytes, 23);
    for (int at = 0; at < 64; at++) {
        slices[at].bytes = at == 20 ? NULL : frame_bytes;
        slices[at].length = at == 25 ? SIZE_MAX : FRAME;
        pointers[at] = at == 28 ? NULL : frame_bytes;
        lengths[at] = at == 30 ? 20 : FRAME;
    }
    for (long at = 0; at < calls; at++) {
        int32_t code = call();
        CHECK(code <= 0 && code > -10 && code != FIRSTMATCH_INTERNAL);
        seen[-code]++;
    }
    printf("%ld calls:", calls);
    for (int at = 0; at < 10; at++)
        if (seen[at]) printf(" %s %ld", firstmatch_status_name(-at), seen[at]);
    printf("\n");
    if (calls >= 30000) CHECK(seen[0] && seen[1] && seen[2] && seen[3] && seen[6] && seen[8]);
    for (int kind = 0; kind < KINDS; kind++) OK(drops[kind](live[kind]));
    return 0;
}
