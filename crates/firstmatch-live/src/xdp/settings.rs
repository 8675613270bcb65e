//! Settings of interfaces.
#![expect(unsafe_code, reason = "the system calls that rustix does not have")]

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};
use std::{io, mem};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::Interface;
use crate::packet::Socket;

/// Makes an interface receive frames for other hosts, too, for as long as the socket is open.
pub(super) fn receive_all(socket: &Socket, interface: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: interface as c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let (at, size) = ((&raw const request).cast(), size_of_val(&request) as libc::socklen_t);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads at most `size` bytes of the request.
    let result = unsafe { libc::setsockopt(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, at, size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether an interface takes VLAN tags out of frames, and gives them to the kernel beside the frames.
///
/// AF_XDP does not see such a tag, so that a bridge would decide and send the frame without it. For example, a frame of
/// VLAN 42 would leave untagged. The setting is `rxvlan` of `ethtool -K`. It says nothing of frames that come from the same
/// host: at a veth, the other end's `txvlan` must be off as well.
///
/// # Errors
/// If the interface is gone, or its name has changed.
pub fn takes_tags_out(interface: &Interface) -> io::Result<bool> {
    const GET_FLAGS: u32 = 0x25;
    const TAGS_TAKEN_OUT: u32 = 1 << 8;
    const ETHTOOL: u64 = 0x8946;
    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    // Any socket will do, and this kind needs no capability.
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut value = Value { command: GET_FLAGS, data: 0 };
    // SAFETY: it has only integers, bytes and pointers, for which zeros are values.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let name = interface.name().bytes().take(request.ifr_name.len() - 1);
    request.ifr_name.iter_mut().zip(name).for_each(|(to, from)| *to = from as _);
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: this request reads the name, and reads and writes the value, which lives until the end of the call.
    if unsafe { libc::ioctl(socket.as_raw_fd(), ETHTOOL as _, &raw mut request) } < 0 {
        let error = io::Error::last_os_error();
        // The driver has no settings.
        return if error.kind() == io::ErrorKind::Unsupported { Ok(false) } else { Err(error) };
    }
    Ok(value.data & TAGS_TAKEN_OUT != 0)
}
