// A table of ternary and range entries, as a switch has it, with handles that free themselves.
#include <firstmatch.h>

#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

template <typename T, int32_t (*Free)(T *)> struct Freed {
    void operator()(T *handle) const { Free(handle); }
};
template <typename T, int32_t (*Free)(T *)> using Handle = std::unique_ptr<T, Freed<T, Free>>;
using Error = Handle<firstmatch_error, firstmatch_error_free>;
using Table = Handle<firstmatch_table, firstmatch_table_free>;
using Firewall = Handle<firstmatch_firewall, firstmatch_firewall_release>;
using Worker = Handle<firstmatch_worker, firstmatch_worker_free>;
using Layout = Handle<firstmatch_layout, firstmatch_layout_free>;

// Calls a function whose last argument is the place for an error, and throws its message.
template <typename Function, typename... Arguments> void call(Function function, Arguments... arguments) {
    firstmatch_error *error = nullptr;
    int32_t code = function(arguments..., &error);
    Error owned(error);
    if (code != FIRSTMATCH_OK) throw std::runtime_error(error ? firstmatch_error_message(error) : "failed");
}

// Key: a tenant of 12 bits, an address and a port.
using Key = std::array<uint8_t, 8>;

void add(const Table &table, uint32_t priority, uint64_t value, const Key &key, const Key &mask,
         const firstmatch_range *range) {
    firstmatch_entry entry = {};
    entry.size = sizeof entry;
    entry.priority = priority;
    entry.value = value;
    entry.key = key.data();
    entry.mask = mask.data();
    entry.ranges = range;
    entry.range_count = range ? 1 : 0;
    call(firstmatch_table_add, table.get(), &entry, static_cast<uint64_t *>(nullptr));
}

} // namespace

int main() {
    const firstmatch_table_field fields[] = {{"tenant", 12, FIRSTMATCH_TEST_VALUE},
                                             {"address", 32, FIRSTMATCH_TEST_PREFIX},
                                             {"port", 16, FIRSTMATCH_TEST_RANGE}};
    firstmatch_table *table_handle = nullptr;
    call(firstmatch_table_new, fields, size_t{3}, &table_handle);
    Table table(table_handle);
    const firstmatch_range web = {2, 0, {0, 8000}, {0, 8079}};
    add(table, 20, 100, {0, 7, 10, 0, 0, 0, 0, 0}, {0x0F, 0xFF, 255, 0, 0, 0, 0, 0}, &web);
    add(table, 10, 200, {0, 7, 0, 0, 0, 0, 0, 0}, {0x0F, 0xFF, 0, 0, 0, 0, 0, 0}, nullptr);
    add(table, 30, 300, {0, 0, 0, 0, 0, 1, 0, 0}, {0, 0, 0, 0, 0, 1, 0, 0}, nullptr); // odd addresses

    firstmatch_firewall *firewall_handle = nullptr;
    call(firstmatch_firewall_from_table, table.get(), static_cast<const firstmatch_options *>(nullptr),
         &firewall_handle);
    Firewall firewall(firewall_handle);
    firstmatch_layout *layout_handle = nullptr;
    call(firstmatch_layout_of_keys, firewall.get(), size_t{0}, &layout_handle);
    Layout layout(layout_handle);
    firstmatch_worker *worker_handle = nullptr;
    if (firstmatch_worker_new(firewall.get(), &worker_handle) != FIRSTMATCH_OK) return 1;
    Worker worker(worker_handle);

    const Key keys[] = {{0, 7, 10, 1, 2, 4, 0x1F, 0x40},
                        {0, 7, 11, 1, 2, 4, 0x1F, 0x40},
                        {0, 8, 10, 0, 0, 1, 0, 80},
                        {0, 8, 10, 0, 0, 2, 0, 80}};
    firstmatch_decision decisions[4];
    if (firstmatch_classify_records(worker.get(), layout.get(), keys[0].data(), sizeof(Key), nullptr, 4, decisions) !=
        FIRSTMATCH_OK)
        return 1;
    for (const firstmatch_decision &decision : decisions)
        std::printf("%s %llu\n", decision.rule ? "entry" : "no entry", static_cast<unsigned long long>(decision.value));
    return 0;
}
