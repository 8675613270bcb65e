/* A table of ternary and range entries beside a walk through all of them. */
#include "check.h"

#define ENTRIES 300
#define KEYS 700
#define BYTES 9

/* Fields: a 12 bits, b 32 bits, c 16 bits, d 3 bits. */
static const unsigned offsets[5] = {0, 2, 6, 8, 9}, widths[4] = {12, 32, 16, 3};
static uint64_t state = 7;

static unsigned random_below(unsigned bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % bound;
}

static uint64_t field_of(const uint8_t *key, int field) {
    uint64_t value = 0;
    for (unsigned at = offsets[field]; at < offsets[field + 1]; at++) value = value << 8 | key[at];
    return value;
}

static void set_field(uint8_t *key, int field, uint64_t value) {
    for (unsigned at = offsets[field + 1]; at-- > offsets[field]; value >>= 8) key[at] = (uint8_t)value;
}

static uint8_t keys[ENTRIES][BYTES], masks[ENTRIES][BYTES], packets[KEYS][BYTES];
static firstmatch_entry entries[ENTRIES];
static firstmatch_range ranges[ENTRIES];
static uint64_t ids[ENTRIES];
static firstmatch_decision decisions[KEYS];

static int matches(int entry, const uint8_t *key) {
    for (int at = 0; entries[entry].mask != NULL && at < BYTES; at++)
        if ((key[at] & masks[entry][at]) != keys[entry][at]) return 0;
    for (size_t at = 0; at < entries[entry].range_count; at++) {
        uint64_t value = field_of(key, (int)entries[entry].ranges[at].field);
        if (value < entries[entry].ranges[at].first.low || value > entries[entry].ranges[at].last.low) return 0;
    }
    return 1;
}

static void fill_entry(int entry) {
    int ranged = random_below(2) ? 2 : -1;
    memset(&entries[entry], 0, sizeof entries[entry]);
    for (int field = 0; field < 4; field++) {
        uint64_t max = ((uint64_t)1 << widths[field]) - 1, mask = 0;
        switch (random_below(4)) {
        case 0: mask = max; break;
        case 1: mask = max & ~(max >> random_below(widths[field])); break;
        case 2: mask = (state >> 20) & max; break;
        default: break;
        }
        if (field == ranged) mask = 0;
        set_field(masks[entry], field, mask);
        set_field(keys[entry], field, (random_below(4) * 0x10101u) & mask);
    }
    entries[entry].size = sizeof entries[entry];
    entries[entry].priority = random_below(60);
    entries[entry].value = 1000 + (uint64_t)entry;
    entries[entry].key = keys[entry];
    entries[entry].mask = masks[entry];
    if (ranged >= 0) {
        ranges[entry].field = 2;
        ranges[entry].first.low = random_below(300);
        ranges[entry].last.low = ranges[entry].first.low + random_below(500);
        entries[entry].ranges = &ranges[entry];
        entries[entry].range_count = 1;
    }
}

/* Fills packets that lie in entries, mostly; then compares each decision with the best entry. */
static void compare(firstmatch_worker *worker, firstmatch_layout *layout, int count) {
    int found = 0;
    for (int packet = 0; packet < KEYS; packet++) {
        int entry = (int)random_below((unsigned)count);
        for (int at = 0; at < BYTES; at++)
            packets[packet][at] = (uint8_t)(keys[entry][at] | (random_below(256) & ~(unsigned)masks[entry][at]));
        packets[packet][0] &= 0x0F;
        packets[packet][8] &= 7;
        if (entries[entry].range_count) set_field(packets[packet], 2, ranges[entry].first.low + random_below(600));
    }
    OK(firstmatch_classify_records(worker, layout, packets[0], BYTES, NULL, KEYS, decisions));
    for (int packet = 0; packet < KEYS; packet++) {
        int best = -1;
        for (int entry = 0; entry < count; entry++)
            if (matches(entry, packets[packet]) && (best < 0 || entries[entry].priority > entries[best].priority))
                best = entry;
        CHECK(decisions[packet].rule == (best < 0 ? 0 : ids[best]));
        CHECK(decisions[packet].value == (best < 0 ? 0 : entries[best].value));
        CHECK(decisions[packet].verdict == (best < 0 ? FIRSTMATCH_DENY : FIRSTMATCH_MATCH));
        found += best >= 0;
    }
    CHECK(found > KEYS / 2);
}

int main(void) {
    firstmatch_table_field fields[4] = {{"a", 12, 0},
                                        {"b", 32, FIRSTMATCH_TEST_PREFIX},
                                        {"c", 16, FIRSTMATCH_TEST_RANGE},
                                        {"d", 3, FIRSTMATCH_TEST_MASK}};
    firstmatch_table *table = NULL;
    firstmatch_firewall *firewall = NULL;
    firstmatch_worker *worker = NULL;
    firstmatch_layout *layout = NULL;
    firstmatch_update *update = NULL;
    firstmatch_error *error = NULL;
    firstmatch_entry entry;
    firstmatch_range range = {2, 0, {0, 5}, {0, 4}};
    firstmatch_rule rule;
    uint8_t bad[BYTES] = {0};
    size_t size;
    OK(firstmatch_table_new(fields, 4, &table, &error));
    OK(firstmatch_table_key_bytes(table, &size));
    CHECK(size == BYTES);
    for (int count = 0; count < ENTRIES; count++) {
        fill_entry(count);
        OK(firstmatch_table_add(table, &entries[count], &ids[count], NULL));
        CHECK(ids[count] != 0);
        if (count != 0 && count != 40 && count != ENTRIES - 1) continue;
        OK(firstmatch_firewall_from_table(table, NULL, &firewall, &error));
        OK(firstmatch_layout_of_keys(firewall, 0, &layout, NULL));
        OK(firstmatch_worker_new(firewall, &worker));
        compare(worker, layout, count + 1);
        OK(firstmatch_worker_free(worker));
        OK(firstmatch_layout_free(layout));
        if (count < ENTRIES - 1) OK(firstmatch_firewall_release(firewall));
    }

    /* Entries are changed like other rules: this one wins over all. */
    memset(&rule, 0, sizeof rule);
    rule.size = sizeof rule;
    rule.action = FIRSTMATCH_MATCH;
    rule.value = 5;
    OK(firstmatch_update_new(&update));
    OK(firstmatch_update_prepend(update, &rule));
    OK(firstmatch_update_commit(update, firewall, 0, NULL, 0, NULL, NULL));
    OK(firstmatch_worker_new(firewall, &worker));
    OK(firstmatch_layout_of_keys(firewall, 0, &layout, NULL));
    OK(firstmatch_classify_records(worker, layout, packets[0], BYTES, NULL, KEYS, decisions));
    for (int packet = 0; packet < KEYS; packet++) CHECK(decisions[packet].value == 5);
    OK(firstmatch_update_free(update));
    OK(firstmatch_layout_free(layout));
    OK(firstmatch_worker_free(worker));
    OK(firstmatch_firewall_release(firewall));

    /* Entries that mean nothing are refused, and change nothing. */
    memset(&entry, 0, sizeof entry);
    entry.size = sizeof entry;
    entry.key = bad;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_table_add(table, &entry, NULL, NULL));
    entry.mask = masks[0];
    bad[0] = 0x10;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_table_add(table, &entry, NULL, &error));
    CHECK(strstr(firstmatch_error_message(error), " a ") != NULL);
    OK(firstmatch_error_free(error));
    entry.key = entry.mask = NULL;
    entry.ranges = &range;
    entry.range_count = 1;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_table_add(table, &entry, NULL, NULL));
    range.last.low = 65536;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_table_add(table, &entry, NULL, NULL));
    range.last.low = 9;
    range.field = 4;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_table_add(table, &entry, NULL, NULL));
    range.field = 2;
    OK(firstmatch_table_add(table, &entry, NULL, NULL));
    OK(firstmatch_table_free(table));
    fields[3].name = "a";
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_table_new(fields, 4, &table, NULL));
    fields[3].name = "d";
    fields[3].width = 129;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_table_new(fields, 4, &table, NULL));
    fields[3].width = 0;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_table_new(fields, 4, &table, NULL));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_table_new(fields, 0, &table, NULL));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_table_new(fields, 65, &table, NULL));
    CHECK(table == NULL);
    return 0;
}
