//! Parts of DPDK's environment layer that are used if the process has them.
//!
//! The library has no dependency on DPDK. Symbols are looked up when they are needed, so that programs without DPDK can
//! use it, too.

use std::ffi::{CStr, c_int, c_uint, c_void};

use crate::abi::Code;

/// Largest number of sockets of a build of DPDK.
const MOST_SOCKETS: c_int = 32;
/// Number of the first heap that a program adds to DPDK.
const FIRST_EXTERNAL: c_int = 256;

/// Returns the address of a symbol of the process.
fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Stores an error number in `rte_errno` of this thread.
pub(crate) fn set_errno(code: Code) {
    if let Some(errno) = symbol(c"per_lcore__rte_errno") {
        // SAFETY: the symbol is a thread-local `int`, and `dlsym` returns the address for the calling thread.
        unsafe { *errno.cast::<c_int>() = code.number() }
    }
}

/// Whether memory may be asked for on a socket.
///
/// DPDK checks this only if it has huge pages.
pub(crate) fn has_socket(socket: c_int) -> bool {
    let has_huge_pages = symbol(c"rte_eal_has_hugepages").is_some_and(|function| {
        // SAFETY: `int rte_eal_has_hugepages(void)`
        let function: extern "C" fn() -> c_int = unsafe { std::mem::transmute(function) };
        function() != 0
    });
    !has_huge_pages || socket == -1 || (0..MOST_SOCKETS).contains(&socket) || socket >= FIRST_EXTERNAL
}

/// Returns the largest width of vectors in bits that DPDK may use.
fn simd_bits() -> u32 {
    symbol(c"rte_vect_get_max_simd_bitwidth").map_or(256, |function| {
        // SAFETY: `uint16_t rte_vect_get_max_simd_bitwidth(void)`
        let function: extern "C" fn() -> u16 = unsafe { std::mem::transmute(function) };
        u32::from(function())
    })
}

/// Number of `RTE_ACL_CLASSIFY_DEFAULT`.
pub(crate) const DEFAULT: c_int = 0;
const SCALAR: c_int = 1;
/// Algorithms of this architecture from best to worst, and the bits of vectors that each needs.
#[cfg(target_arch = "x86_64")]
const VECTORS: [(c_int, u32); 4] = [(7, 512), (6, 256), (3, 256), (2, 128)];
#[cfg(target_arch = "aarch64")]
const VECTORS: [(c_int, u32); 1] = [(4, 128)];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const VECTORS: [(c_int, u32); 0] = [];
/// Returns the largest number of an algorithm that DPDK knows: 7, or 8 for RISC-V's since 26.07.
fn last_algorithm() -> c_int {
    let number = |name| {
        symbol(name).map_or(0, |function| {
            // SAFETY: `unsigned int rte_version_year(void)`, and the same for the month.
            let function: extern "C" fn() -> c_uint = unsafe { std::mem::transmute(function) };
            function()
        })
    };
    let version = (number(c"rte_version_year"), number(c"rte_version_month"));
    if version >= (26, 7) { 8 } else { 7 }
}

#[cfg(target_arch = "x86_64")]
fn has_instructions(algorithm: c_int) -> bool {
    match algorithm {
        2 => is_x86_feature_detected!("sse4.1"),
        3 => is_x86_feature_detected!("avx2"),
        _ => {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512cd")
                && is_x86_feature_detected!("avx512bw")
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn has_instructions(_algorithm: c_int) -> bool {
    true
}

/// Checks the number of an algorithm as the original does. All of them run the same code here.
///
/// # Errors
/// If no version of DPDK knows it, or this machine lacks it or may not use vectors as wide.
pub(crate) fn check_algorithm(algorithm: c_int) -> Result<(), Code> {
    if !(SCALAR..=last_algorithm()).contains(&algorithm) {
        return Err(Code::Invalid);
    }
    let is_there =
        |&(number, bits): &(c_int, u32)| number == algorithm && simd_bits() >= bits && has_instructions(algorithm);
    if algorithm == SCALAR || VECTORS.iter().any(is_there) { Ok(()) } else { Err(Code::Unsupported) }
}

/// Returns the number of the algorithm that the original would choose.
pub(crate) fn best_algorithm() -> c_int {
    VECTORS.iter().map(|&(number, _)| number).find(|&number| check_algorithm(number).is_ok()).unwrap_or(SCALAR)
}
