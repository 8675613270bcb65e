/* Two threads decide packets while a third one changes the rules. */
#include <firstmatch.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH 32
#define CHANGES 50

static firstmatch_firewall *firewall;
static atomic_int done;

static void need(int32_t code, const char *what) {
    if (code == FIRSTMATCH_OK) return;
    fprintf(stderr, "%s: %s\n", what, firstmatch_status_name(code));
    exit(1);
}

/* Each thread has a worker of its own. A batch sees the rules of one commit, here by the value of its one rule. */
static void *decide(void *mixed) {
    /* Keys in the engine's own form: src, dst, sport, dport, proto, and padding to a multiple of four words. */
    _Alignas(16) uint32_t rows[BATCH][8] = {{0}};
    firstmatch_decision decisions[BATCH];
    firstmatch_worker *worker = NULL;
    for (int at = 0; at < BATCH; at++) {
        rows[at][0] = 0x0A000001;
        rows[at][3] = 443;
        rows[at][4] = 6;
    }
    need(firstmatch_worker_new(firewall, &worker), "a worker");
    do {
        need(firstmatch_classify_rows(worker, 0, rows[0], NULL, BATCH, decisions), "a batch");
        for (int at = 1; at < BATCH; at++)
            if (decisions[at].value != decisions[0].value) atomic_fetch_add((atomic_int *)mixed, 1);
    } while (!atomic_load(&done));
    firstmatch_worker_free(worker);
    return NULL;
}

int main(void) {
    static const char rules[] = "family ipv4\ndefault deny\npermit tcp dport 443\n";
    firstmatch_update *update = NULL;
    firstmatch_rule rule;
    pthread_t threads[2];
    atomic_int mixed = 0;
    uint64_t id = 0, generation = 0;
    size_t count = 0;
    need(firstmatch_firewall_from_text(rules, sizeof rules - 1, NULL, &firewall, NULL), "rules");
    need(firstmatch_firewall_rules(firewall, &id, 1, &count), "ids");
    need(firstmatch_update_new(&update), "an update");
    for (int at = 0; at < 2; at++) pthread_create(&threads[at], NULL, decide, &mixed);
    for (uint64_t change = 1; change <= CHANGES; change++) {
        int32_t code;
        need(firstmatch_rule_from_text(&rule, sizeof rule, "permit tcp dport 443", 20), "a rule");
        rule.value = change;
        need(firstmatch_update_replace(update, id, &rule), "an operation");
        /* Nothing happens before the commit, and no worker waits for it. */
        while ((code = firstmatch_update_commit(update, firewall, 0, &id, 1, &generation, NULL)) ==
               FIRSTMATCH_NEEDS_REBUILD)
            need(firstmatch_firewall_rebuild(firewall, NULL), "a rebuild");
        need(code, "a commit");
    }
    atomic_store(&done, 1);
    for (int at = 0; at < 2; at++) pthread_join(threads[at], NULL);
    printf("%llu commits, %d mixed batches\n", (unsigned long long)generation, atomic_load(&mixed));
    firstmatch_update_free(update);
    firstmatch_firewall_release(firewall);
    return 0;
}
