//! Functions of either library, under the same names.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use firstmatch_rte_acl::abi::{Config, Param};
use firstmatch_rte_acl::*;

type Init = unsafe extern "C" fn(c_int, *mut *mut c_char) -> c_int;
type Create = unsafe extern "C" fn(*const Param) -> *mut Context;
type Add = unsafe extern "C" fn(*mut Context, *const c_void, u32) -> c_int;
type Build = unsafe extern "C" fn(*mut Context, *const Config) -> c_int;
type Classify = unsafe extern "C" fn(*const Context, *mut *const u8, *mut u32, u32, u32) -> c_int;
type Reset = unsafe extern "C" fn(*mut Context);
type ResetRules = unsafe extern "C" fn(*mut Context);
type Free = unsafe extern "C" fn(*mut Context);

/// Functions that the script calls; handles are opaque.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    pub(crate) create: Create,
    pub(crate) add: Add,
    pub(crate) build: Build,
    pub(crate) classify: Classify,
    pub(crate) reset: Reset,
    pub(crate) reset_rules: ResetRules,
    pub(crate) free: Free,
}

/// Context of either library.
pub(crate) struct Owned<'a> {
    api: &'a Api,
    handle: *mut Context,
}

/// Sonames of the original.
const NAMES: [&CStr; 4] = [c"librte_acl.so.23", c"librte_acl.so.24", c"librte_acl.so.25", c"librte_acl.so.26"];

impl Api {
    /// Returns the functions of this crate.
    pub(crate) fn own() -> Self {
        Self {
            create: rte_acl_create,
            add: rte_acl_add_rules,
            build: rte_acl_build,
            classify: rte_acl_classify,
            reset: rte_acl_reset,
            reset_rules: rte_acl_reset_rules,
            free: rte_acl_free,
        }
    }

    /// Whether DPDK's library can be loaded; it is loaded by a process of its own, because it cannot be unloaded.
    pub(crate) fn has_original() -> bool {
        let found = std::process::Command::new("ldconfig").arg("-p").output();
        let listed = found.map(|found| String::from_utf8_lossy(&found.stdout).into_owned()).unwrap_or_default();
        NAMES.iter().any(|name| listed.contains(name.to_str().unwrap_or("?")))
    }

    /// Returns DPDK's library, loaded once.
    fn library() -> Option<*mut c_void> {
        // SAFETY: loading DPDK runs its own constructors.
        let load = |name: &&CStr| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        NAMES.iter().map(load).find(|library| !library.is_null())
    }

    /// Returns the address of a function of DPDK.
    pub(crate) fn symbol(name: &CStr) -> *mut c_void {
        let library = Self::library().expect("DPDK's library");
        // SAFETY: an open library, and those that it needs.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        found
    }

    /// Loads DPDK's library and starts DPDK; returns `None` without DPDK.
    pub(crate) fn original() -> Option<Self> {
        Self::library()?;
        let symbol = Self::symbol;
        let words = "beside --no-huge --no-pci --no-shconf --no-telemetry --log-level=1 -m 8192";
        let words = words.split(' ').map(|word| CString::new(word).expect("no NUL").into_raw());
        let argv = words.chain([std::ptr::null_mut()]).collect::<Vec<*mut c_char>>().leak();
        // SAFETY: the functions have these types, and DPDK keeps the arguments, which are never freed.
        unsafe {
            let init = std::mem::transmute::<*mut c_void, Init>(symbol(c"rte_eal_init"));
            assert!(init(argv.len() as c_int - 1, argv.as_mut_ptr()) >= 0, "DPDK starts");
            Some(Self {
                create: std::mem::transmute::<*mut c_void, Create>(symbol(c"rte_acl_create")),
                add: std::mem::transmute::<*mut c_void, Add>(symbol(c"rte_acl_add_rules")),
                build: std::mem::transmute::<*mut c_void, Build>(symbol(c"rte_acl_build")),
                classify: std::mem::transmute::<*mut c_void, Classify>(symbol(c"rte_acl_classify")),
                reset: std::mem::transmute::<*mut c_void, Reset>(symbol(c"rte_acl_reset")),
                reset_rules: std::mem::transmute::<*mut c_void, ResetRules>(symbol(c"rte_acl_reset_rules")),
                free: std::mem::transmute::<*mut c_void, Free>(symbol(c"rte_acl_free")),
            })
        }
    }

    pub(crate) fn create(&self, name: &str, rule_size: usize, max_rule_num: u32) -> Owned<'_> {
        let name = CString::new(name).expect("no NUL");
        let param = Param { name: name.as_ptr(), socket_id: 0, rule_size: rule_size as u32, max_rule_num };
        // SAFETY: parameters with a name.
        let handle = unsafe { (self.create)(&raw const param) };
        assert!(!handle.is_null());
        Owned { api: self, handle }
    }
}

impl Owned<'_> {
    pub(crate) fn add(&self, rules: &[Vec<u8>]) -> c_int {
        // SAFETY: whole rules.
        unsafe { (self.api.add)(self.handle, rules.concat().as_ptr().cast(), rules.len() as u32) }
    }

    pub(crate) fn build(&self, config: &Config) -> c_int {
        // SAFETY: a configuration.
        unsafe { (self.api.build)(self.handle, config) }
    }

    /// Returns code and results of a lookup.
    pub(crate) fn classify(&self, keys: &[Vec<u8>], categories: u32) -> (c_int, Vec<u32>) {
        let mut data: Vec<_> = keys.iter().map(Vec::as_ptr).collect();
        let mut results = vec![0xDEAD; keys.len() * categories as usize];
        let (num, out) = (keys.len() as u32, results.as_mut_ptr());
        // SAFETY: pointers to whole keys, and room for all results.
        let code = unsafe { (self.api.classify)(self.handle, data.as_mut_ptr(), out, num, categories) };
        (code, results)
    }

    pub(crate) fn reset(&self) {
        // SAFETY: a live handle.
        unsafe { (self.api.reset)(self.handle) }
    }

    pub(crate) fn reset_rules(&self) {
        // SAFETY: a live handle.
        unsafe { (self.api.reset_rules)(self.handle) }
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: it is not used any more.
        unsafe { (self.api.free)(self.handle) }
    }
}
