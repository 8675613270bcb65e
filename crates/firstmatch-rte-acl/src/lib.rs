//! Drop-in replacement of DPDK's `librte_acl`: the same functions over the engines of firstmatch.
//!
//! This crate has the functions under their C names, but exports these names only with the feature `exports`, so that a
//! Rust program can call them beside the original:
//!
//! ```
//! use firstmatch_rte_acl::abi::{Config, FieldDef, Param, TYPE_MASK};
//! use firstmatch_rte_acl::*;
//!
//! let param = Param { name: c"doc".as_ptr(), socket_id: -1, rule_size: 32, max_rule_num: 8 };
//! let mut config = Config { num_categories: 1, num_fields: 1, defs: [FieldDef::default(); 64], max_size: 0 };
//! config.defs[0] = FieldDef { kind: TYPE_MASK, size: 4, field_index: 0, input_index: 0, offset: 12 };
//! // Category mask, priority, user data and padding, then the prefix 10.0.0.0/8.
//! let rule: [u32; 8] = [1, 100, 42, 0, 0x0A00_0000, 0, 8, 0];
//! let mut packet = [0u8; 20];
//! packet[12..16].copy_from_slice(&[10, 1, 2, 3]);
//! let (mut keys, mut results) = ([packet.as_ptr()], [0]);
//! // SAFETY: every pointer leads to a whole struct, rule, key or result.
//! unsafe {
//!     let context = rte_acl_create(&param);
//!     assert_eq!(rte_acl_add_rules(context, rule.as_ptr().cast(), 1), 0);
//!     assert_eq!(rte_acl_build(context, &config), 0);
//!     assert_eq!(rte_acl_classify(context, keys.as_mut_ptr(), results.as_mut_ptr(), 1, 1), 0);
//!     rte_acl_free(context);
//! }
//! assert_eq!(results, [42]);
//! ```
//!
//! # Unsafe code
//!
//! C's pointers are followed here: `context` for rules, `classify` and `gather` for keys and results, `border` for
//! structs and names, `eal` for DPDK's own symbols. Each block says what it relies on. No panic crosses the border:
//! every function catches it and answers `-EINVAL`.
#![deny(unsafe_code)]

pub mod abi;
#[expect(unsafe_code, reason = "functions of C")]
mod border;
mod categories;
#[expect(unsafe_code, reason = "pointers of C: keys and results")]
mod classify;
#[expect(unsafe_code, reason = "pointers of C: handles and rules")]
mod context;
mod counts;
#[expect(unsafe_code, reason = "a function of C")]
mod dump;
#[expect(unsafe_code, reason = "symbols of C")]
mod eal;
mod fields;
#[expect(unsafe_code, reason = "pointers of C: keys")]
mod gather;
#[expect(unsafe_code, reason = "an allocator")]
mod huge;
mod kept;
mod names;
#[expect(unsafe_code, reason = "functions of C")]
mod own;
mod plan;
mod retired;
mod session;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "pointers of C: keys; vector instructions")]
mod shuffle;
mod table;
#[cfg(test)]
mod tests;

pub use border::*;
pub use context::Context;
pub use huge::HugePages;
pub use own::*;

#[cfg(feature = "exports")]
#[global_allocator]
static HUGE_PAGES: HugePages = HugePages;
