//! Giving up the user root.
#![expect(unsafe_code, reason = "system calls that act on all threads, and the table of users")]

use std::ffi::{CString, c_char};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Becomes another user for good, in all threads of the process: without its groups and its capabilities.
///
/// # Errors
/// If there is no user of this name, or the process may not become it.
pub fn become_user(name: &str) -> io::Result<()> {
    let (user, group) = find(name)?;
    // SAFETY: no group is read where their number is 0.
    check(unsafe { libc::setgroups(0, ptr::null()) })?;
    // SAFETY: these calls take no pointers.
    check(unsafe { libc::setresgid(group, group, group) })?;
    // SAFETY: as above.
    check(unsafe { libc::setresuid(user, user, user) })
}

/// Returns the numbers of a user and its group.
fn find(name: &str) -> io::Result<(libc::uid_t, libc::gid_t)> {
    let name = CString::new(name)?;
    let mut entry = MaybeUninit::<libc::passwd>::zeroed();
    let mut found: *mut libc::passwd = ptr::null_mut();
    let mut texts: Vec<c_char> = vec![0; 64 << 10];
    // SAFETY: all pointers are to memory of ours that outlives the call, and the buffer's length is its own.
    let result =
        unsafe { libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), texts.as_mut_ptr(), texts.len(), &raw mut found) };
    if result != 0 {
        return Err(io::Error::from_raw_os_error(result));
    }
    if found.is_null() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such user"));
    }
    // SAFETY: it was found, so the entry is filled.
    let entry = unsafe { entry.assume_init() };
    Ok((entry.pw_uid, entry.pw_gid))
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name() {
        assert_eq!(find("root").expect("every system has it"), (0, 0));
        assert_eq!(find("no such user").expect_err("a blank").kind(), io::ErrorKind::NotFound);
    }
}
