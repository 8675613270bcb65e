//! Settings of network cards.
#![expect(unsafe_code, reason = "a system call that rustix does not have")]

use std::ffi::c_ulong;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// Number of the system call's request.
const SIOCETHTOOL: c_ulong = 0x8946;
/// Commands: whether received frames are merged by the kernel, and flags, one of which says whether the card does so.
const GET_GRO: u32 = 0x2B;
const GET_FLAGS: u32 = 0x25;
const FLAG_LRO: u32 = 1 << 15;
const FLAG_TAGS: u32 = 1 << 8;

/// Argument and answer of a command.
#[repr(C)]
struct Value {
    command: u32,
    value: u32,
}

/// Whether an interface merges received frames of one connection (GRO or LRO). The socket may be of any kind.
pub(crate) fn merges_frames(socket: &impl AsFd, name: &str) -> io::Result<bool> {
    Ok(get(socket, name, GET_GRO)? != 0 || get(socket, name, GET_FLAGS)? & FLAG_LRO != 0)
}

/// Whether an interface takes VLAN tags out of received frames.
pub(crate) fn takes_tags_out(socket: &impl AsFd, name: &str) -> io::Result<bool> {
    Ok(get(socket, name, GET_FLAGS)? & FLAG_TAGS != 0)
}

/// Returns the value of a setting, 0 where there is no such setting.
fn get(socket: &impl AsFd, name: &str, command: u32) -> io::Result<u32> {
    // SAFETY: it has only integers, bytes and pointers, for which zeros are values.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    // The last byte stays 0.
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as _);
    let mut value = Value { command, value: 0 };
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: these commands read and write the value, which lives until the call returns.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if result == 0 {
        return Ok(value.value);
    }
    let error = io::Error::last_os_error();
    if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) { Ok(0) } else { Err(error) }
}
