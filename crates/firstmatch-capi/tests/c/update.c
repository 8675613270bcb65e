/* Recorded transactions, rules from structures, counts and questions. */
#include "check.h"

static firstmatch_rule text_rule(const char *text, uint64_t value) {
    firstmatch_rule rule;
    OK(firstmatch_rule_from_text(&rule, sizeof rule, text, strlen(text)));
    rule.value = value;
    return rule;
}

/* Decides one TCP segment. */
static firstmatch_decision decide(firstmatch_worker *worker, unsigned port) {
    uint8_t bytes[FRAME];
    firstmatch_slice frame = {bytes, FRAME};
    firstmatch_decision decision;
    tcp_frame(bytes, port);
    OK(firstmatch_classify_frames(worker, FIRSTMATCH_LINK_ETHERNET, &frame, NULL, 1, &decision));
    return decision;
}

/* Members of live sets come and go with rules; wrong ones are refused by name. */
static void live_sets_change(void) {
    firstmatch_firewall *firewall = build("live set bad = { 192.0.2.0/24 }\ndeny src $bad tcp\npermit\n", NULL);
    firstmatch_worker *worker = NULL;
    firstmatch_update *update = NULL;
    firstmatch_error *error = NULL;
    firstmatch_decision before, after;
    const char *members[] = {"10.0.0.0-10.0.0.9", "2001:db8::/32", "10.0.0.0-10.0.0.9"};
    uint64_t ids[4];
    uint32_t contains = 7;
    size_t count = 0;
    OK(firstmatch_worker_new(firewall, &worker));
    OK(firstmatch_update_new(&update));
    before = decide(worker, 443);
    OK(firstmatch_update_set_insert(update, "bad", "10.0.0.0/8"));
    OK(firstmatch_update_set_insert(update, "bad", "10.0.0.1"));
    OK(firstmatch_update_set_remove(update, "bad", "10.0.0.0/8"));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_update_set_insert(update, "bad", "10.0.0.1/8"));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_update_set_insert(update, "bad", NULL));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_update_remove(update, FIRSTMATCH_OPERATION(0)));
    OK(firstmatch_update_count(update, &count));
    CHECK(count == 3);
    OK(firstmatch_update_commit(update, firewall, 0, ids, 4, NULL, &error));
    CHECK(error == NULL && ids[0] == 0 && ids[2] == 0);
    after = decide(worker, 443);
    CHECK(before.rule != 0 && after.rule != 0 && after.rule != before.rule);
    OK(firstmatch_set_contains(firewall, "bad", "10.0.0.1", &contains));
    OK(firstmatch_set_len(firewall, "bad", &count));
    CHECK(contains == 1 && count == 2);
    OK(firstmatch_set_contains(firewall, "bad", "10.0.0.2", &contains));
    CHECK(contains == 0);
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_set_contains(firewall, "bad", "10.0.0", &contains));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_set_len(firewall, "worse", &count));
    OK(firstmatch_update_set_replace(update, "bad", members, 3));
    OK(firstmatch_update_commit(update, firewall, 0, NULL, 0, NULL, &error));
    OK(firstmatch_set_len(firewall, "bad", &count));
    CHECK(count == 2 && decide(worker, 443).rule == after.rule);
    OK(firstmatch_update_set_replace(update, "bad", NULL, 0));
    OK(firstmatch_update_set_insert(update, "worse", "10.0.0.1"));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_update_commit(update, firewall, 0, NULL, 0, NULL, &error));
    CHECK(error != NULL && firstmatch_error_operation(error) == 1);
    firstmatch_error_free(error);
    OK(firstmatch_set_len(firewall, "bad", &count));
    CHECK(count == 2 && decide(worker, 443).rule == after.rule);
    OK(firstmatch_update_free(update));
    OK(firstmatch_worker_free(worker));
    OK(firstmatch_firewall_release(firewall));
}

static void changes_are_done_together(void) {
    firstmatch_firewall *firewall = build("permit tcp dport 443\n", NULL);
    firstmatch_worker *worker = NULL;
    firstmatch_update *update = NULL;
    firstmatch_error *error = NULL;
    firstmatch_rule rule = text_rule("deny tcp dport 23", 17);
    uint64_t ids[8], first, generation = 0;
    size_t count = 0;
    OK(firstmatch_worker_new(firewall, &worker));
    OK(firstmatch_update_new(&update));
    OK(firstmatch_firewall_rules(firewall, &first, 1, &count));
    CHECK(count == 1 && first != 0);
    OK(firstmatch_update_insert_before(update, first, &rule));
    rule = text_rule("mark 5 tcp dport 80", 18);
    OK(firstmatch_update_insert_after(update, FIRSTMATCH_OPERATION(0), &rule));
    rule = text_rule("permit udp", 0);
    OK(firstmatch_update_append(update, &rule));
    OK(firstmatch_update_prepend(update, &rule));
    OK(firstmatch_update_remove(update, FIRSTMATCH_OPERATION(3)));
    rule = text_rule("mark 6 tcp dport 80", 19);
    OK(firstmatch_update_replace(update, FIRSTMATCH_OPERATION(1), &rule));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_update_remove(update, FIRSTMATCH_OPERATION(4)));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_update_remove(update, FIRSTMATCH_OPERATION(6)));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_update_remove(update, 0));
    OK(firstmatch_update_count(update, &count));
    CHECK(count == 6);
    CHECK(decide(worker, 23).rule == 0);
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_update_commit(update, firewall, 0, ids, 5, NULL, NULL));
    OK(firstmatch_update_commit(update, firewall, 0, ids, 8, &generation, &error));
    CHECK(generation == 1 && error == NULL && ids[4] == 0 && ids[0] != 0 && ids[5] != ids[1]);
    CHECK(decide(worker, 23).rule == ids[0] && decide(worker, 23).value == 17);
    CHECK(decide(worker, 80).rule == ids[5] && decide(worker, 80).mark == 6 && decide(worker, 80).value == 19);
    CHECK(decide(worker, 443).rule == first);
    OK(firstmatch_worker_generation(worker, &generation));
    CHECK(generation == 1);
    OK(firstmatch_update_count(update, &count));
    CHECK(count == 0);
    OK(firstmatch_firewall_rules(firewall, ids + 6, 2, &count));
    CHECK(count == 4 && ids[6] == ids[0] && ids[7] == ids[5]);

    /* A faulty operation undoes the others, and the update keeps them. */
    OK(firstmatch_update_remove(update, ids[0]));
    rule = text_rule("deny tpc", 0);
    OK(firstmatch_update_append(update, &rule));
    CODE(FIRSTMATCH_PARSE, firstmatch_update_commit(update, firewall, 0, NULL, 0, NULL, &error));
    CHECK(firstmatch_error_operation(error) == 1 && firstmatch_error_fault_count(error) == 1);
    OK(firstmatch_error_free(error));
    CHECK(decide(worker, 23).rule == ids[0]);
    OK(firstmatch_update_count(update, &count));
    CHECK(count == 2);
    OK(firstmatch_update_clear(update));
    OK(firstmatch_update_remove(update, ids[0]));
    OK(firstmatch_update_commit(update, firewall, FIRSTMATCH_NO_WAIT, NULL, 0, NULL, NULL));
    OK(firstmatch_update_remove(update, ids[0]));
    CODE(FIRSTMATCH_STALE, firstmatch_update_commit(update, firewall, 0, NULL, 0, NULL, &error));
    CHECK(firstmatch_error_operation(error) == 0);
    OK(firstmatch_error_free(error));
    CODE(FIRSTMATCH_UNSUPPORTED, firstmatch_update_commit(update, firewall, 2, NULL, 0, NULL, NULL));
    OK(firstmatch_update_clear(update));
    rule = text_rule("permit icmp", 0);
    OK(firstmatch_update_insert_at(update, (uint64_t)1 << 32, &rule));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_update_commit(update, firewall, 0, NULL, 0, NULL, NULL));
    OK(firstmatch_firewall_renumber(firewall, NULL));
    OK(firstmatch_firewall_rebuild(firewall, &error));
    CHECK(decide(worker, 443).rule == first);
    OK(firstmatch_update_free(update));
    OK(firstmatch_worker_free(worker));
    OK(firstmatch_firewall_release(firewall));
}

static void structures_are_rules(void) {
    firstmatch_test ports[2] = {{FIRSTMATCH_TEST_RANGE, 0, {0, 22}, {0, 23}},
                                {FIRSTMATCH_TEST_VALUE, 0, {0, 80}, {0, 0}}};
    firstmatch_test net[2] = {{FIRSTMATCH_TEST_PREFIX, FIRSTMATCH_IPV4, {0, 0x0A000000}, {0, 8}},
                              {FIRSTMATCH_TEST_PREFIX, FIRSTMATCH_IPV6, {0x20010DB800000000, 0}, {0, 32}}};
    firstmatch_test tcp = {FIRSTMATCH_TEST_VALUE, 0, {0, 6}, {0, 0}};
    firstmatch_condition conditions[3] = {{"dport", ports, 2, 0, 0}, {"src", net, 2, 0, 0}, {"proto", &tcp, 1, 0, 0}};
    firstmatch_rule rules[2];
    firstmatch_firewall *firewall = NULL;
    firstmatch_worker *worker = NULL;
    firstmatch_error *error = NULL;
    firstmatch_text *text = NULL;
    uint64_t ids[3];
    size_t count;
    memset(rules, 0, sizeof rules);
    rules[0].size = rules[1].size = sizeof rules[0];
    rules[0].action = FIRSTMATCH_MARK;
    rules[0].mark = 4;
    rules[0].value = 1001;
    rules[0].conditions = conditions;
    rules[0].condition_count = 3;
    rules[1].text = "permit tcp dport 443";
    rules[1].text_length = strlen(rules[1].text);
    OK(firstmatch_firewall_from_rules("default deny\ndeny udp\n", 22, rules, sizeof rules[0], 2, NULL, &firewall,
                                      &error));
    OK(firstmatch_worker_new(firewall, &worker));
    CHECK(decide(worker, 22).value == 1001 && decide(worker, 80).mark == 4);
    CHECK(decide(worker, 443).verdict == FIRSTMATCH_PERMIT && decide(worker, 21).rule == 0);
    OK(firstmatch_firewall_rules(firewall, ids, 3, &count));
    CHECK(count == 3 && decide(worker, 23).rule == ids[1]);
    OK(firstmatch_rule_text(firewall, ids[1], &text));
    CHECK(strcmp(firstmatch_text_bytes(text), "mark 4 dport { 22-23, 80 } src { 10.0.0.0/8, 2001:db8::/32 } tcp") == 0);
    CHECK(firstmatch_text_length(text) == strlen(firstmatch_text_bytes(text)));
    OK(firstmatch_text_free(text));
    OK(firstmatch_worker_free(worker));
    OK(firstmatch_firewall_release(firewall));

    conditions[0].field = "no_field";
    CODE(FIRSTMATCH_INVALID_ARGUMENT,
         firstmatch_firewall_from_rules(NULL, 0, rules, sizeof rules[0], 1, NULL, &firewall, &error));
    CHECK(firstmatch_error_operation(error) == 0 && strstr(firstmatch_error_message(error), "no_field") != NULL);
    OK(firstmatch_error_free(error));
    conditions[0].field = "dport";
    ports[1].kind = 9;
    CODE(FIRSTMATCH_INVALID_ARGUMENT,
         firstmatch_firewall_from_rules(NULL, 0, rules, sizeof rules[0], 1, NULL, &firewall, NULL));
    ports[1].kind = FIRSTMATCH_TEST_VALUE;
    ports[1].first.low = 65536;
    CODE(FIRSTMATCH_INVALID_ARGUMENT,
         firstmatch_firewall_from_rules(NULL, 0, rules, sizeof rules[0], 1, NULL, &firewall, NULL));
    ports[1].first.low = 80;
    rules[0].text = "deny";
    CODE(FIRSTMATCH_INVALID_ARGUMENT,
         firstmatch_firewall_from_rules(NULL, 0, rules, sizeof rules[0], 1, NULL, &firewall, NULL));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_firewall_from_rules(NULL, 0, rules, 7, 1, NULL, &firewall, NULL));
    CHECK(firewall == NULL);
}

static void questions_are_answered(void) {
    firstmatch_options options;
    firstmatch_firewall *firewall;
    firstmatch_worker *worker = NULL;
    firstmatch_text *text = NULL;
    firstmatch_decision decision;
    firstmatch_stats stats;
    firstmatch_count counts[2];
    uint8_t bytes[FRAME];
    uint64_t ids[2], generation = 9;
    size_t count;
    OK(firstmatch_options_init(&options, sizeof options));
    options.flags = FIRSTMATCH_COUNTERS;
    firewall = build("deny tcp dport 23\npermit\ndeny udp\n", &options);
    OK(firstmatch_worker_new(firewall, &worker));
    OK(firstmatch_firewall_rules(firewall, ids, 2, &count));
    CHECK(count == 3);
    OK(firstmatch_firewall_rule_count(firewall, &count));
    CHECK(count == 3);
    for (int i = 0; i < 3; i++) decide(worker, 23);
    decide(worker, 80);
    OK(firstmatch_firewall_counts(firewall, ids, 2, counts));
    CHECK(counts[0].packets == 3 && counts[0].bytes == 3 * FRAME && counts[1].packets == 1);
    ids[1] = 0;
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_firewall_counts(firewall, ids, 2, counts));
    tcp_frame(bytes, 23);
    OK(firstmatch_explain(firewall, FIRSTMATCH_LINK_ETHERNET, bytes, FRAME, &decision, &text));
    CHECK(decision.rule == ids[0] && decision.verdict == FIRSTMATCH_DENY);
    CHECK(strstr(firstmatch_text_bytes(text), "deny tcp dport 23") != NULL);
    OK(firstmatch_text_free(text));
    OK(firstmatch_firewall_counts(firewall, ids, 1, counts));
    CHECK(counts[0].packets == 3);
    OK(firstmatch_rule_text(firewall, ids[0], &text));
    CHECK(strcmp(firstmatch_text_bytes(text), "deny tcp dport 23") == 0);
    OK(firstmatch_text_free(text));
    CODE(FIRSTMATCH_STALE, firstmatch_rule_text(firewall, 1000, &text));
    CHECK(text == NULL);
    OK(firstmatch_firewall_warnings(firewall, &text));
    CHECK(strncmp(firstmatch_text_bytes(text), "3:", 2) == 0);
    OK(firstmatch_text_free(text));
    OK(firstmatch_firewall_engines(firewall, &text));
    CHECK(firstmatch_text_length(text) > 10);
    OK(firstmatch_text_free(text));
    OK(firstmatch_firewall_stats(firewall, 0, &stats, sizeof stats));
    CHECK(stats.size == sizeof stats && stats.rules >= 2 && stats.bytes > 0 && stats.worst_lines > 0);
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_firewall_stats(firewall, 2, &stats, sizeof stats));
    OK(firstmatch_firewall_generation(firewall, &generation));
    CHECK(generation == 0);
    OK(firstmatch_worker_free(worker));
    OK(firstmatch_firewall_release(firewall));
    firewall = build("permit\n", NULL);
    CODE(FIRSTMATCH_UNSUPPORTED, firstmatch_firewall_counts(firewall, ids, 1, counts));
    OK(firstmatch_firewall_release(firewall));
}

static void files_are_read_again(void) {
    const char *before = "deny tcp dport 23\npermit\n", *after = "# Telnet, and SSH\ndeny tcp dport 23\ndeny tcp dport 22\npermit\n";
    const char *fields = "default permit\ndeny vlan_vid 7\ndeny tcp dport 23\n", *faulty = "permit tpc\n";
    firstmatch_firewall *firewall = build(before, NULL);
    firstmatch_worker *worker = NULL;
    firstmatch_error *error = NULL;
    firstmatch_reloaded reloaded;
    firstmatch_layout *layout = NULL;
    firstmatch_decision decision;
    firstmatch_field field;
    firstmatch_place places[] = {{"src", 0, FIRSTMATCH_NETWORK_ORDER, 0}, {"dst", 4, FIRSTMATCH_NETWORK_ORDER, 0}, {"sport", 8, FIRSTMATCH_NETWORK_ORDER, 0}, {"dport", 10, FIRSTMATCH_NETWORK_ORDER, 0}, {"proto", 12, FIRSTMATCH_NETWORK_ORDER, 0}};
    const uint8_t record[13] = {10, 0, 0, 1, 192, 0, 2, 7, 195, 80, 0, 23, 6};
    uint64_t ids[4], now[4];
    size_t count = 0;
    OK(firstmatch_worker_new(firewall, &worker));
    OK(firstmatch_layout_new(firewall, 0, places, 5, &layout, &error));
    OK(firstmatch_firewall_rules(firewall, ids, 4, &count));
    CHECK(count == 2 && decide(worker, 22).rule == ids[1]);
    OK(firstmatch_firewall_reload(firewall, after, strlen(after), &reloaded, sizeof reloaded, &error));
    CHECK(reloaded.size == sizeof reloaded && !reloaded.is_rebuilt && reloaded.generation == 1);
    CHECK(reloaded.kept == 2 && reloaded.inserted == 1 && reloaded.removed == 0);
    OK(firstmatch_firewall_rules(firewall, now, 4, &count));
    CHECK(count == 3 && now[0] == ids[0] && now[2] == ids[1]);
    CHECK(decide(worker, 22).rule == now[1] && decide(worker, 23).line == 2 && decide(worker, 80).line == 4);
    OK(firstmatch_classify_records(worker, layout, record, sizeof record, NULL, 1, &decision));
    CHECK(decision.rule == ids[0]);
    /* Faults change nothing, and nothing to do is no generation. */
    CODE(FIRSTMATCH_PARSE, firstmatch_firewall_reload(firewall, faulty, strlen(faulty), &reloaded, sizeof reloaded, &error));
    OK(firstmatch_error_free(error));
    OK(firstmatch_firewall_reload(firewall, after, strlen(after), NULL, 0, NULL));
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_firewall_reload(firewall, fields, strlen(fields), &reloaded, 4, NULL));
    CHECK(decide(worker, 22).rule == now[1]);
    /* Other fields and another policy: workers follow, layouts are made anew. */
    OK(firstmatch_firewall_reload(firewall, fields, strlen(fields), &reloaded, sizeof reloaded, NULL));
    CHECK(reloaded.is_rebuilt && reloaded.generation == 2 && reloaded.kept == 1 && reloaded.removed == 2);
    CODE(FIRSTMATCH_INVALID_ARGUMENT, firstmatch_classify_records(worker, layout, record, sizeof record, NULL, 1, &decision));
    CHECK(decide(worker, 23).rule == ids[0] && decide(worker, 22).verdict == FIRSTMATCH_PERMIT);
    OK(firstmatch_firewall_field(firewall, 0, 5, &field, sizeof field));
    CHECK(strcmp(field.name, "vlan_vid") == 0);
    OK(firstmatch_layout_free(layout));
    OK(firstmatch_worker_free(worker));
    OK(firstmatch_firewall_release(firewall));
}

int main(void) {
    changes_are_done_together();
    live_sets_change();
    files_are_read_again();
    structures_are_rules();
    questions_are_answered();
    return 0;
}
