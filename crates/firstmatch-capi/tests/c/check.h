/* Checks of the tests in C: a failure is printed and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <firstmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Checks that a call answers a code. */
#define CODE(code, call)                                                                                               \
    do {                                                                                                               \
        int32_t answer_ = (call);                                                                                      \
        if (answer_ != (code)) {                                                                                       \
            const char *name_ = firstmatch_status_name(answer_);                                                       \
            fprintf(stderr, "%s:%d: %s is %s, not %s\n", __FILE__, __LINE__, #call, name_ ? name_ : "no code", #code); \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Checks that a call succeeds. */
#define OK(call) CODE(FIRSTMATCH_OK, call)

/* Bytes of an Ethernet frame with a TCP segment. */
#define FRAME 54

/* Writes an Ethernet frame with a TCP segment from 10.0.0.1 to a port of 192.0.2.7. */
static inline void tcp_frame(uint8_t *frame, unsigned port) {
    static const uint8_t head[34] = {2,  0, 0, 0, 0, 1,  2, 0, 0, 0,  0, 2, 8, 0,   0x45, 0, 0,
                                     40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 192, 0,    2, 7};
    memset(frame, 0, FRAME);
    memcpy(frame, head, sizeof head);
    frame[34] = 195;
    frame[35] = 80;
    frame[36] = (uint8_t)(port >> 8);
    frame[37] = (uint8_t)port;
    frame[46] = 0x50;
    frame[47] = 2;
}

/* Builds a firewall from text, which must be good. */
static inline firstmatch_firewall *build(const char *rules, const firstmatch_options *options) {
    firstmatch_firewall *firewall = NULL;
    firstmatch_error *error = NULL;
    if (firstmatch_firewall_from_text(rules, strlen(rules), options, &firewall, &error) != FIRSTMATCH_OK) {
        fprintf(stderr, "%s\n", firstmatch_error_message(error));
        exit(1);
    }
    CHECK(error == NULL);
    return firewall;
}

#endif
