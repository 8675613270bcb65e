/* Every buffer between pages that nobody may touch: a byte too many ends the program. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

/* Number of buffers in use at once. */
#define BUFFERS 8

static size_t page;
static uint8_t *pages[BUFFERS];

static void *guarded(int buffer, const void *bytes, size_t length, int at_end) {
    uint8_t *to = pages[buffer] + (at_end ? page - length : 0);
    CHECK(length <= page);
    if (bytes != NULL) memcpy(to, bytes, length);
    return to;
}

static void frames_of_every_length(firstmatch_worker *worker, int at_end) {
    static const uint32_t links[] = {0,   1,   9,   50,  51,  101, 104, 105, 108, 113,
                                     117, 127, 166, 192, 204, 228, 229, 239, 276, 999};
    uint8_t whole[FRAME + 8];
    for (size_t link = 0; link < sizeof links / sizeof *links; link++) {
        for (int shape = 0; shape < 4; shape++) {
            for (size_t length = 0; length <= FRAME; length++) {
                firstmatch_slice slices[3], *frames;
                firstmatch_decision *decisions, plain[3];
                tcp_frame(whole, 23);
                if (shape == 1) memset(whole + 12, 0x81, 1), memset(whole + 13, 0, 1);
                if (shape == 2) memset(whole + 12, 0x86, 1), memset(whole + 13, 0xDD, 1), whole[14] = 0x60;
                if (shape == 3) memmove(whole, whole + 14, FRAME - 14);
                for (int index = 0; index < 3; index++) {
                    slices[index].bytes = whole;
                    slices[index].length = length;
                }
                OK(firstmatch_classify_frames(worker, links[link], slices, NULL, 3, plain));
                for (int index = 0; index < 3; index++) slices[index].bytes = guarded(index, whole, length, at_end);
                frames = guarded(3, slices, sizeof slices, at_end);
                decisions = guarded(4, NULL, sizeof plain, at_end);
                OK(firstmatch_classify_frames(worker, links[link], frames, NULL, 3, decisions));
                CHECK(memcmp(decisions, plain, sizeof plain) == 0);
            }
        }
    }
}

static void headers_records_and_rows(firstmatch_firewall *firewall, firstmatch_worker *worker, int at_end) {
    uint8_t whole[FRAME];
    firstmatch_layout *layout = NULL;
    size_t bytes;
    tcp_frame(whole, 23);
    for (uint32_t length = 0; length <= FRAME - 14; length++) {
        const uint8_t *header = guarded(0, whole + 14, length, at_end),
                      **headers = guarded(1, &header, sizeof header, at_end);
        uint32_t *lengths = guarded(2, &length, sizeof length, at_end);
        firstmatch_decision *decisions = guarded(3, NULL, sizeof *decisions, at_end);
        OK(firstmatch_classify_headers(worker, headers, lengths, 1, decisions));
        CHECK(length < FRAME - 14 || decisions->verdict == FIRSTMATCH_DENY);
    }
    OK(firstmatch_layout_of_keys(firewall, 0, &layout, NULL));
    OK(firstmatch_layout_bytes(layout, &bytes));
    CHECK(bytes == 13);
    for (size_t stride = bytes; stride < bytes + 9; stride++) {
        uint8_t records[3 * 24] = {0}, *base;
        const uint8_t *pointers[3];
        uint32_t wire[3] = {60, 60, 60};
        firstmatch_decision *decisions = guarded(1, NULL, 3 * sizeof *decisions, at_end);
        for (int index = 0; index < 3; index++) {
            uint8_t *record = records + (size_t)index * stride;
            memcpy(record, whole + 26, 8);
            record[11] = 23;
            record[12] = 6;
            pointers[index] = guarded(4 + index, record, bytes, at_end);
        }
        base = guarded(0, records, 2 * stride + bytes, at_end);
        OK(firstmatch_classify_records(worker, layout, base, stride, guarded(2, wire, sizeof wire, at_end), 3,
                                       decisions));
        for (int index = 0; index < 3; index++) CHECK(decisions[index].verdict == FIRSTMATCH_DENY);
        memset(decisions, 0, 3 * sizeof *decisions);
        OK(firstmatch_classify_record_pointers(worker, layout, guarded(3, pointers, sizeof pointers, at_end), NULL, 3,
                                               decisions));
        for (int index = 0; index < 3; index++) CHECK(decisions[index].verdict == FIRSTMATCH_DENY);
    }
    OK(firstmatch_layout_free(layout));
    for (size_t count = 1; count < 70; count++) {
        uint32_t row[8] = {0x0A000001, 0xC0000207, 50000, 23, 6, 0, 0, 0},
                 *rows = guarded(0, NULL, count * sizeof row, at_end);
        firstmatch_decision *decisions = guarded(1, NULL, count * sizeof *decisions, at_end);
        for (size_t index = 0; index < count; index++) memcpy(rows + 8 * index, row, sizeof row);
        OK(firstmatch_classify_rows(worker, 0, rows, NULL, count, decisions));
        for (size_t index = 0; index < count; index++) CHECK(decisions[index].line == 2);
    }
}

static void texts_structs_and_results(int at_end) {
    static const char rules[] = "deny tcp dport 23\npermit";
    firstmatch_options options = {.size = sizeof options};
    firstmatch_table_field field = {"a", 16, 0};
    firstmatch_entry entry = {.size = sizeof entry, .value = 7};
    firstmatch_rule rule = {.size = sizeof rule};
    uint8_t key[2] = {1, 2}, mask[2] = {255, 255};
    firstmatch_firewall **firewall = guarded(0, NULL, sizeof *firewall, at_end);
    firstmatch_error **error = guarded(1, NULL, sizeof *error, at_end);
    firstmatch_table **table = guarded(2, NULL, sizeof *table, at_end);
    firstmatch_update *update;
    uint64_t *ids;
    size_t *count;
    OK(firstmatch_firewall_from_text(guarded(3, rules, sizeof rules - 1, at_end), sizeof rules - 1,
                                     guarded(4, &options, sizeof options, at_end), firewall, error));
    rule.text = guarded(4, "permit udp", 10, at_end);
    rule.text_length = 10;
    OK(firstmatch_update_new(&update));
    OK(firstmatch_update_append(update, guarded(3, &rule, sizeof rule, at_end)));
    ids = guarded(3, NULL, sizeof *ids, at_end);
    OK(firstmatch_update_commit(update, *firewall, 0, ids, 1, guarded(4, NULL, 8, at_end), error));
    CHECK(*ids != 0);
    OK(firstmatch_update_free(update));
    ids = guarded(3, NULL, 3 * sizeof *ids, at_end);
    count = guarded(4, NULL, sizeof *count, at_end);
    OK(firstmatch_firewall_rules(*firewall, ids, 3, count));
    CHECK(*count == 3);
    OK(firstmatch_firewall_stats(*firewall, 0, guarded(3, NULL, sizeof(firstmatch_stats), at_end),
                                 sizeof(firstmatch_stats)));
    OK(firstmatch_firewall_release(*firewall));
    OK(firstmatch_table_new(guarded(3, &field, sizeof field, at_end), 1, table, error));
    entry.key = guarded(3, key, 2, at_end);
    entry.mask = guarded(4, mask, 2, at_end);
    OK(firstmatch_table_add(*table, guarded(5, &entry, sizeof entry, at_end), guarded(6, NULL, 8, at_end), error));
    OK(firstmatch_table_free(*table));
}

int main(void) {
    firstmatch_firewall *firewall = build("family ipv4\ndeny tcp dport 23\npermit\n", NULL);
    firstmatch_worker *worker = NULL;
    OK(firstmatch_worker_new(firewall, &worker));
    page = (size_t)sysconf(_SC_PAGESIZE);
    for (int buffer = 0; buffer < BUFFERS; buffer++) {
        uint8_t *start = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(start != MAP_FAILED && mprotect(start + page, page, PROT_READ | PROT_WRITE) == 0);
        pages[buffer] = start + page;
    }
    for (int at_end = 0; at_end < 2; at_end++) {
        frames_of_every_length(worker, at_end);
        headers_records_and_rows(firewall, worker, at_end);
        texts_structs_and_results(at_end);
    }
    OK(firstmatch_worker_free(worker));
    OK(firstmatch_firewall_release(firewall));
    return 0;
}
