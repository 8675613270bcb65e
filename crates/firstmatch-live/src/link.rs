//! Interfaces by name.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

use crate::netlink::{self, About};
use crate::packet::ethtool;

/// Interface of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    name: String,
    index: u32,
}

impl Interface {
    /// Returns the interface of a name.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn of_name(name: &str) -> io::Result<Self> {
        let index = netdevice::name_to_index(any_socket()?, name)?;
        Ok(Self { name: name.to_owned(), index })
    }

    /// Returns the name that the interface had at first.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kernel's number of the interface.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Whether the interface is up, whatever its name is now; `None` if it was deleted, or moved to another network
    /// namespace.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn is_up(&self) -> io::Result<Option<bool>> {
        Ok(netlink::about(self.index)?.map(|about| about.flags & libc::IFF_UP as u32 != 0))
    }

    /// Whether frames have the header of Ethernet: the interface is one, or the loopback.
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn is_ethernet(&self) -> io::Result<bool> {
        Ok([libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK].contains(&self.about()?.hardware))
    }

    /// Whether the interface is the loopback, where what is sent comes in again.
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn is_loopback(&self) -> io::Result<bool> {
        Ok(self.about()?.hardware == libc::ARPHRD_LOOPBACK)
    }

    /// Returns the maximum number of bytes of a packet, without the header of Ethernet.
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn mtu(&self) -> io::Result<usize> {
        Ok(self.about()?.mtu as usize)
    }

    /// Returns the name of the bridge, bond or other interface that this one is a port of, if it is one.
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn master(&self) -> io::Result<Option<String>> {
        let Some(master) = self.about()?.master else { return Ok(None) };
        Ok(Some(netdevice::index_to_name(any_socket()?, master)?))
    }

    /// Whether this host has an address on the interface that is valid beyond its link.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn has_address(&self) -> io::Result<bool> {
        netlink::has_address(self.index)
    }

    /// Whether frames of one connection are merged when they are received (GRO or LRO).
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn merges_frames(&self) -> io::Result<bool> {
        let socket = any_socket()?;
        let name = netdevice::index_to_name(&socket, self.index)?;
        ethtool::merges_frames(&socket, &name)
    }

    /// Whether VLAN tags are taken out of received frames, and given to the kernel beside them.
    ///
    /// AF_XDP does not see such a tag, so that a bridge would decide and send the frame without it. For example, a frame
    /// of VLAN 42 would leave untagged. The setting is `rxvlan` of `ethtool -K`. It says nothing of frames that come from
    /// the same host: at a veth, the other end's `txvlan` must be off as well.
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn takes_tags_out(&self) -> io::Result<bool> {
        let socket = any_socket()?;
        let name = netdevice::index_to_name(&socket, self.index)?;
        ethtool::takes_tags_out(&socket, &name)
    }

    fn about(&self) -> io::Result<About> {
        netlink::about(self.index)?.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
    }
}

/// Returns a socket to ask for interfaces with. Any will do, and this kind needs no capability.
fn any_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}
