//! Interfaces by name.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

use crate::packet::{Socket, flags_of};

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
        let socket = any_socket()?;
        let flags = netdevice::index_to_name(&socket, self.index)
            .map_err(io::Error::from)
            .and_then(|name| flags_of(&socket, &name));
        match flags {
            Ok(flags) => Ok(Some(flags & libc::IFF_UP != 0)),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NODEV | Errno::NXIO) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Whether frames have the header of Ethernet: the interface is one, or the loopback.
    ///
    /// # Errors
    /// If the process may open no socket of AF_PACKET, or the interface is gone.
    pub fn is_ethernet(&self) -> io::Result<bool> {
        let socket = Socket::open()?;
        socket.bind(self.index, false)?;
        Ok([libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK].contains(&socket.hardware_type()?))
    }
}

/// Returns a socket to ask for interfaces with. Any will do, and this kind needs no capability.
fn any_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}
