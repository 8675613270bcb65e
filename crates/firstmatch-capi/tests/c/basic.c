/* Rules from text, workers, frames, error objects and the life of handles. */
#include "check.h"

#define PORTS 4

static void frames_are_decided(void) {
    static const unsigned ports[PORTS] = {23, 80, 443, 23};
    firstmatch_firewall *firewall =
        build("default permit\nunknown deny\n\ndeny tcp dport 23\nmark 7 tcp dport 80\n", NULL);
    firstmatch_worker *worker = NULL;
    uint8_t bytes[PORTS][FRAME];
    firstmatch_slice frames[PORTS + 1];
    uint32_t lengths[PORTS + 1];
    firstmatch_decision decisions[PORTS + 2];
    uint64_t number = 99;
    OK(firstmatch_worker_new(firewall, &worker));
    for (int i = 0; i < PORTS; i++) {
        tcp_frame(bytes[i], ports[i]);
        frames[i].bytes = bytes[i];
        frames[i].length = FRAME;
        lengths[i] = FRAME;
    }
    frames[PORTS].bytes = NULL;
    frames[PORTS].length = 0;
    lengths[PORTS] = 60;
    for (int with_lengths = 0; with_lengths < 2; with_lengths++) {
        memset(decisions, 0xEE, sizeof decisions);
        OK(firstmatch_classify_frames(worker, FIRSTMATCH_LINK_ETHERNET, frames, with_lengths ? lengths : NULL,
                                      PORTS + 1, decisions));
        CHECK(decisions[0].verdict == FIRSTMATCH_DENY && decisions[0].line == 4 && decisions[0].rule != 0);
        CHECK(decisions[0].mark == 0 && decisions[0].value == 0 && decisions[0].outcome == FIRSTMATCH_COMPLETE);
        CHECK(decisions[1].verdict == FIRSTMATCH_MARK && decisions[1].mark == 7 && decisions[1].line == 5);
        CHECK(decisions[2].verdict == FIRSTMATCH_PERMIT && decisions[2].rule == 0 && decisions[2].line == 0);
        CHECK(memcmp(&decisions[0], &decisions[3], sizeof decisions[0]) == 0);
        CHECK(decisions[4].verdict == FIRSTMATCH_DENY && decisions[4].rule == 0);
        CHECK(decisions[4].outcome != FIRSTMATCH_COMPLETE && decisions[4].outcome <= FIRSTMATCH_OUTCOME_LAST);
        CHECK(decisions[5].value == 0xEEEEEEEEEEEEEEEE);
    }
    OK(firstmatch_worker_outcome_count(worker, FIRSTMATCH_COMPLETE, &number));
    CHECK(number == 2 * PORTS);
    OK(firstmatch_worker_generation(worker, &number));
    CHECK(number == 0);
    frames[0].bytes += 14;
    frames[0].length -= 14;
    OK(firstmatch_classify_frames(worker, FIRSTMATCH_LINK_RAW, frames, NULL, 1, decisions));
    CHECK(decisions[0].verdict == FIRSTMATCH_DENY && decisions[0].line == 4);
    /* A call that fails leaves nothing behind. */
    frames[1].bytes = NULL;
    CODE(FIRSTMATCH_INVALID_ARGUMENT,
         firstmatch_classify_frames(worker, FIRSTMATCH_LINK_RAW, frames, NULL, 2, decisions));
    OK(firstmatch_classify_frames(worker, FIRSTMATCH_LINK_RAW, frames, NULL, 1, decisions));
    OK(firstmatch_classify_frames(worker, FIRSTMATCH_LINK_RAW, NULL, NULL, 0, NULL));
    /* The worker outlives its firewall. */
    OK(firstmatch_firewall_release(firewall));
    OK(firstmatch_classify_frames(worker, FIRSTMATCH_LINK_RAW, frames, NULL, 1, decisions));
    CHECK(decisions[0].line == 4);
    OK(firstmatch_worker_free(worker));
}

static void faults_are_told(void) {
    static const char rules[] = "permit\npermit tpc\ndeny dport 99999\n";
    firstmatch_firewall *firewall = (firstmatch_firewall *)&rules;
    firstmatch_error *error = NULL;
    firstmatch_fault fault;
    CODE(FIRSTMATCH_PARSE, firstmatch_firewall_from_text(rules, sizeof rules - 1, NULL, &firewall, &error));
    CHECK(firewall == NULL && error != NULL);
    CHECK(firstmatch_error_code(error) == FIRSTMATCH_PARSE && firstmatch_error_line(error) == 2);
    CHECK(firstmatch_error_fault_count(error) == 2);
    OK(firstmatch_error_fault_at(error, 1, &fault));
    CHECK(fault.line == 3 && fault.column > 1 && strstr(fault.message, "99999") != NULL);
    CHECK(strstr(firstmatch_error_message(error), "tpc") != NULL);
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_error_fault_at(error, 2, &fault));
    OK(firstmatch_error_free(error));
    CODE(FIRSTMATCH_PARSE, firstmatch_firewall_from_text("deny \xFF", 6, NULL, &firewall, &error));
    CHECK(strstr(firstmatch_error_message(error), "byte 5") != NULL);
    OK(firstmatch_error_free(error));
    CODE(FIRSTMATCH_PARSE, firstmatch_firewall_from_text(rules, sizeof rules - 1, NULL, &firewall, NULL));
}

static void options_are_kept_or_refused(void) {
    firstmatch_options options;
    firstmatch_firewall *firewall = NULL;
    firstmatch_error *error = NULL;
    OK(firstmatch_options_init(&options, sizeof options));
    CHECK(options.size == sizeof options && options.flags == 0 && options.engine == NULL);
    options.flags = FIRSTMATCH_COUNTERS | FIRSTMATCH_REBUILD_BY_CALLER | FIRSTMATCH_ALL_FIELDS;
    options.engine = "linear";
    OK(firstmatch_firewall_release(build("permit\n", &options)));
    options.engine = "hypercuts";
    OK(firstmatch_firewall_release(build("permit\n", &options)));
    options.engine = "none";
    CODE(FIRSTMATCH_UNSUPPORTED, firstmatch_firewall_from_text("permit\n", 7, &options, &firewall, &error));
    CHECK(strstr(firstmatch_error_message(error), "linear") != NULL);
    OK(firstmatch_error_free(error));
    options.engine = NULL;
    options.flags = 1u << 31;
    CODE(FIRSTMATCH_UNSUPPORTED, firstmatch_firewall_from_text("permit\n", 7, &options, &firewall, NULL));
    options.flags = 0;
    options.memory_limit = 64;
    CODE(FIRSTMATCH_LIMITS, firstmatch_firewall_from_text("permit\n", 7, &options, &firewall, NULL));
    options.memory_limit = 0;
    options.regions_per_rule = 3;
    CODE(FIRSTMATCH_PARSE,
         firstmatch_firewall_from_text("permit tcp dport { 1, 3, 5, 7 }", 31, &options, &firewall, NULL));
    CHECK(firewall == NULL);
    options.size = 4;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_firewall_from_text("permit\n", 7, &options, &firewall, NULL));
}

static void handles_are_checked(void) {
    firstmatch_firewall *firewall = build("permit\n", NULL);
    firstmatch_worker *worker = NULL, *none = (firstmatch_worker *)&worker;
    firstmatch_decision decision;
    OK(firstmatch_firewall_retain(firewall));
    OK(firstmatch_firewall_release(firewall));
    OK(firstmatch_worker_new(firewall, &worker));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_worker_free((firstmatch_worker *)firewall));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_firewall_release((firstmatch_firewall *)worker));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_worker_new(NULL, &none));
    CHECK(none == NULL);
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_classify_frames(worker, 1, NULL, NULL, 1, &decision));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_classify_frames(worker, 65536, NULL, NULL, 0, &decision));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_classify_frames(worker, 1, NULL, NULL, SIZE_MAX, &decision));
    CHECK(firstmatch_error_message((firstmatch_error *)worker) == NULL);
    OK(firstmatch_worker_free(worker));
    OK(firstmatch_worker_free(NULL));
    OK(firstmatch_error_free(NULL));
    OK(firstmatch_text_free(NULL));
    OK(firstmatch_firewall_release(NULL));
    OK(firstmatch_firewall_release(firewall));
}

int main(void) {
    CHECK(firstmatch_abi_version() == FIRSTMATCH_ABI_VERSION);
    CHECK(strchr(firstmatch_version(), '.') != NULL);
    CHECK(strcmp(firstmatch_status_name(FIRSTMATCH_STALE), "FIRSTMATCH_STALE") == 0);
    CHECK(firstmatch_status_name(1) == NULL && firstmatch_status_name(-10) == NULL);
    frames_are_decided();
    faults_are_told();
    options_are_kept_or_refused();
    handles_are_checked();
    return 0;
}
