//! Structs of DPDK's `rte_acl.h`, the same from ABI 23 to 26.
//!
//! Rules are read as bytes, because their length is known at run time only:
//!
//! ```text
//! byte   0               4          8          12        16 + 16 f      24 + 16 f
//!        category mask   priority   userdata   padding   value of f     mask, length or upper bound of f
//! ```

use std::ffi::{c_char, c_int, c_void};

/// Largest number of field definitions of a configuration.
pub const MAX_FIELDS: usize = 64;
/// Largest number of categories.
pub const MAX_CATEGORIES: u32 = 16;
/// Largest priority of a rule; the smallest is 1.
pub const MAX_PRIORITY: i32 = (1 << 29) - 1;
/// Number of bytes of a name that are kept, with its NUL.
pub const NAME_SIZE: usize = 32;

/// Number of bytes of a rule before its first field.
pub const RULE_HEAD: usize = 16;
/// Number of bytes of a field in a rule.
pub const FIELD_SIZE: usize = 16;

/// `RTE_ACL_FIELD_TYPE_MASK`: a prefix.
pub const TYPE_MASK: u8 = 0;
/// `RTE_ACL_FIELD_TYPE_RANGE`: a lower and an upper bound.
pub const TYPE_RANGE: u8 = 1;
/// `RTE_ACL_FIELD_TYPE_BITMASK`: a value under a mask.
pub const TYPE_BITMASK: u8 = 2;

/// `struct rte_acl_field_def`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldDef {
    /// Type of the field, one of the constants `TYPE_…`.
    pub kind: u8,
    /// Number of bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// Index of the field in a rule.
    pub field_index: u8,
    /// Number of the group of fields that lie one behind the other in a key.
    pub input_index: u8,
    /// Offset in the key, of which that of a group's first field counts.
    pub offset: u32,
}

/// `struct rte_acl_config`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Number of categories to build.
    pub num_categories: u32,
    /// Number of definitions in use.
    pub num_fields: u32,
    /// Definitions of the fields.
    pub defs: [FieldDef; MAX_FIELDS],
    /// Limit on the bytes of the built table; 0 is none.
    pub max_size: usize,
}

/// `struct rte_acl_param`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Name of the context.
    pub name: *const c_char,
    /// Socket to allocate memory on; checked and otherwise without effect.
    pub socket_id: c_int,
    /// Bytes from one rule to the next.
    pub rule_size: u32,
    /// Largest number of rules.
    pub max_rule_num: u32,
}

/// `struct rte_acl_mem_hook` of DPDK 26.03 and later.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemHook {
    /// Function that allocates zeroed memory.
    pub zalloc: Option<unsafe extern "C" fn(*mut c_char, usize, usize, i32, *mut c_void) -> *mut c_void>,
    /// Function that frees it.
    pub free: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    /// Argument of both.
    pub udata: *mut c_void,
}

/// `struct firstmatch_acl_rule` of this library's own header: rules by priority and user data.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleName {
    /// Priority of the rules.
    pub priority: i32,
    /// User data of the rules.
    pub userdata: u32,
}

/// `struct firstmatch_acl_results` of this library's own header: a rule and the number of its results.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleResults {
    /// Priority of the rule.
    pub priority: i32,
    /// User data of the rule.
    pub userdata: u32,
    /// Number of its results.
    pub results: u64,
}

const _: () = {
    assert!(
        size_of::<RuleName>() == 8 && size_of::<RuleResults>() == 16 && std::mem::offset_of!(RuleResults, results) == 8
    );
    assert!(size_of::<FieldDef>() == 8 && align_of::<FieldDef>() == 4);
    assert!(size_of::<Config>() == 528 && std::mem::offset_of!(Config, defs) == 8);
    assert!(std::mem::offset_of!(Config, max_size) == 520);
    assert!(size_of::<Param>() == 24 && std::mem::offset_of!(Param, max_rule_num) == 16);
    assert!(size_of::<MemHook>() == 24);
};

/// Error of a function, as the number that C gets without its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// `-EINVAL`: an argument is wrong.
    Invalid,
    /// `-ENOMEM`: there is no room.
    NoMemory,
    /// `-ERANGE`: the table would exceed `max_size`.
    TooLarge,
    /// `-ENOTSUP`: this machine lacks the algorithm.
    Unsupported,
    /// `-ENOENT`: there is no such thing.
    Missing,
    /// `-EEXIST`: there is one already.
    Exists,
}

impl Code {
    /// Returns the positive error number of C.
    pub(crate) fn number(self) -> c_int {
        match self {
            Self::Invalid => libc::EINVAL,
            Self::NoMemory => libc::ENOMEM,
            Self::TooLarge => libc::ERANGE,
            Self::Unsupported => libc::ENOTSUP,
            Self::Missing => libc::ENOENT,
            Self::Exists => libc::EEXIST,
        }
    }
}

/// Returns 0 or the negative error number, as C gets them.
pub(crate) fn status(result: Result<(), Code>) -> c_int {
    result.map_or_else(|code| -code.number(), |()| 0)
}
