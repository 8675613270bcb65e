/* Decides a batch of frames under a rule file, and says why: classify RULES */
#include <firstmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 3
#define BYTES 54

/* Ends the program with the message of an error. */
static void fail(firstmatch_error *error) {
    fprintf(stderr, "%s\n", error != NULL ? firstmatch_error_message(error) : "failed");
    firstmatch_error_free(error);
    exit(1);
}

/* Reads a whole file; the caller frees it. */
static char *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    size_t room = 1 << 20;
    char *text = malloc(room);
    if (file == NULL || text == NULL) {
        perror(path);
        exit(1);
    }
    *length = fread(text, 1, room, file);
    fclose(file);
    return text;
}

int main(int argc, char **argv) {
    static const char *const verdicts[] = {"?", "permit", "deny", "mark", "match"};
    static const unsigned ports[COUNT] = {23, 443, 53};
    uint8_t bytes[COUNT][BYTES] = {{0}};
    firstmatch_slice frames[COUNT];
    firstmatch_decision decisions[COUNT];
    firstmatch_firewall *firewall = NULL;
    firstmatch_worker *worker = NULL;
    firstmatch_error *error = NULL;
    firstmatch_text *text = NULL;
    size_t length;
    char *rules;
    int at;
    if (argc != 2 || firstmatch_abi_version() != FIRSTMATCH_ABI_VERSION) {
        fprintf(stderr, "usage: classify RULES\n");
        return 2;
    }
    rules = read_file(argv[1], &length);
    if (firstmatch_firewall_from_text(rules, length, NULL, &firewall, &error) != FIRSTMATCH_OK) fail(error);
    free(rules);
    if (firstmatch_worker_new(firewall, &worker) != FIRSTMATCH_OK) fail(NULL);

    /* Ethernet, IPv4 from 10.0.0.1 to 192.0.2.7, TCP. */
    for (at = 0; at < COUNT; at++) {
        static const uint8_t head[] = {2,  0, 0, 0, 0, 1,  2, 0, 0, 0,  0, 2, 8, 0,   0x45, 0, 0,
                                       40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 192, 0,    2, 7};
        memcpy(bytes[at], head, sizeof head);
        bytes[at][37] = (uint8_t)ports[at];
        bytes[at][36] = (uint8_t)(ports[at] >> 8);
        bytes[at][46] = 0x50;
        frames[at].bytes = bytes[at];
        frames[at].length = BYTES;
    }
    if (firstmatch_classify_frames(worker, FIRSTMATCH_LINK_ETHERNET, frames, NULL, COUNT, decisions) != FIRSTMATCH_OK)
        fail(NULL);
    for (at = 0; at < COUNT; at++)
        printf("port %u: %s, line %u\n", ports[at], verdicts[decisions[at].verdict], (unsigned)decisions[at].line);

    if (firstmatch_explain(firewall, FIRSTMATCH_LINK_ETHERNET, bytes[0], BYTES, NULL, &text) != FIRSTMATCH_OK)
        fail(NULL);
    printf("%s\n", firstmatch_text_bytes(text));
    firstmatch_text_free(text);
    firstmatch_worker_free(worker);
    firstmatch_firewall_release(firewall);
    return 0;
}
