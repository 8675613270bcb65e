//! A socket of AF_PACKET, and its options.
#![expect(unsafe_code, reason = "the system calls that rustix does not have")]

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::path::Statistics;

/// Socket for whole frames of one interface.
///
/// It is opened without a protocol, so that no frame of any interface comes in before [`Socket::bind`].
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

impl Socket {
    /// Opens a socket that receives nothing yet.
    ///
    /// # Errors
    /// If the process lacks the capability CAP_NET_RAW, or the kernel AF_PACKET.
    pub fn open() -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it, and nobody else knows it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Binds the socket to an interface: to send there and, if `receives` is true, to receive all of its frames.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn bind(&self, index: u32, receives: bool) -> io::Result<()> {
        let protocol = if receives { libc::ETH_P_ALL as u16 } else { 0 };
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: index as c_int,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address lives until the call returns, and `size` is its own.
        check(unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), size) })
    }

    /// Puts a header before each frame, received or to be sent, that says what its sender has left to do.
    pub(super) fn use_headers(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, PACKET_VNET_HDR, &1)
    }

    /// Makes the socket a member of a group that frames are dealt out to by their flow, and returns the group: a new one,
    /// or `group`.
    pub(super) fn join(&self, group: Option<c_int>) -> io::Result<c_int> {
        // Without the flag for fragments the kernel would put them together, so that N sockets would receive other
        // packets than one. The kernel picks the number of the group, so that two programs share none.
        let unique = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
        let value = group.unwrap_or(0) | ((libc::PACKET_FANOUT_HASH | unique) << 16) as c_int;
        self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &value)?;
        let joined: c_int = self.get(libc::SOL_PACKET, libc::PACKET_FANOUT)?;
        Ok(joined & 0xFFFF)
    }

    /// Receives frames for other hosts, too.
    pub(crate) fn receive_all(&self, index: u32) -> io::Result<()> {
        let (kind, address) = (libc::PACKET_MR_PROMISC as u16, [0; 8]);
        let request = libc::packet_mreq { mr_ifindex: index as c_int, mr_type: kind, mr_alen: 0, mr_address: address };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Returns the counts since the last call; the kernel resets them.
    pub(super) fn take_statistics(&self) -> io::Result<Statistics> {
        let stats: libc::tpacket_stats_v3 = self.get(libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        Ok(Statistics { received: stats.tp_packets.into(), lost: stats.tp_drops.into() })
    }

    /// Keeps frames out from now on. Those kept out are not counted.
    pub(super) fn keep_out(&self, out: KeptOut) -> io::Result<()> {
        let mut program = match out {
            // A detached filter is an error where none is attached.
            KeptOut::None => vec![instruction(libc::BPF_RET, u32::MAX, 0)],
            KeptOut::Outgoing => vec![
                instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, PACKET_TYPE, 0),
                // An equal type goes on one instruction further down.
                instruction(libc::BPF_JMP | libc::BPF_JEQ, libc::PACKET_OUTGOING.into(), 1),
                instruction(libc::BPF_RET, u32::MAX, 0),
                instruction(libc::BPF_RET, 0, 0),
            ],
            KeptOut::All => vec![instruction(libc::BPF_RET, 0, 0)],
        };
        // What it points to lives until the end of the call, which copies it.
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Sets an option. `T` must be the type that the option has in C.
    pub(super) fn set<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let (at, size) = ((&raw const *value).cast::<c_void>(), size_of::<T>() as libc::socklen_t);
        // SAFETY: the kernel reads at most `size` bytes of the value. `keep_out` says why what a filter points to is alive.
        check(unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, option, at, size) })
    }

    /// Returns the value of an option that consists of integers.
    pub(super) fn get<T: Integers>(&self, level: c_int, option: c_int) -> io::Result<T> {
        let mut value = MaybeUninit::<T>::zeroed();
        let mut size = size_of::<T>() as libc::socklen_t;
        let at = value.as_mut_ptr().cast::<c_void>();
        // SAFETY: the kernel writes at most `size` bytes there.
        check(unsafe { libc::getsockopt(self.fd.as_raw_fd(), level, option, at, &raw mut size) })?;
        // SAFETY: every pattern of bytes is a value of these types.
        Ok(unsafe { value.assume_init() })
    }
}

/// Frames that a filter of a socket keeps out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptOut {
    None,
    /// Those that this host sends. The option for it, PACKET_IGNORE_OUTGOING, is without effect in a group of sockets.
    Outgoing,
    All,
}

/// Number of the option, from `linux/if_packet.h`.
const PACKET_VNET_HDR: c_int = 15;
/// Place where a filter finds the kind of a frame: in, out or for another host.
const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;

/// Returns an instruction of a filter. `RET k` keeps k bytes of the frame, and 0 is to keep it out.
fn instruction(code: u32, k: u32, jt: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf: 0, k }
}

/// Types of which every pattern of bytes is a value.
pub(super) trait Integers {}
impl Integers for c_int {}
impl Integers for libc::tpacket_stats_v3 {}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
