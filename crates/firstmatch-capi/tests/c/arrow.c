/* Arrays by Arrow's C data interface, made by hand: types, offsets, nulls, unaligned buffers and results. */
#include "check.h"

#define ROWS 100
#define COLUMNS 5
/* Rows of a column before those of its struct, and of the struct before those that are asked for. */
#define CHILD 3
#define PARENT 5
#define ALL (CHILD + PARENT + ROWS)

static int released;
static void release_schema(struct ArrowSchema *schema) { released++, schema->release = NULL; }
static void release_array(struct ArrowArray *array) { released++, array->release = NULL; }

/* One column of up to 16 bytes a row, with room to lie at any byte. */
struct column {
    struct ArrowSchema schema;
    struct ArrowArray array;
    const void *buffers[4];
    uint8_t values[ALL * 16 + 16], nulls[ALL / 8 + 1];
};

static struct column columns[COLUMNS + 1];
static struct ArrowSchema *schemas[COLUMNS + 1];
static struct ArrowArray *arrays[COLUMNS + 1];
static struct ArrowSchema schema;
static struct ArrowArray array;
static const void *buffers[1];
static uint8_t parents[ALL / 8 + 1];

static void fill(struct column *column, const char *name, const char *format, size_t misaligned) {
    memset(column, 0, sizeof *column);
    column->schema.name = name;
    column->schema.format = format;
    column->schema.release = release_schema;
    column->array.release = release_array;
    column->array.length = ALL - CHILD;
    column->array.offset = CHILD;
    column->array.n_buffers = 2;
    column->array.buffers = column->buffers;
    column->buffers[1] = column->values + misaligned;
}

/* Sets the value of a row that is asked for, of a number of bytes in the machine's order. */
static void set(struct column *column, int row, uint64_t value, size_t bytes) {
    uint8_t *to = (uint8_t *)(uintptr_t)column->buffers[1] + (size_t)(CHILD + PARENT + row) * bytes;
    if (bytes == 1) to[0] = (uint8_t)value;
    if (bytes == 2) {
        uint16_t number = (uint16_t)value;
        memcpy(to, &number, 2);
    }
    if (bytes == 4) {
        uint32_t number = (uint32_t)value;
        memcpy(to, &number, 4);
    }
    if (bytes == 8) memcpy(to, &value, 8);
}

static void set_null(struct column *column, int row) {
    int bit = CHILD + PARENT + row;
    if (column->buffers[0] == NULL) memset(column->nulls, 0xFF, sizeof column->nulls);
    column->buffers[0] = column->nulls;
    column->array.null_count = -1;
    column->nulls[bit / 8] &= (uint8_t) ~(1 << bit % 8);
}

static void fill_struct(int count) {
    memset(&schema, 0, sizeof schema);
    memset(&array, 0, sizeof array);
    for (int at = 0; at < count; at++) schemas[at] = &columns[at].schema, arrays[at] = &columns[at].array;
    schema.format = "+s";
    schema.n_children = array.n_children = count;
    schema.children = schemas;
    array.children = arrays;
    schema.release = release_schema;
    array.release = release_array;
    array.length = ROWS;
    array.offset = PARENT;
    array.n_buffers = 1;
    array.buffers = buffers;
    buffers[0] = NULL;
}

/* Returns a number of the result. */
static uint64_t result(const struct ArrowArray *out, int column, int row) {
    const struct ArrowArray *child = out->children[column];
    const uint8_t *nulls = child->buffers[0];
    if (nulls != NULL && !(nulls[row / 8] >> row % 8 & 1)) return UINT64_MAX;
    switch (column) {
    case 0:
    case 4: return ((const uint8_t *)child->buffers[1])[row];
    case 1:
    case 3: return ((const uint32_t *)child->buffers[1])[row];
    default: return ((const uint64_t *)child->buffers[1])[row];
    }
}

static void release(struct ArrowSchema *out_schema, struct ArrowArray *out) {
    out_schema->release(out_schema);
    out->release(out);
    CHECK(out_schema->release == NULL && out->release == NULL);
}

static const char rules[] = "unknown permit\ndeny tcp dport 20-40\nmark 3 src 10.0.0.1 tcp dport 41-60\npermit "
                            "icmp\nmark 9 src 2001:db8::/32\n";

/* Fields as integers of several widths: src as src_format, dport and sport signed or not. */
static void fill_fields(const char *src_format, const char *dport_format, size_t dport_bytes, size_t misaligned) {
    int is_binary = src_format[0] == 'w';
    fill(&columns[0], "src", src_format, misaligned);
    fill(&columns[1], "dst", src_format, misaligned);
    fill(&columns[2], "sport", "S", misaligned);
    fill(&columns[3], "dport", dport_format, misaligned);
    fill(&columns[4], "proto", "C", misaligned);
    fill(&columns[5], "other", "+l", 0);
    for (int row = 0; row < ROWS; row++) {
        set(&columns[0], row, is_binary ? 0x0100000A : 0x0A000001, 4);
        set(&columns[1], row, 0xC0000207, 4);
        set(&columns[2], row, 50000, 2);
        set(&columns[3], row, (uint64_t)row, dport_bytes);
        set(&columns[4], row, 6, 1);
    }
    fill_struct(COLUMNS + 1);
}

static void fields(firstmatch_worker *worker) {
    static const struct {
        const char *format;
        size_t bytes;
    } kinds[] = {{"C", 1}, {"S", 2}, {"I", 4}, {"L", 8}, {"c", 1}, {"s", 2}, {"i", 4}, {"l", 8}};
    for (size_t kind = 0; kind < 8; kind++) {
        for (size_t misaligned = 0; misaligned < 3; misaligned++) {
            struct ArrowSchema out_schema;
            struct ArrowArray out;
            firstmatch_error *error = NULL;
            fill_fields(kind % 2 ? "I" : "w:4", kinds[kind].format, kinds[kind].bytes, misaligned);
            set_null(&columns[3], 70); /* a packet without ports */
            set_null(&columns[2], 71);
            set_null(&columns[0], 72); /* a packet without an address is unknown */
            memset(parents, 0xFF, sizeof parents);
            parents[(PARENT + 73) / 8] &= (uint8_t) ~(1 << (PARENT + 73) % 8);
            buffers[0] = parents;
            array.null_count = 1;
            if (firstmatch_classify_arrow(worker, &schema, &array, NULL, &out_schema, &out, &error) != FIRSTMATCH_OK) {
                fprintf(stderr, "%s\n", firstmatch_error_message(error));
                exit(1);
            }
            CHECK(strcmp(out_schema.format, "+s") == 0 && out_schema.n_children == 6 && out.n_children == 6);
            CHECK(strcmp(out_schema.children[2]->name, "rule") == 0 &&
                  strcmp(out_schema.children[2]->format, "L") == 0);
            CHECK(out.length == ROWS && out.children[5]->length == ROWS && out.children[2]->null_count > 0);
            for (int row = 0; row < ROWS; row++) {
                int line = row >= 70 && row <= 73 ? 0 : row >= 20 && row <= 40 ? 2 : row >= 41 && row <= 60 ? 3 : 0;
                int outcome = row == 72 || row == 73   ? FIRSTMATCH_LACKS_FIELD
                              : row == 70 || row == 71 ? FIRSTMATCH_NO_PORTS
                                                       : FIRSTMATCH_COMPLETE;
                CHECK(result(&out, 3, row) == (line ? (uint64_t)line : UINT64_MAX));
                CHECK((result(&out, 2, row) == UINT64_MAX) == (line == 0));
                CHECK(result(&out, 4, row) == (uint64_t)outcome);
                CHECK(result(&out, 1, row) == (line == 3 ? 3u : 0u));
                CHECK(result(&out, 0, row) == (uint64_t)(line == 3                           ? FIRSTMATCH_MARK
                                                         : line == 2                         ? FIRSTMATCH_DENY
                                                         : outcome == FIRSTMATCH_LACKS_FIELD ? FIRSTMATCH_PERMIT
                                                                                             : FIRSTMATCH_DENY));
            }
            release(&out_schema, &out);
            CHECK(released == 0);
        }
    }
}

static void other_family_and_no_rows(firstmatch_worker *worker) {
    struct ArrowSchema out_schema;
    struct ArrowArray out;
    firstmatch_arrow_options options = {sizeof options, FIRSTMATCH_IPV6, 0, 0};
    fill_fields("I", "S", 2, 0);
    for (int column = 0; column < 2; column++) {
        fill(&columns[column], column ? "dst" : "src", "w:16", 1);
        for (int row = 0; row < ROWS; row++)
            memcpy(columns[column].values + 1 + (CHILD + PARENT + row) * 16, "\x20\x01\x0d\xb8", 4);
    }
    for (int row = 0; row < ROWS; row++) set(&columns[3], row, 80, 2);
    for (int with = 0; with < 2; with++) {
        OK(firstmatch_classify_arrow(worker, &schema, &array, with ? &options : NULL, &out_schema, &out, NULL));
        for (int row = 0; row < ROWS; row++) CHECK(result(&out, 1, row) == 9 && result(&out, 3, row) == 5);
        release(&out_schema, &out);
    }
    /* None of them is IPv4-mapped. */
    options.family = FIRSTMATCH_IPV4;
    OK(firstmatch_classify_arrow(worker, &schema, &array, &options, &out_schema, &out, NULL));
    for (int row = 0; row < ROWS; row++) CHECK(result(&out, 4, row) == FIRSTMATCH_OUT_OF_RANGE);
    release(&out_schema, &out);
    options.family = 5;
    CODE(FIRSTMATCH_INVALID_ARGUMENT,
         firstmatch_classify_arrow(worker, &schema, &array, &options, &out_schema, &out, NULL));
    array.length = 0;
    for (int column = 0; column < COLUMNS; column++) columns[column].buffers[1] = NULL;
    OK(firstmatch_classify_arrow(worker, &schema, &array, NULL, &out_schema, &out, NULL));
    CHECK(out.length == 0);
    release(&out_schema, &out);
}

/* Frames alone or as a column, with offsets of 32 or 64 bits or as views. */
static void frames(firstmatch_worker *worker) {
    static const char *formats[] = {"z", "Z", "vz"};
    static uint8_t bytes[ALL * FRAME];
    static int32_t small[ALL + 1], views[ALL][4];
    static int64_t large[ALL + 1], size = sizeof bytes;
    for (int row = 0; row <= ALL; row++) {
        small[row] = row * FRAME;
        large[row] = row * FRAME;
        if (row == ALL) break;
        tcp_frame(bytes + row * FRAME, row < CHILD + PARENT ? 1 : (unsigned)(row - CHILD - PARENT));
        views[row][0] = FRAME;
        views[row][3] = row * FRAME;
    }
    for (int form = 0; form < 6; form++) {
        struct ArrowSchema out_schema;
        struct ArrowArray out;
        struct column *column = &columns[0];
        int layout = form % 3, in_struct = form > 2;
        const void *first[] = {small, large, views};
        fill(column, in_struct ? "frame" : "", formats[layout], 0);
        column->array.n_buffers = layout == 2 ? 4 : 3;
        column->buffers[1] = first[layout];
        column->buffers[2] = bytes;
        column->buffers[3] = &size;
        set_null(column, 30);
        fill_struct(1);
        if (!in_struct) column->array.offset = CHILD + PARENT, column->array.length = ROWS;
        OK(firstmatch_classify_arrow(worker, in_struct ? &schema : &column->schema, in_struct ? &array : &column->array,
                                     NULL, &out_schema, &out, NULL));
        for (int row = 0; row < ROWS; row++) {
            int line = row == 30 ? 0 : row >= 20 && row <= 40 ? 2 : row >= 41 && row <= 60 ? 3 : 0;
            CHECK(result(&out, 3, row) == (line ? (uint64_t)line : UINT64_MAX));
            CHECK((result(&out, 4, row) == FIRSTMATCH_COMPLETE) == (row != 30));
        }
        release(&out_schema, &out);
        /* A frame that does not lie in the buffer. */
        small[CHILD + PARENT + 9] = 0;
        large[CHILD + PARENT + 9] = INT64_MIN;
        views[CHILD + PARENT + 9][2] = 1;
        CODE(FIRSTMATCH_INVALID_ARGUMENT,
             firstmatch_classify_arrow(worker, in_struct ? &schema : &column->schema,
                                       in_struct ? &array : &column->array, NULL, &out_schema, &out, NULL));
        small[CHILD + PARENT + 9] = (CHILD + PARENT + 9) * FRAME;
        large[CHILD + PARENT + 9] = (CHILD + PARENT + 9) * FRAME;
        views[CHILD + PARENT + 9][2] = 0;
    }
}

/* Addresses in text: each row has its own family. */
static void addresses_in_text(firstmatch_worker *worker) {
    static const char *texts[] = {"10.0.0.1", "2001:db8::1", "10.0.0.256", "-"};
    static char bytes[ALL * 12];
    static int32_t offsets[ALL + 1];
    struct ArrowSchema out_schema;
    struct ArrowArray out;
    fill_fields("I", "S", 2, 0);
    for (int row = 0; row < ALL; row++) {
        const char *text = texts[(row + ALL - CHILD - PARENT) % 4];
        offsets[row + 1] = offsets[row] + (int32_t)strlen(text);
        memcpy(bytes + offsets[row], text, strlen(text));
    }
    for (int column = 0; column < 2; column++) {
        columns[column].schema.format = "u";
        columns[column].array.n_buffers = 3;
        columns[column].buffers[1] = offsets;
        columns[column].buffers[2] = bytes;
    }
    OK(firstmatch_classify_arrow(worker, &schema, &array, NULL, &out_schema, &out, NULL));
    for (int row = 0; row < ROWS; row++) {
        static const uint64_t outcomes[] = {FIRSTMATCH_COMPLETE, FIRSTMATCH_COMPLETE, FIRSTMATCH_OUT_OF_RANGE,
                                            FIRSTMATCH_LACKS_FIELD};
        int is_ipv4 = row % 4 == 0, is_ipv6 = row % 4 == 1, deny = row >= 20 && row <= 40;
        uint64_t line = (is_ipv4 || is_ipv6) && deny          ? 2
                        : is_ipv4 && row >= 41 && row <= 60 ? 3
                        : is_ipv6                             ? 5
                                                              : UINT64_MAX;
        CHECK(result(&out, 3, row) == line && result(&out, 4, row) == outcomes[row % 4]);
    }
    release(&out_schema, &out);
}

/* Answers the code for the struct, and checks that the message has a text. */
static int32_t refused(firstmatch_worker *worker, const char *text) {
    struct ArrowSchema out_schema;
    struct ArrowArray out;
    firstmatch_error *error = NULL;
    int32_t code = firstmatch_classify_arrow(worker, &schema, &array, NULL, &out_schema, &out, &error);
    CHECK(error != NULL && strstr(firstmatch_error_message(error), text) != NULL);
    OK(firstmatch_error_free(error));
    return code;
}

/* Decides the struct, and checks outcome, line and verdict of its rows: `wanted` in row `odd`, `usual` elsewhere. */
static void decide(firstmatch_worker *worker, const firstmatch_arrow_options *options, int odd, uint64_t usual,
                   uint64_t wanted) {
    struct ArrowSchema out_schema;
    struct ArrowArray out;
    firstmatch_error *error = NULL;
    if (firstmatch_classify_arrow(worker, &schema, &array, options, &out_schema, &out, &error) != FIRSTMATCH_OK) {
        fprintf(stderr, "%s\n", firstmatch_error_message(error));
        exit(1);
    }
    for (int row = 0; row < ROWS; row++) {
        uint64_t outcome = row == odd ? wanted : usual;
        CHECK(result(&out, 4, row) == outcome);
        if (outcome == FIRSTMATCH_LACKS_FIELD || outcome == FIRSTMATCH_OUT_OF_RANGE) {
            /* The policy for unknown packets. */
            CHECK(result(&out, 0, row) == FIRSTMATCH_PERMIT);
            CHECK(result(&out, 2, row) == UINT64_MAX && result(&out, 3, row) == UINT64_MAX);
        } else {
            CHECK(outcome != FIRSTMATCH_COMPLETE || (result(&out, 3, row) == 2) == (row >= 20 && row <= 40));
        }
    }
    release(&out_schema, &out);
}

static uint64_t outcomes(firstmatch_worker *worker, uint32_t outcome) {
    uint64_t count = 0;
    OK(firstmatch_worker_outcome_count(worker, outcome, &count));
    return count;
}

/* A value that its field cannot have is a row without a rule, which is counted; the other rows are decided. */
static void values_out_of_range(firstmatch_worker *worker) {
    static const uint64_t wrong[] = {70000, 0xFFFFFFFF};
    uint64_t before = outcomes(worker, FIRSTMATCH_OUT_OF_RANGE);
    for (int at = 0; at < 2; at++) {
        fill_fields("I", "i", 4, 0);
        set(&columns[3], 50, wrong[at], 4);
        decide(worker, NULL, 50, FIRSTMATCH_COMPLETE, FIRSTMATCH_OUT_OF_RANGE);
    }
    /* It counts before what is absent. */
    set_null(&columns[0], 50);
    decide(worker, NULL, 50, FIRSTMATCH_COMPLETE, FIRSTMATCH_OUT_OF_RANGE);
    CHECK(outcomes(worker, FIRSTMATCH_OUT_OF_RANGE) == before + 3);
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_worker_outcome_count(worker, FIRSTMATCH_OUTCOME_LAST + 1, &before));
}

/* Columns that are missing or of the null type stand for nulls. */
static void missing_columns(firstmatch_worker *worker) {
    uint64_t before = outcomes(worker, FIRSTMATCH_LACKS_FIELD);
    for (int is_null = 0; is_null < 2; is_null++) {
        fill_fields("I", "S", 2, 0);
        for (int column = 2; column < 4; column++) {
            columns[column].schema.name = is_null ? columns[column].schema.name : "unused";
            columns[column].schema.format = is_null ? "n" : columns[column].schema.format;
            if (is_null) columns[column].array.n_buffers = 0, columns[column].array.buffers = NULL;
        }
        decide(worker, NULL, -1, FIRSTMATCH_NO_PORTS, 0);
        fill_fields("I", "S", 2, 0);
        columns[0].schema.name = is_null ? "src" : "source";
        columns[0].schema.format = is_null ? "n" : "u";
        decide(worker, NULL, -1, FIRSTMATCH_LACKS_FIELD, 0);
    }
    CHECK(outcomes(worker, FIRSTMATCH_LACKS_FIELD) == before + 2 * ROWS);
    /* Without addresses nothing says of which family the rows are. */
    for (int column = 0; column < 2; column++) columns[column].schema.name = "typo";
    CODE(FIRSTMATCH_INVALID_ARGUMENT, refused(worker, "no column \"src\" or \"dst\""));
    /* Names that are all wrong are a mistake. */
    for (int column = 0; column < COLUMNS; column++) columns[column].schema.name = "typo";
    CODE(FIRSTMATCH_INVALID_ARGUMENT, refused(worker, "no column has the name of a field: src, dst"));
}

/* A column without the name of a field may hold anything. */
static void other_columns(firstmatch_worker *worker) {
    struct column *other = &columns[COLUMNS];
    fill_fields("I", "S", 2, 0);
    other->array.dictionary = &columns[2].array;
    other->schema.dictionary = &columns[2].schema;
    decide(worker, NULL, -1, FIRSTMATCH_COMPLETE, 0);
    other->schema.name = "\xff\xfe";
    other->schema.format = "\xff";
    other->array.length = 3;
    other->array.offset = -1;
    other->array.n_buffers = -7;
    decide(worker, NULL, -1, FIRSTMATCH_COMPLETE, 0);
    other->array.release = NULL;
    decide(worker, NULL, -1, FIRSTMATCH_COMPLETE, 0);
    other->schema.release = NULL;
    other->schema.name = NULL;
    decide(worker, NULL, -1, FIRSTMATCH_COMPLETE, 0);
}

/* 16 bytes in rows of IPv4 are IPv4-mapped IPv6; in rows of IPv6 they are an IPv6 address like any other. */
static void mapped_addresses(firstmatch_worker *worker) {
    firstmatch_arrow_options options = {sizeof options, FIRSTMATCH_IPV4, 0, 0};
    fill_fields("I", "S", 2, 0);
    for (int column = 0; column < 2; column++) {
        fill(&columns[column], column ? "dst" : "src", "w:16", 1);
        for (int row = 0; row < ROWS; row++)
            memcpy(columns[column].values + 1 + (CHILD + PARENT + row) * 16 + 10, "\xff\xff\x0a\0\0\1", 6);
    }
    /* ::1 is no IPv4 address. */
    memset(columns[0].values + 1 + (CHILD + PARENT + 50) * 16, 0, 15);
    decide(worker, &options, 50, FIRSTMATCH_COMPLETE, FIRSTMATCH_OUT_OF_RANGE);
    /* The rule of line 3 has 10.0.0.1. */
    {
        struct ArrowSchema out_schema;
        struct ArrowArray out;
        OK(firstmatch_classify_arrow(worker, &schema, &array, &options, &out_schema, &out, NULL));
        CHECK(result(&out, 3, 41) == 3 && result(&out, 3, 50) == UINT64_MAX && result(&out, 3, 60) == 3);
        release(&out_schema, &out);
        OK(firstmatch_classify_arrow(worker, &schema, &array, NULL, &out_schema, &out, NULL));
        CHECK(result(&out, 3, 41) == UINT64_MAX && result(&out, 4, 50) == FIRSTMATCH_COMPLETE);
        release(&out_schema, &out);
    }
}

static void bad_arrays(firstmatch_worker *worker) {
    struct ArrowSchema out_schema;
    fill_fields("I", "S", 2, 0);
    columns[4].schema.name = "src";
    CODE(FIRSTMATCH_INVALID_ARGUMENT, refused(worker, "two columns"));
    columns[4].schema.name = "proto";
    columns[3].schema.format = "g";
    CODE(FIRSTMATCH_UNSUPPORTED, refused(worker, "column \"dport\""));
    columns[3].schema.format = "w:17";
    CODE(FIRSTMATCH_UNSUPPORTED, refused(worker, "column \"dport\""));
    columns[3].schema.format = "S";
    columns[3].array.dictionary = &columns[2].array;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, refused(worker, "\"dport\" has a dictionary in its schema or in its array alone"));
    columns[3].array.dictionary = NULL;
    columns[3].array.length = ROWS;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, refused(worker, "column \"dport\""));
    columns[3].array.length = INT64_MAX;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, refused(worker, "column \"dport\""));
    columns[3].array.length = ALL;
    columns[3].array.offset = -1;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, refused(worker, "column \"dport\""));
    columns[3].array.offset = CHILD;
    columns[3].array.n_buffers = 1;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, refused(worker, "buffer 1"));
    columns[3].array.n_buffers = 2;
    columns[3].buffers[1] = NULL;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, refused(worker, "buffer 1"));
    columns[3].array.release = NULL;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, refused(worker, "released"));
    array.n_children = 2;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, refused(worker, "differ"));
    schema.format = "u";
    CODE(FIRSTMATCH_UNSUPPORTED, refused(worker, "format"));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_classify_arrow(worker, NULL, &array, NULL, &out_schema, &array, NULL));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_classify_arrow(worker, &schema, &array, NULL, NULL, &array, NULL));
    CODE(FIRSTMATCH_INVALID_ARGUMENT,
         firstmatch_classify_arrow(NULL, &schema, &array, NULL, &out_schema, &array, NULL));
}

int main(void) {
    firstmatch_firewall *firewall = build(rules, NULL);
    firstmatch_worker *worker = NULL;
    struct ArrowSchema out_schema;
    struct ArrowArray out, moved;
    CHECK(firstmatch_arrow_abi() == 1 && sizeof(struct ArrowSchema) == 72 && sizeof(struct ArrowArray) == 80);
    OK(firstmatch_worker_new(firewall, &worker));
    fields(worker);
    other_family_and_no_rows(worker);
    frames(worker);
    addresses_in_text(worker);
    values_out_of_range(worker);
    missing_columns(worker);
    other_columns(worker);
    mapped_addresses(worker);
    bad_arrays(worker);
    /* The result outlives everything, and a child that was moved away outlives the rest. */
    fill_fields("I", "S", 2, 0);
    OK(firstmatch_classify_arrow(worker, &schema, &array, NULL, &out_schema, &out, NULL));
    OK(firstmatch_worker_free(worker));
    OK(firstmatch_firewall_release(firewall));
    CHECK(result(&out, 3, 30) == 2);
    moved = *out.children[3];
    out.children[3]->release = NULL;
    release(&out_schema, &out);
    CHECK(((const uint32_t *)moved.buffers[1])[30] == 2);
    moved.release(&moved);
    CHECK(released == 0);
    return 0;
}
