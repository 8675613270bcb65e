//! Memory for tables: a heap of DPDK over huge pages, if the machine provides them.

use std::ffi::{CString, c_void};
use std::fs;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{anyhow, ensure};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::sys;

const HUGE: usize = 2 << 20;

/// Memory that DPDK needs for itself, in MB.
const OWN_MEGABYTES: usize = 64;

/// Starts DPDK once, with `megabytes` MB of its own, without huge pages, devices or files.
pub(super) fn start(megabytes: usize) -> anyhow::Result<()> {
    static STARTED: OnceLock<Result<(), String>> = OnceLock::new();
    let init = || {
        let words = format!(
            "firstmatch-lab --no-huge --no-pci --no-shconf --no-telemetry --log-level=1 -m {megabytes} \
             --force-max-simd-bitwidth=512"
        );
        // DPDK binds the starting thread to a core and keeps the arguments, so it gets a thread of its own, and
        // arguments that are never freed.
        let thread = std::thread::spawn(move || {
            let words = words.split_whitespace().map(|word| CString::new(word).unwrap_or_default());
            let argv: Vec<_> = words.map(CString::into_raw).chain([null_mut()]).collect();
            let argv = argv.leak();
            // SAFETY: `argv` is as C wants it, NULL at its end, and is never freed.
            unsafe { sys::rte_eal_init(argv.len() as i32 - 1, argv.as_mut_ptr()) }
        });
        match thread.join() {
            Ok(0..) => Ok(()),
            _ => Err("DPDK does not start (rte_eal_init)".to_owned()),
        }
    };
    STARTED.get_or_init(init).clone().map_err(|error| anyhow!(error))
}

/// Heap of DPDK.
#[derive(Debug)]
pub(super) struct Heap {
    /// Number of the heap as a socket.
    pub(super) socket: i32,
    /// Memory of the heap, if it is not DPDK's own.
    memory: Option<Memory>,
}

/// Memory for one table; everything allocated in it is freed before it is dropped.
#[derive(Debug)]
struct Memory {
    name: CString,
    mapped: NonNull<c_void>,
    mapped_len: usize,
    /// Start of the part that is aligned to huge pages.
    at: NonNull<c_void>,
    len: usize,
    /// Whether DPDK has taken the memory.
    added: bool,
}

// SAFETY: the addresses are only given to DPDK, which locks its heaps.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Heap {
    /// Returns the heap that DPDK started with.
    pub(super) fn of_dpdk() -> Self {
        Self { socket: 0, memory: None }
    }

    /// Creates a heap with room for `bytes` bytes and DPDK's own data.
    pub(super) fn new(bytes: usize) -> anyhow::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        start(OWN_MEGABYTES)?;
        let len = (bytes + HUGE).next_multiple_of(HUGE);
        let mapped_len = len + HUGE;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let mapped = unsafe { mmap_anonymous(null_mut(), mapped_len, protection, flags) }?;
        let mapped = NonNull::new(mapped).ok_or_else(|| anyhow!("no memory is mapped"))?;
        // SAFETY: the distance to the next huge page is less than one, and the mapping is longer by one.
        let at = unsafe { mapped.byte_add(mapped.addr().get().next_multiple_of(HUGE) - mapped.addr().get()) };
        // SAFETY: all within the mapping. It is only advice: if it is not taken, pages are small.
        let _small_then = unsafe { madvise(at.as_ptr(), len, Advice::LinuxHugepage) };
        let name = CString::new(format!("lab{}", COUNT.fetch_add(1, Ordering::Relaxed)))?;
        let mut memory = Memory { name, mapped, mapped_len, at, len, added: false };
        let (name, pages) = (memory.name.as_ptr(), (len / HUGE) as u32);
        // SAFETY: the name ends with NUL and outlives the calls; the memory is mapped, aligned, and used by nothing
        // else until `drop`.
        let socket = unsafe {
            ensure!(sys::rte_malloc_heap_create(name) == 0, "DPDK makes no heap");
            let added = sys::rte_malloc_heap_memory_add(name, at.as_ptr(), len, null_mut(), pages, HUGE);
            memory.added = added == 0;
            ensure!(memory.added, "DPDK takes no memory of ours");
            sys::rte_malloc_heap_get_socket(name)
        };
        ensure!(socket >= 0, "DPDK does not know its heap");
        Ok(Self { socket, memory: Some(memory) })
    }

    /// Returns the bytes allocated in the heap.
    pub(super) fn allocated(&self) -> usize {
        let mut stats = sys::HeapStats::default();
        // SAFETY: the place is a whole struct of the type that is written.
        let known = unsafe { sys::rte_malloc_get_socket_stats(self.socket, &raw mut stats) };
        if known == 0 { stats.allocated } else { 0 }
    }

    /// Returns the share of its touched pages that are huge, according to the kernel.
    pub(super) fn huge_share(&self) -> Option<f64> {
        let memory = self.memory.as_ref()?;
        let maps = fs::read_to_string("/proc/self/smaps").ok()?;
        let (from, to) = (memory.at.addr().get(), memory.at.addr().get() + memory.len);
        let (mut inside, mut resident, mut huge) = (false, 0.0, 0.0);
        for line in maps.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let Some((start, end)) = words.first().and_then(|word| word.split_once('-')) {
                let (start, end) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16));
                inside = start.is_ok_and(|start| start < to) && end.is_ok_and(|end| end > from);
            } else if let (true, [name, kilobytes, ..]) = (inside, &words[..]) {
                let kilobytes: f64 = kilobytes.parse().unwrap_or(0.0);
                match *name {
                    "Rss:" => resident += kilobytes,
                    "AnonHugePages:" => huge += kilobytes,
                    _ => {}
                }
            }
        }
        (resident > 0.0).then_some(huge / resident)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let name = self.name.as_ptr();
        // SAFETY: nothing is allocated in it any more; DPDK forgets it, then it is unmapped as it was mapped. If DPDK
        // does not forget it, it stays mapped.
        unsafe {
            let known = self.added && sys::rte_malloc_heap_memory_remove(name, self.at.as_ptr(), self.len) != 0;
            sys::rte_malloc_heap_destroy(name);
            if !known {
                let _mapped_still = munmap(self.mapped.as_ptr(), self.mapped_len);
            }
        }
    }
}
