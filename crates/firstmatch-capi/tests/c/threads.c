/* Workers on threads beside a writer: each batch is of one generation, and generations never go back. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#define WORKERS 3
#define COMMITS 100
#define BATCH 64

static firstmatch_firewall *firewall;
static atomic_int done;
static atomic_ulong batches;

/* Every commit swaps the one rule, whose value is the commit's number: all decisions of a batch have one value. */
static void *classify(void *unused) {
    uint8_t bytes[FRAME];
    firstmatch_worker *worker = NULL;
    firstmatch_slice frames[BATCH];
    firstmatch_decision decisions[BATCH];
    uint64_t last = 0, generation;
    (void)unused;
    OK(firstmatch_firewall_retain(firewall));
    OK(firstmatch_worker_new(firewall, &worker));
    tcp_frame(bytes, 80);
    for (int i = 0; i < BATCH; i++) {
        frames[i].bytes = bytes;
        frames[i].length = FRAME;
    }
    do {
        OK(firstmatch_classify_frames(worker, FIRSTMATCH_LINK_ETHERNET, frames, NULL, BATCH, decisions));
        OK(firstmatch_worker_generation(worker, &generation));
        CHECK(generation >= last);
        last = generation;
        for (int i = 0; i < BATCH; i++) CHECK(decisions[i].value == generation);
        atomic_fetch_add(&batches, 1);
    } while (!atomic_load(&done));
    OK(firstmatch_worker_free(worker));
    OK(firstmatch_firewall_release(firewall));
    return NULL;
}

int main(void) {
    pthread_t threads[WORKERS];
    firstmatch_update *update = NULL;
    firstmatch_rule rule;
    uint64_t id;
    size_t count;
    firewall = build("permit\n", NULL);
    OK(firstmatch_update_new(&update));
    OK(firstmatch_firewall_rules(firewall, &id, 1, &count));
    for (int i = 0; i < WORKERS; i++) CHECK(pthread_create(&threads[i], NULL, classify, NULL) == 0);
    for (uint64_t commit = 1; commit <= COMMITS; commit++) {
        int32_t code;
        OK(firstmatch_rule_from_text(&rule, sizeof rule, "permit", 6));
        rule.value = commit;
        OK(firstmatch_update_replace(update, id, &rule));
        do {
            code = firstmatch_update_commit(update, firewall, commit % 2 ? FIRSTMATCH_NO_WAIT : 0, &id, 1, NULL, NULL);
            if (code == FIRSTMATCH_NEEDS_REBUILD) OK(firstmatch_firewall_rebuild(firewall, NULL));
        } while (code == FIRSTMATCH_BUSY || code == FIRSTMATCH_NEEDS_REBUILD);
        OK(code);
    }
    atomic_store(&done, 1);
    for (int i = 0; i < WORKERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(atomic_load(&batches) >= WORKERS);
    OK(firstmatch_update_free(update));
    OK(firstmatch_firewall_release(firewall));
    return 0;
}
