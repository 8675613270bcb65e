//! Facts about interfaces, asked for by netlink (rtnetlink(7)), which needs no capability.

use std::io;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// Bytes of the header of a message, and of the one for an interface behind it; that for an address has 8.
const HEADER: usize = 16;
const OF_LINK: usize = 16;
const OF_ADDRESS: usize = 8;
/// Maximum number of bytes that the kernel puts into one datagram.
const DATAGRAM: usize = 32 << 10;
/// Scope of an address that is valid on its link alone.
const SCOPE_LINK: u8 = libc::RT_SCOPE_LINK;

/// Facts about one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// Flags (IFF_…).
    pub(crate) flags: u32,
    /// Hardware type (ARPHRD_…).
    pub(crate) hardware: u16,
    /// Maximum number of bytes of a packet, without the header of Ethernet.
    pub(crate) mtu: u32,
    /// Number of the interface that this one is a port of.
    pub(crate) master: Option<u32>,
}

/// Returns the facts about an interface, or `None` if there is none of this number.
pub(crate) fn about(index: u32) -> io::Result<Option<About>> {
    let mut body = [0; OF_LINK];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    let mut found = None;
    let result = ask(libc::RTM_GETLINK, 0, &body, |message| {
        if kind(message) == libc::RTM_NEWLINK {
            found = link(&message[HEADER..]);
        }
    });
    match result {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => Ok(None),
        Err(error) => Err(error),
        Ok(()) => found.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into()),
    }
}

/// Whether an interface has an address that is valid beyond its link.
pub(crate) fn has_address(index: u32) -> io::Result<bool> {
    let mut has = false;
    ask(libc::RTM_GETADDR, libc::NLM_F_DUMP as u16, &[0; OF_ADDRESS], |message| {
        if let Some(body) = message[HEADER..].first_chunk::<OF_ADDRESS>()
            && kind(message) == libc::RTM_NEWADDR
        {
            has |= word(body, 4) == index && body[3] < SCOPE_LINK;
        }
    })?;
    Ok(has)
}

/// Sends a request and shows the messages of the answer.
fn ask(kind_asked: u16, flags: u16, body: &[u8], mut show: impl FnMut(&[u8])) -> io::Result<()> {
    // Without a protocol it is the first one, NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut request = Vec::with_capacity(HEADER + body.len());
    request.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    request.extend(kind_asked.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16 | flags).to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    send(&socket, &request, SendFlags::empty())?;
    let mut answer = vec![0; DATAGRAM];
    loop {
        let (bytes, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
        let mut rest = &answer[..bytes];
        while rest.len() >= HEADER {
            let length = word(rest, 0) as usize;
            let Some(message) = rest.get(..length).filter(|message| message.len() >= HEADER) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            match i32::from(kind(message)) {
                libc::NLMSG_DONE => return Ok(()),
                libc::NLMSG_ERROR => {
                    let code = message.get(HEADER..HEADER + 4).map_or(0, |_| word(message, HEADER) as i32);
                    return Err(io::Error::from_raw_os_error(-code));
                }
                _ => show(message),
            }
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        }
        if flags == 0 {
            return Ok(());
        }
    }
}

/// Reads the message about an interface, without its first header.
fn link(body: &[u8]) -> Option<About> {
    let head = body.first_chunk::<OF_LINK>()?;
    let mut about = About { hardware: half(head, 2), flags: word(head, 8), mtu: 0, master: None };
    let mut rest = &body[OF_LINK..];
    while rest.len() >= 4 {
        let length = usize::from(half(rest, 0));
        let value = rest.get(4..length)?;
        if value.len() >= 4 {
            match half(rest, 2) {
                libc::IFLA_MTU => about.mtu = word(value, 0),
                libc::IFLA_MASTER => about.master = Some(word(value, 0)),
                _ => {}
            }
        }
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
    }
    Some(about)
}

fn kind(message: &[u8]) -> u16 {
    half(message, 4)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every system has the loopback as number 1, and nobody has given the last number.
    #[test]
    fn the_loopback_is_known() {
        let about = about(1).expect("an answer").expect("the loopback");
        assert_eq!(about.hardware, libc::ARPHRD_LOOPBACK);
        assert!(about.flags & libc::IFF_LOOPBACK as u32 != 0 && about.mtu >= 1_280 && about.master.is_none());
        assert_eq!(super::about(u32::MAX >> 1).expect("an answer"), None);
        assert!(!has_address(u32::MAX >> 1).expect("an answer"));
    }

    /// Messages that end early, or whose attributes have wrong lengths, are no facts.
    #[test]
    fn wrong_messages_are_refused() {
        let mut body = vec![0; OF_LINK];
        body[2..4].copy_from_slice(&1u16.to_ne_bytes());
        let attribute =
            |kind: u16, value: u32| [&8u16.to_ne_bytes()[..], &kind.to_ne_bytes(), &value.to_ne_bytes()].concat();
        body.extend(attribute(libc::IFLA_MTU, 1500));
        body.extend(attribute(libc::IFLA_MASTER, 7));
        let good = About { flags: 0, hardware: 1, mtu: 1500, master: Some(7) };
        assert_eq!(link(&body), Some(good));
        for wrong in [0u16, 3, 9, 300, u16::MAX] {
            body[24..26].copy_from_slice(&wrong.to_ne_bytes());
            assert_eq!(link(&body), None, "{wrong}");
        }
        assert_eq!(link(&body[..15]), None);
    }
}
