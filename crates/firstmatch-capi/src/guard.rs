//! The border: panics are caught, handles and pointers are checked.
//!
//! A handle is a box that begins with a number of its type. The number is cleared when the handle is freed. So a handle
//! of another type and most handles that were freed are refused. A freed handle whose memory another object has taken
//! cannot be told from a live one.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use crate::status::{Failure, Status};

/// Type of handles.
pub(crate) trait Handle {
    /// Number at the head of every live handle of this type.
    const MAGIC: u64;
    /// Name of the argument, for messages.
    const NAME: &'static str;
    /// Value behind the handle.
    type Value: Send;
}

/// Nobody uses the handle alone.
const IDLE: u32 = 0;
/// A call uses the handle alone.
const IN_USE: u32 = 1;
/// A panic may have left the value half changed, so that nothing but freeing is allowed.
const DEAD: u32 = 2;

/// Memory of a handle.
#[repr(C)]
struct Boxed<T> {
    magic: AtomicU64,
    state: AtomicU32,
    value: UnsafeCell<T>,
}

/// Runs the body of a function; a panic becomes the code for a mistake of this library.
#[inline(always)]
pub(crate) fn call(body: impl FnOnce() -> Result<(), Failure>) -> i32 {
    match caught(body) {
        Ok(()) => 0,
        Err(failure) => failure.status.code(),
    }
}

/// Runs a body and catches its panic.
#[inline(always)]
pub(crate) fn caught<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(Failure::new(Status::Internal, "a panic was caught")))
}

/// Returns a new handle for a value.
pub(crate) fn open<H: Handle>(value: H::Value) -> *mut H {
    let (magic, state) = (AtomicU64::new(H::MAGIC), AtomicU32::new(IDLE));
    Box::into_raw(Box::new(Boxed { magic, state, value: UnsafeCell::new(value) })).cast()
}

/// Returns the memory of a live handle.
///
/// # Safety
/// `handle` must be null, or lead to at least 16 readable bytes, and must not be freed as long as the result is used.
unsafe fn find<'a, H: Handle>(handle: *const H) -> Result<&'a Boxed<H::Value>, Failure> {
    let boxed = handle.cast::<Boxed<H::Value>>();
    if boxed.is_null() || !boxed.is_aligned() {
        return Err(Failure::invalid(format!("{} is null or unaligned", H::NAME)));
    }
    // SAFETY: the head is readable by the caller's promise, and is only read and written atomically.
    let magic = unsafe { &(*boxed).magic };
    if magic.load(Ordering::Acquire) != H::MAGIC {
        return Err(Failure::invalid(format!("{} is no live handle of its type", H::NAME)));
    }
    // SAFETY: `open` made it, because nothing else writes this number.
    Ok(unsafe { &*boxed })
}

/// Value of a handle that several calls may read at once.
#[derive(Debug)]
pub(crate) struct Shared<'a, T> {
    state: &'a AtomicU32,
    value: &'a T,
    was_panicking: bool,
}

/// Value of a handle that one call at a time uses.
#[derive(Debug)]
pub(crate) struct Exclusive<'a, T> {
    state: &'a AtomicU32,
    value: &'a mut T,
    was_panicking: bool,
}

/// Returns the value of a handle, to be read.
///
/// # Safety
/// As [`find`].
pub(crate) unsafe fn share<'a, H: Handle>(handle: *const H) -> Result<Shared<'a, H::Value>, Failure>
where
    H::Value: Sync,
{
    // SAFETY: the caller's promise.
    let boxed = unsafe { find(handle) }?;
    if boxed.state.load(Ordering::Acquire) == DEAD {
        return Err(dead::<H>());
    }
    // SAFETY: a handle that is shared is never used alone: each type has one of the two ways.
    let value = unsafe { &*boxed.value.get() };
    Ok(Shared { state: &boxed.state, value, was_panicking: thread::panicking() })
}

/// Returns the value of a handle, to be released, even after a panic.
///
/// # Safety
/// As [`find`].
pub(crate) unsafe fn counted<'a, H: Handle>(handle: *const H) -> Result<&'a H::Value, Failure>
where
    H::Value: Sync,
{
    // SAFETY: the caller's promise; a handle that is shared is never used alone.
    unsafe { find(handle).map(|boxed| &*boxed.value.get()) }
}

/// Returns the value of a handle, for this call alone.
///
/// # Safety
/// As [`find`].
pub(crate) unsafe fn lease<'a, H: Handle>(handle: *mut H) -> Result<Exclusive<'a, H::Value>, Failure> {
    // SAFETY: the caller's promise.
    let boxed = unsafe { find(handle) }?;
    match boxed.state.compare_exchange(IDLE, IN_USE, Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => {}
        Err(IN_USE) => return Err(Failure::new(Status::Busy, format!("another thread uses {}", H::NAME))),
        Err(_) => return Err(dead::<H>()),
    }
    // SAFETY: no other call has it, because only one changes the state from idle.
    let value = unsafe { &mut *boxed.value.get() };
    Ok(Exclusive { state: &boxed.state, value, was_panicking: thread::panicking() })
}

/// Frees a handle; null is none.
///
/// # Safety
/// As [`find`]; no other call may use the handle.
pub(crate) unsafe fn close<H: Handle>(handle: *mut H) -> Result<(), Failure> {
    if handle.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    let boxed = unsafe { find(handle) }?;
    if boxed.state.load(Ordering::Acquire) == IN_USE {
        return Err(Failure::new(Status::Busy, format!("another thread uses {}", H::NAME)));
    }
    if boxed.magic.compare_exchange(H::MAGIC, 0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return Err(Failure::invalid(format!("{} is freed already", H::NAME)));
    }
    // SAFETY: `open` made it, and no other call finds it any more.
    drop(unsafe { Box::from_raw(handle.cast::<Boxed<H::Value>>()) });
    Ok(())
}

#[cold]
fn dead<H: Handle>() -> Failure {
    Failure::new(Status::Internal, format!("an earlier call with {} failed by a mistake of this library", H::NAME))
}

impl<T> Deref for Shared<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> Deref for Exclusive<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for Exclusive<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

impl<T> Drop for Shared<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.was_panicking && thread::panicking() {
            self.state.store(DEAD, Ordering::Release);
        }
    }
}

impl<T> Drop for Exclusive<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        let is_dead = !self.was_panicking && thread::panicking();
        self.state.store(if is_dead { DEAD } else { IDLE }, Ordering::Release);
    }
}

/// Place of the caller's for one value.
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Returns the place that a pointer leads to.
    ///
    /// # Safety
    /// `to` must be null, or lead to memory for a value, for as long as the result is used.
    pub(crate) unsafe fn new(to: *mut T, name: &str) -> Result<Self, Failure> {
        if to.is_null() || !to.is_aligned() {
            return Err(Failure::invalid(format!("{name} is null or unaligned")));
        }
        Ok(Self(to))
    }

    /// Writes the value.
    pub(crate) fn set(&self, value: T) {
        // SAFETY: the promise of `new`.
        unsafe { self.0.write(value) }
    }
}

impl<H: Handle> Out<*mut H> {
    /// Returns the place for a new handle, which is null until the call succeeds.
    ///
    /// # Safety
    /// As [`Out::new`].
    pub(crate) unsafe fn handle(to: *mut *mut H) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        let out = unsafe { Self::new(to, "the place for the result") }?;
        out.set(std::ptr::null_mut());
        Ok(out)
    }

    /// Makes a handle for a value and writes it.
    pub(crate) fn give(&self, value: H::Value) {
        self.set(open(value));
    }
}

/// Checks an array of the caller's: `count` values from `first` on, which is null only without a value.
pub(crate) fn check_array<T>(first: *const T, count: usize, name: &str) -> Result<(), Failure> {
    if count == 0 {
        return Ok(());
    }
    if first.is_null() || !first.is_aligned() {
        return Err(Failure::invalid(format!("{name} is null or unaligned")));
    }
    match count.checked_mul(size_of::<T>()) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => Err(Failure::invalid(format!("{name}: {count} is more than memory has room for"))),
    }
}

/// Returns an array of the caller's.
///
/// # Safety
/// If `count` is not 0, `first` must be null or lead to `count` values that do not change as long as the result is used.
pub(crate) unsafe fn array<'a, T>(first: *const T, count: usize, name: &str) -> Result<&'a [T], Failure> {
    check_array(first, count, name)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: not null, aligned, of a possible size, and readable by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// Returns pointers to the structs of an array, which have `size` bytes by the caller's header.
///
/// # Safety
/// As [`array`], of structs of that size.
pub(crate) unsafe fn strided<T>(
    first: *const T,
    size: usize,
    count: usize,
    name: &str,
) -> Result<impl Iterator<Item = *const T>, Failure> {
    check_array(first, count, name)?;
    let bytes = size.checked_mul(count).and_then(|bytes| isize::try_from(bytes).ok());
    if !(8..=4096).contains(&size) || !size.is_multiple_of(align_of::<T>()) || bytes.is_none() {
        return Err(Failure::invalid(format!("{name}: there are not {count} structs of {size} bytes")));
    }
    Ok((0..count).map(move |index| first.wrapping_byte_add(index * size)))
}

/// Returns a text of the caller's.
///
/// # Safety
/// As [`array`].
pub(crate) unsafe fn text<'a>(first: *const c_char, length: usize, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { array(first.cast::<u8>(), length, name) }?;
    std::str::from_utf8(bytes)
        .map_err(|error| Failure::new(Status::Parse, format!("{name} is not UTF-8 at byte {}", error.valid_up_to())))
}

/// Returns a name of the caller's, which ends with NUL.
///
/// # Safety
/// `first` must be null or lead to a text that ends with NUL and does not change as long as the result is used.
pub(crate) unsafe fn name<'a>(first: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if first.is_null() {
        return Err(Failure::invalid(format!("{name} is null")));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(first) };
    text.to_str().map_err(|_| Failure::invalid(format!("{name} is not UTF-8")))
}

/// Returns a struct of the caller's that begins with its own size; members that an older header lacks are zero.
///
/// # Safety
/// `from` must be null or lead to a `u32` that says how many bytes can be read there.
///
/// A `T` of zero bytes must be a valid one, whatever its first four bytes are.
pub(crate) unsafe fn sized<T: Copy>(from: *const T, name: &str) -> Result<T, Failure> {
    /// No version of a struct is larger, in bytes.
    const MOST: usize = 4096;
    if from.is_null() || !from.is_aligned() {
        return Err(Failure::invalid(format!("{name} is null or unaligned")));
    }
    // SAFETY: the size is readable by the caller's promise.
    let size = unsafe { from.cast::<u32>().read() } as usize;
    // Another size would cut a member, so that half a pointer were read.
    if !(8..=MOST).contains(&size) || !size.is_multiple_of(align_of::<T>()) {
        return Err(Failure::invalid(format!("{name} says a size of {size} bytes")));
    }
    // SAFETY: as many bytes as it says are readable, by the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size) };
    let (known, newer) = bytes.split_at(size.min(size_of::<T>()));
    if newer.iter().any(|&byte| byte != 0) {
        let message = format!("{name} sets a member that this version of the library does not know");
        return Err(Failure::new(Status::Unsupported, message));
    }
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: `known` is at most as long as the value, which is valid with any of these bytes or zero.
    unsafe {
        value.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(known.as_ptr(), known.len());
        Ok(value.assume_init())
    }
}

/// Sets a struct of the caller's, which has `size` bytes by the caller's header, to a value that begins with its size.
///
/// # Safety
/// `to` must be null or lead to `size` bytes that can be written.
pub(crate) unsafe fn init<T: Copy>(to: *mut T, size: usize, value: &T, name: &str) -> Result<(), Failure> {
    if to.is_null() || !to.is_aligned() || !(8..=4096).contains(&size) {
        return Err(Failure::invalid(format!("{name} is null, unaligned or of {size} bytes")));
    }
    let common = size.min(size_of::<T>());
    // SAFETY: both have as many bytes; the first four of any struct here are its size.
    unsafe {
        to.cast::<u8>().write_bytes(0, size);
        to.cast::<u8>().copy_from_nonoverlapping(std::ptr::from_ref(value).cast(), common);
        to.cast::<u32>().write(size as u32);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Cell;
    impl Handle for Cell {
        const MAGIC: u64 = 0x1234_5678_9ABC_DEF0;
        const NAME: &'static str = "the cell";
        type Value = u32;
    }
    #[derive(Debug)]
    struct Other;
    impl Handle for Other {
        const MAGIC: u64 = 0x1234_5678_9ABC_DEF1;
        const NAME: &'static str = "the other";
        type Value = u32;
    }

    fn code_of(result: Result<impl Sized, Failure>) -> i32 {
        result.map_or_else(|failure| failure.status.code(), |_| 0)
    }

    #[test]
    fn a_panic_becomes_a_code_and_its_handle_is_dead() {
        let cell = open::<Cell>(7);
        let body = || {
            // SAFETY: a live handle.
            let mut value = unsafe { lease(cell) }?;
            *value += 1;
            if *value == 8 {
                panic!("as if by mistake");
            }
            Ok(())
        };
        assert_eq!(call(body), Status::Internal.code());
        // SAFETY: a live handle.
        unsafe {
            assert_eq!(code_of(lease(cell)), Status::Internal.code());
            assert_eq!(code_of(share(cell.cast_const())), Status::Internal.code());
            assert_eq!(code_of(close(cell)), 0);
        }
    }

    #[test]
    fn a_handle_of_another_type_null_and_two_users_are_refused() {
        let cell = open::<Cell>(7);
        // SAFETY: live handles or null; the values are of one type.
        unsafe {
            assert_eq!(code_of(lease(cell.cast::<Other>())), Status::InvalidArgument.code());
            assert_eq!(code_of(lease::<Cell>(std::ptr::null_mut())), Status::InvalidArgument.code());
            assert_eq!(code_of(lease(cell.byte_add(1))), Status::InvalidArgument.code());
            let first = lease(cell).expect("nobody uses it");
            assert_eq!(code_of(lease(cell)), Status::Busy.code());
            assert_eq!(code_of(close(cell)), Status::Busy.code());
            drop(first);
            assert_eq!(lease(cell).map(|value| *value).ok(), Some(7));
            assert_eq!(code_of(close(cell)), 0);
            assert_eq!(code_of(close::<Cell>(std::ptr::null_mut())), 0);
        }
    }

    #[test]
    fn arrays_are_checked_before_they_are_read() {
        let four = [1u32, 2, 3, 4];
        // SAFETY: what is read is there; the rest is refused.
        unsafe {
            assert_eq!(array(four.as_ptr(), 4, "four").ok(), Some(&four[..]));
            assert_eq!(array::<u32>(std::ptr::null(), 0, "none").ok(), Some(&[][..]));
            for (first, count) in [
                (std::ptr::null(), 1),
                (four.as_ptr().byte_add(1), 1),
                (four.as_ptr(), usize::MAX),
                (four.as_ptr(), usize::MAX / 8 + 1),
            ] {
                assert_eq!(code_of(array(first, count, "bad")), Status::InvalidArgument.code(), "{count}");
            }
        }
    }

    #[test]
    fn structs_of_other_sizes_are_read_or_refused() {
        let sized = |words: &[u32]| {
            // SAFETY: as many bytes as the first word says, or a size that is refused.
            unsafe { sized(words.as_ptr().cast::<[u32; 3]>(), "it") }
        };
        assert_eq!(sized(&[12, 5, 6]).ok(), Some([12, 5, 6]));
        assert_eq!(sized(&[8, 5, 6]).ok(), Some([8, 5, 0]), "an older header");
        assert_eq!(sized(&[16, 5, 6, 0]).ok(), Some([16, 5, 6]), "a newer one without its member");
        assert_eq!(code_of(sized(&[16, 5, 6, 1])), Status::Unsupported.code());
        assert_eq!(code_of(sized(&[4, 0, 0])), Status::InvalidArgument.code());
        assert_eq!(code_of(sized(&[4100, 0, 0])), Status::InvalidArgument.code());
        assert_eq!(code_of(sized(&[10, 0, 0])), Status::InvalidArgument.code(), "half a member");
    }
}
