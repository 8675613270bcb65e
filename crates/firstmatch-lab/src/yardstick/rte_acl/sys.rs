//! Parts of DPDK's C interface: `rte_acl.h`, `rte_eal.h`, `rte_malloc.h` of version 22.11.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `struct rte_acl_ctx`, opaque outside DPDK.
#[repr(C)]
pub(super) struct Ctx {
    _opaque: [u8; 0],
}

pub(super) const MAX_FIELDS: usize = 64;
/// `RTE_ACL_MAX_PRIORITY`
pub(super) const MAX_PRIORITY: i32 = (1 << 29) - 1;

pub(super) const MASK: u8 = 0;
pub(super) const RANGE: u8 = 1;
pub(super) const BITMASK: u8 = 2;

/// `struct rte_acl_field_def`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FieldDef {
    pub(super) kind: u8,
    pub(super) size: u8,
    pub(super) field_index: u8,
    pub(super) input_index: u8,
    pub(super) offset: u32,
}

/// `struct rte_acl_config`
#[repr(C)]
pub(super) struct Config {
    pub(super) num_categories: u32,
    pub(super) num_fields: u32,
    pub(super) defs: [FieldDef; MAX_FIELDS],
    pub(super) max_size: usize,
}

/// `struct rte_acl_field`: two unions of 8 bytes, whose first `size` bytes count.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Field {
    pub(super) value: u64,
    pub(super) mask_range: u64,
}

/// `struct rte_acl_param`
#[repr(C)]
pub(super) struct Param {
    pub(super) name: *const c_char,
    pub(super) socket_id: c_int,
    pub(super) rule_size: u32,
    pub(super) max_rule_num: u32,
}

/// `struct rte_malloc_socket_stats`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeapStats {
    pub(super) total: usize,
    pub(super) free: usize,
    pub(super) greatest_free: usize,
    pub(super) free_count: c_uint,
    pub(super) alloc_count: c_uint,
    pub(super) allocated: usize,
}

unsafe extern "C" {
    pub(super) fn rte_eal_init(argc: c_int, argv: *mut *mut c_char) -> c_int;

    pub(super) fn rte_acl_create(param: *const Param) -> *mut Ctx;
    pub(super) fn rte_acl_free(ctx: *mut Ctx);
    pub(super) fn rte_acl_add_rules(ctx: *mut Ctx, rules: *const c_void, num: u32) -> c_int;
    pub(super) fn rte_acl_build(ctx: *mut Ctx, config: *const Config) -> c_int;
    pub(super) fn rte_acl_set_ctx_classify(ctx: *mut Ctx, algorithm: c_int) -> c_int;
    pub(super) fn rte_acl_classify_alg(
        ctx: *const Ctx,
        data: *const *const u8,
        results: *mut u32,
        num: u32,
        categories: u32,
        algorithm: c_int,
    ) -> c_int;

    pub(super) fn rte_malloc_heap_create(name: *const c_char) -> c_int;
    pub(super) fn rte_malloc_heap_destroy(name: *const c_char) -> c_int;
    pub(super) fn rte_malloc_heap_get_socket(name: *const c_char) -> c_int;
    pub(super) fn rte_malloc_heap_memory_add(
        name: *const c_char,
        at: *mut c_void,
        len: usize,
        iova: *mut u64,
        pages: c_uint,
        page_size: usize,
    ) -> c_int;
    pub(super) fn rte_malloc_heap_memory_remove(name: *const c_char, at: *mut c_void, len: usize) -> c_int;
    pub(super) fn rte_malloc_get_socket_stats(socket: c_int, stats: *mut HeapStats) -> c_int;
}
