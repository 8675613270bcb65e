//! Options that firewalls are built with.

use std::ffi::c_char;

use firstmatch::core::live::Calls;
use firstmatch::core::rule::ExpansionLimits;
use firstmatch::{Builder, Fields, Firewall, Rebuilds, formats};

use crate::guard;
use crate::status::{Failure, Status};

/// Flag of options: packets and bytes are counted for each rule.
pub const FIRSTMATCH_COUNTERS: u32 = 1;
/// Flag of options: the caller runs rebuilds, so that the library starts no thread.
pub const FIRSTMATCH_REBUILD_BY_CALLER: u32 = 2;
/// Flag of options: keys have all fields, so that later rules may test any of them.
pub const FIRSTMATCH_ALL_FIELDS: u32 = 4;
/// Flag of options: batches have one packet, for which other engines are fast.
pub const FIRSTMATCH_SINGLE_PACKETS: u32 = 8;
/// Flag of options: packets come as records and rows alone, so that fields need no packet header to come from.
pub const FIRSTMATCH_VALUES_ONLY: u32 = 16;
/// Flag of options: `seed` is the seed of hashes. Otherwise it is random.
pub const FIRSTMATCH_SEED: u32 = 32;

const FLAGS: u32 = 63;

/// Options for a firewall. All zero but the size, they are the defaults.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OptionsC {
    /// Size of this struct in bytes.
    pub size: u32,
    /// Sum of flags.
    pub flags: u32,
    /// Most bytes that lookups may use; 0 is no limit.
    pub memory_limit: u64,
    /// Most cache lines that a packet may take in the worst case; 0 is the default.
    pub worst_lines: u32,
    /// Most region tests that a packet may take in the worst case; 0 is the default.
    pub worst_tests: u32,
    /// Most regions that one rule may expand to; 0 is the default.
    pub regions_per_rule: u64,
    /// Most regions that all rules may expand to; 0 is the default.
    pub regions: u64,
    /// Seed of hashes, with the flag `FIRSTMATCH_SEED`.
    pub seed: u64,
    /// Name of the engine, which ends with NUL; null chooses the one that suits the rules.
    pub engine: *const c_char,
}

impl OptionsC {
    const DEFAULT: Self = Self {
        size: size_of::<Self>() as u32,
        flags: 0,
        memory_limit: 0,
        worst_lines: 0,
        worst_tests: 0,
        regions_per_rule: 0,
        regions: 0,
        seed: 0,
        engine: std::ptr::null(),
    };

    /// Returns the options of the caller; null is the default.
    ///
    /// # Safety
    /// `from` must be null or lead to options with their size.
    pub(crate) unsafe fn read(from: *const Self) -> Result<Self, Failure> {
        // SAFETY: the caller's promise; every bit pattern is valid.
        let options = if from.is_null() { Self::DEFAULT } else { unsafe { guard::sized(from, "options") }? };
        if options.flags & !FLAGS != 0 {
            let message = format!("options have the unknown flags {:#x}", options.flags & !FLAGS);
            return Err(Failure::new(Status::Unsupported, message));
        }
        Ok(options)
    }

    /// Returns a builder with these options.
    ///
    /// # Safety
    /// The name of the engine must be null or end with NUL.
    pub(crate) unsafe fn builder(&self) -> Result<Builder, Failure> {
        let has = |flag: u32| self.flags & flag != 0;
        let mut builder = Firewall::builder()
            .counters(has(FIRSTMATCH_COUNTERS))
            .values_only(has(FIRSTMATCH_VALUES_ONLY))
            .fields(self.formats().fields)
            .expansion_limits(self.formats().expansion);
        if has(FIRSTMATCH_REBUILD_BY_CALLER) {
            builder = builder.rebuilds(Rebuilds::Caller);
        }
        if has(FIRSTMATCH_SINGLE_PACKETS) {
            builder = builder.calls(Calls::Packets);
        }
        if has(FIRSTMATCH_SEED) {
            builder = builder.seed(self.seed);
        }
        if self.memory_limit > 0 {
            builder = builder.memory_limit(usize::try_from(self.memory_limit).unwrap_or(usize::MAX));
        }
        if self.worst_lines > 0 || self.worst_tests > 0 {
            let limit = |number: u32| if number == 0 { usize::MAX } else { number as usize };
            builder = builder.worst_case(limit(self.worst_lines), limit(self.worst_tests));
        }
        if !self.engine.is_null() {
            // SAFETY: the caller's promise.
            let name = unsafe { guard::name(self.engine, "engine") }?;
            let engine = builder.engine(name);
            builder = engine.map_err(|error| Failure::new(Status::Unsupported, error.to_string()))?;
        }
        Ok(builder)
    }

    /// Returns the options that texts of rules are read with.
    pub(crate) fn formats(&self) -> formats::Options {
        let mut options = formats::Options::default();
        if self.flags & FIRSTMATCH_ALL_FIELDS != 0 {
            options.fields = Fields::All;
        }
        let limit = |number: u64, default: usize| {
            if number == 0 { default } else { usize::try_from(number).unwrap_or(default) }
        };
        let ExpansionLimits { regions_per_rule, regions_per_set, .. } = options.expansion;
        options.expansion.regions_per_rule = limit(self.regions_per_rule, regions_per_rule);
        options.expansion.regions_per_set = limit(self.regions, regions_per_set);
        options
    }
}

/// Sets options to their defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_options_init(options: *mut OptionsC, size: usize) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise; no more than `size` bytes are written.
        unsafe { guard::init(options, size, &OptionsC::DEFAULT, "options") }
    })
}
