/* Packets that the caller has parsed already: headers, records and rows give the decisions of their frames. */
#include "check.h"

#define COUNT 100

struct flow {
    uint8_t src[4], dst[4];
    uint16_t sport, dport;
    uint8_t proto;
};

static uint16_t network(unsigned number) {
    uint8_t bytes[2] = {(uint8_t)(number >> 8), (uint8_t)number};
    uint16_t value;
    memcpy(&value, bytes, 2);
    return value;
}

static int same(const firstmatch_decision *one, const firstmatch_decision *other) {
    return memcmp(one, other, COUNT * sizeof *one) == 0;
}

int main(void) {
    static const char rules[] =
        "family ipv4\ndeny tcp dport 20-40\nmark 3 src 10.0.0.1 tcp dport 41-60\npermit tcp dport 61-80\n";
    static uint8_t bytes[COUNT][FRAME];
    static struct flow flows[COUNT];
    static uint32_t storage[COUNT * 8 + 4], lengths[COUNT], wire[COUNT];
    static firstmatch_decision wanted[COUNT], got[COUNT];
    const uint8_t *headers[COUNT], *records[COUNT];
    firstmatch_slice frames[COUNT];
    firstmatch_options options;
    firstmatch_firewall *firewall, *other;
    firstmatch_worker *worker = NULL;
    firstmatch_layout *layout = NULL;
    firstmatch_error *error = NULL;
    firstmatch_schema schema;
    firstmatch_field field;
    firstmatch_count count;
    uint64_t rule;
    size_t size = 0;
    uint32_t *rows = (uint32_t *)(((uintptr_t)storage + 15) & ~(uintptr_t)15);
    firstmatch_place places[5] = {{"src", offsetof(struct flow, src), FIRSTMATCH_NETWORK_ORDER, 0},
                                  {"dst", offsetof(struct flow, dst), FIRSTMATCH_NETWORK_ORDER, 0},
                                  {"sport", offsetof(struct flow, sport), 0, 0},
                                  {"dport", offsetof(struct flow, dport), FIRSTMATCH_NETWORK_ORDER, 0},
                                  {"proto", offsetof(struct flow, proto), 0, 0}};
    OK(firstmatch_options_init(&options, sizeof options));
    options.flags = FIRSTMATCH_COUNTERS;
    firewall = build(rules, &options);
    OK(firstmatch_worker_new(firewall, &worker));

    OK(firstmatch_firewall_schema_count(firewall, &size));
    CHECK(size == 1);
    OK(firstmatch_firewall_schema(firewall, 0, &schema, sizeof schema));
    CHECK(schema.family == FIRSTMATCH_IPV4 && schema.fields == 5 && schema.words == 5 && schema.stride == 8);
    OK(firstmatch_firewall_field(firewall, 0, 3, &field, sizeof field));
    CHECK(strcmp(field.name, "dport") == 0 && field.width == 16 && field.is_optional == 1);
    CHECK(field.first_word == 3 && field.words == 1 && field.absent == 65536);
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_firewall_field(firewall, 0, 5, &field, sizeof field));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_firewall_schema(firewall, 1, &schema, sizeof schema));

    for (int i = 0; i < COUNT; i++) {
        tcp_frame(bytes[i], (unsigned)i);
        frames[i].bytes = bytes[i];
        frames[i].length = FRAME;
        headers[i] = bytes[i] + 14;
        lengths[i] = FRAME - 14;
        wire[i] = 1000;
        memcpy(flows[i].src, bytes[i] + 26, 4);
        memcpy(flows[i].dst, bytes[i] + 30, 4);
        flows[i].sport = 50000;
        flows[i].dport = network((unsigned)i);
        flows[i].proto = 6;
        records[i] = (const uint8_t *)&flows[i];
        memset(rows + 8 * i, 0, 32);
        rows[8 * i] = 0x0A000001;
        rows[8 * i + 1] = 0xC0000207;
        rows[8 * i + 2] = 50000;
        rows[8 * i + 3] = (uint32_t)i;
        rows[8 * i + 4] = 6;
    }
    OK(firstmatch_classify_frames(worker, FIRSTMATCH_LINK_ETHERNET, frames, NULL, COUNT, wanted));
    CHECK(wanted[30].verdict == FIRSTMATCH_DENY && wanted[50].mark == 3 && wanted[70].line == 4 &&
          wanted[90].rule == 0);
    OK(firstmatch_classify_headers(worker, headers, lengths, COUNT, got));
    CHECK(same(wanted, got));

    OK(firstmatch_layout_new(firewall, 0, places, 5, &layout, &error));
    OK(firstmatch_layout_bytes(layout, &size));
    CHECK(size == offsetof(struct flow, proto) + 1);
    memset(got, 0, sizeof got);
    OK(firstmatch_classify_records(worker, layout, records[0], sizeof flows[0], wire, COUNT, got));
    CHECK(same(wanted, got));
    memset(got, 0, sizeof got);
    OK(firstmatch_classify_record_pointers(worker, layout, records, NULL, COUNT, got));
    CHECK(same(wanted, got));
    memset(got, 0, sizeof got);
    OK(firstmatch_classify_rows(worker, 0, rows, wire, COUNT, got));
    CHECK(same(wanted, got));
    OK(firstmatch_classify_records(worker, layout, NULL, 0, NULL, 0, NULL));
    OK(firstmatch_classify_record_pointers(worker, layout, NULL, NULL, 0, NULL));
    OK(firstmatch_classify_rows(worker, 0, NULL, NULL, 0, NULL));
    OK(firstmatch_classify_headers(worker, NULL, NULL, 0, NULL));

    /* 5 batches with 21 packets of the first rule; frames and headers count their bytes, null lengths count none. */
    rule = wanted[30].rule;
    OK(firstmatch_firewall_counts(firewall, &rule, 1, &count));
    CHECK(count.packets == 5 * 21 && count.bytes == 21 * (FRAME + FRAME - 14 + 1000 + 1000));

    rows[3] = 65537;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_classify_rows(worker, 0, rows, NULL, COUNT, got));
    rows[3] = 65536;
    OK(firstmatch_classify_rows(worker, 0, rows, NULL, 1, got));
    CHECK(got[0].outcome == FIRSTMATCH_NO_PORTS && got[0].rule == 0);
    rows[7] = 1;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_classify_rows(worker, 0, rows, NULL, COUNT, got));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_classify_rows(worker, 0, rows + 1, NULL, 1, got));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_classify_rows(worker, 1, rows, NULL, 1, got));
    CODE(FIRSTMATCH_INVALID_ARGUMENT,
         firstmatch_classify_records(worker, layout, records[0], SIZE_MAX / 2, NULL, 3, got));
    records[1] = NULL;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_classify_record_pointers(worker, layout, records, NULL, 2, got));
    headers[1] = NULL;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_classify_headers(worker, headers, lengths, 2, got));
    OK(firstmatch_layout_free(layout));

    other = build("family ipv6\npermit tcp\n", NULL);
    OK(firstmatch_layout_new(other, 0, places, 5, &layout, NULL));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_classify_records(worker, layout, records[0], 99, NULL, 1, got));
    OK(firstmatch_layout_free(layout));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_layout_new(other, 0, places, 4, &layout, &error));
    CHECK(layout == NULL && strstr(firstmatch_error_message(error), "proto") != NULL);
    OK(firstmatch_error_free(error));
    OK(firstmatch_firewall_release(other));
    OK(firstmatch_worker_free(worker));
    OK(firstmatch_firewall_release(firewall));
    return 0;
}
