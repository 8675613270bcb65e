//! Interfaces of a bridge: their sockets of AF_XDP, bound to one memory, and errors that say what is missing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::io::Errno;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XdpUmemReg};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use rustix::thread::{CapabilitySet, capabilities};

use super::memory::{CHUNK, Consumer, Descriptor, Producer};
use super::program::Program;
use crate::Interface;
use crate::packet::Socket;
use crate::path::Statistics;

/// Time for which a queue may be busy after its socket was closed, because the kernel frees it on a thread of its own.
///
/// Without it, a bridge that is started again at once would be refused now and then.
const RELEASE: Duration = Duration::from_millis(500);

/// Interface of a bridge, with the socket that receives its frames, and its program.
#[derive(Debug)]
pub(super) struct Port {
    socket: OwnedFd,
    pub(super) program: Program,
    _promiscuous: Socket,
}

/// Rings of a port. Fill and receive ring belong to the direction from it, the completion ring to the direction to it.
#[derive(Debug)]
pub(super) struct Rings {
    pub(super) fill: Producer<u64>,
    pub(super) receive: Consumer<Descriptor>,
    pub(super) complete: Consumer<u64>,
}

/// Memory that sockets are bound to.
#[derive(Clone, Copy)]
pub(super) enum Memory<'m> {
    New(&'m XdpUmemReg),
    Of(&'m Port),
}

impl Port {
    /// Opens a port whose rings have room for `size` chunks, and lets no frame in: all are dropped.
    pub(super) fn open(interface: &Interface, memory: Memory<'_>, size: u32) -> io::Result<(Self, Rings)> {
        let told = |what| move |error| explain(interface, what, error);
        let socket = xdp_socket().map_err(told("open a socket of AF_XDP"))?;
        if let Memory::New(registration) = memory {
            sockopt::set_xdp_umem_reg(&socket, *registration).map_err(told("lock the memory of AF_XDP"))?;
        }
        let rings =
            Rings::map(&socket, size).map_err(|error| explain_io(interface, "map the rings of AF_XDP", &error))?;
        let bind_once = || match memory {
            Memory::New(_) => {
                let address = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_COPY, interface.index(), 0);
                bind(&socket, &address)
            }
            Memory::Of(first) => bind_shared(&socket, interface, 0, first.as_fd()),
        };
        let until = Instant::now() + RELEASE;
        loop {
            match bind_once() {
                Ok(()) => break,
                Err(Errno::BUSY) if Instant::now() < until => thread::sleep(Duration::from_millis(5)),
                Err(error) => return Err(told("bind a socket of AF_XDP to its queue")(error)),
            }
        }
        check_queues(interface, &socket, size)?;
        let program = Program::attach(interface.index()).map_err(told("attach an XDP program"))?;
        let promiscuous = Socket::open()?;
        promiscuous.receive_all(interface.index())?;
        Ok((Self { socket, program, _promiscuous: promiscuous }, rings))
    }

    /// Opens a socket that sends through the port, with a send ring of `size` entries.
    ///
    /// It is not the one that receives, because waiting for frames on a socket sends what is in its own send ring, where
    /// nobody would see a failure.
    pub(super) fn sender(&self, interface: &Interface, size: u32) -> io::Result<(OwnedFd, Producer<Descriptor>)> {
        let told = |error| explain(interface, "open a socket of AF_XDP to send with", error);
        let socket = xdp_socket().map_err(told)?;
        sockopt::set_xdp_tx_ring_size(&socket, size).map_err(told)?;
        let place = sockopt::xdp_mmap_offsets(&socket).map_err(told)?.tx;
        let ring = Producer::map(socket.as_fd(), u64::from(libc::XDP_PGOFF_TX_RING as u32), size, place)?;
        // Room for copies of all frames in the ring, so that the ring and the interface are the only limits.
        sockopt::set_socket_send_buffer_size_force(&socket, size as usize * 2 * CHUNK).map_err(told)?;
        bind_shared(&socket, interface, 0, self.as_fd()).map_err(told)?;
        Ok((socket, ring))
    }

    /// Gives frames to the socket from now on.
    pub(super) fn let_in(&self) -> io::Result<()> {
        Ok(self.program.let_in(&self.socket)?)
    }

    /// Returns what the kernel has lost, as `lost`.
    ///
    /// `rx_dropped` has frames that found no chunk, and those longer than a chunk has room for. The kernel counts the
    /// first kind again as `rx_fill_ring_empty_descs`, so this is not added.
    pub(super) fn losses(&self) -> io::Result<Statistics> {
        let all = sockopt::xdp_statistics(&self.socket)?;
        Ok(Statistics { received: 0, lost: all.rx_dropped + all.rx_ring_full.unwrap_or(0) })
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Rings {
    /// Makes and maps the rings of a socket that is not bound yet.
    ///
    /// The fill ring has twice the size: the kernel shows frames before it shows that it took their entries from the fill
    /// ring, so that all chunks may stand there a second time.
    fn map(socket: &OwnedFd, size: u32) -> io::Result<Self> {
        sockopt::set_xdp_umem_fill_ring_size(socket, 2 * size)?;
        sockopt::set_xdp_umem_completion_ring_size(socket, size)?;
        sockopt::set_xdp_rx_ring_size(socket, size)?;
        let places = sockopt::xdp_mmap_offsets(socket)?;
        let fd = socket.as_fd();
        Ok(Self {
            fill: Producer::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING, 2 * size, places.fr)?,
            receive: Consumer::map(fd, libc::XDP_PGOFF_RX_RING as u64, size, places.rx)?,
            complete: Consumer::map(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, size, places.cr)?,
        })
    }
}

fn xdp_socket() -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)
}

fn bind_shared(socket: &OwnedFd, interface: &Interface, queue: u32, with: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, interface.index(), queue);
    bind(socket, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: with })
}

/// Checks that an interface has one queue, because the program drops frames of all others.
///
/// A second socket tries to take the second queue, which fails with INVAL where there is none. Drivers cannot be asked for
/// their queues all in one way.
fn check_queues(interface: &Interface, with: &OwnedFd, size: u32) -> io::Result<()> {
    let probe = xdp_socket()?;
    let _rings = Rings::map(&probe, size)?;
    if bind_shared(&probe, interface, 1, with.as_fd()) == Err(Errno::INVAL) {
        return Ok(());
    }
    let name = interface.name();
    let text = format!("{name} has several queues, and AF_XDP takes one: ethtool -L {name} combined 1");
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

/// Checks that an interface leaves VLAN tags in frames, because a frame without its tag would go to another network.
pub(super) fn check_tags(interface: &Interface) -> io::Result<()> {
    let name = interface.name();
    if !interface.takes_tags_out()? {
        return Ok(());
    }
    let text =
        format!("{name} takes VLAN tags out of frames, and AF_XDP does not see them: ethtool -K {name} rxvlan off");
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

/// Returns an error that says what could not be done, and what is missing for it.
fn explain(interface: &Interface, what: &str, error: Errno) -> io::Error {
    explain_io(interface, what, &error.into())
}

fn explain_io(interface: &Interface, what: &str, error: &io::Error) -> io::Error {
    let hint = match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS | Errno::NOBUFS) => missing(),
        Some(Errno::AFNOSUPPORT) => "; this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)".to_owned(),
        Some(Errno::BUSY | Errno::EXIST) => "; another program has an XDP program or socket there".to_owned(),
        Some(Errno::NETDOWN) => format!("; ip link set {} up", interface.name()),
        _ => String::new(),
    };
    io::Error::new(error.kind(), format!("{}: cannot {what}: {error}{hint}", interface.name()))
}

/// Returns the capabilities that AF_XDP needs, and those of them that this process lacks.
///
/// In a namespace of users a process has them for the namespace alone, which is not enough.
fn missing() -> String {
    const NEEDED: [(CapabilitySet, &str); 4] = [
        (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        (CapabilitySet::BPF, "CAP_BPF"),
        (CapabilitySet::IPC_LOCK, "CAP_IPC_LOCK"),
    ];
    let has = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let lacks: Vec<&str> = NEEDED.iter().filter(|(one, _)| !has.contains(*one)).map(|(_, name)| *name).collect();
    let lacks =
        if lacks.is_empty() { "none, but a namespace of users limits them".to_owned() } else { lacks.join(", ") };
    format!("; AF_XDP needs CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and CAP_IPC_LOCK; missing: {lacks}")
}
