//! Frames sent out of an interface, many at a system call.

use std::io::{self, IoSlice};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use super::socket::Socket;
use crate::Interface;
use crate::path::{FrameSender, Sent};

/// Number of times that a frame is tried while a queue is full, and the maximum wait for room before another try.
const TRIES: usize = 3;
const WAIT: Duration = Duration::from_millis(1);

/// Socket that sends frames out of one interface.
#[derive(Debug)]
pub(super) struct Sender {
    socket: Socket,
}

impl Sender {
    /// Opens a sender; with `has_header`, each frame stands behind a header that says what its sender has left to do
    /// ([`VNET_HEADER`](super::block::VNET_HEADER)).
    pub(super) fn open(to: &Interface, has_header: bool) -> io::Result<Self> {
        let socket = Socket::open()?;
        if has_header {
            socket.use_headers()?;
        }
        socket.bind(to.index(), false)?;
        Ok(Self { socket })
    }

    /// Waits for room in the socket's queue.
    fn wait(&self) {
        let wait = Timespec::try_from(WAIT).ok();
        // Where nothing can be waited for, the next try follows at once.
        let _ready = poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], wait.as_ref());
    }
}

impl FrameSender for Sender {
    /// A frame that the kernel does not take is left out and counted.
    fn send(&self, frames: &[IoSlice<'_>]) -> Sent {
        if frames.is_empty() {
            return Sent::default();
        }
        let mut controls: Vec<_> = frames.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let messages = frames.iter().zip(&mut controls);
        let mut messages: Vec<_> =
            messages.map(|(frame, control)| MMsgHdr::new(std::slice::from_ref(frame), control)).collect();
        let (mut at, mut tries, mut lost) = (0, 0, 0);
        while at < messages.len() {
            match sendmmsg(&self.socket, &mut messages[at..], SendFlags::DONTWAIT) {
                Ok(sent) if sent > 0 => (at, tries) = (at + sent, 0),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) if tries + 1 < TRIES => {
                    tries += 1;
                    self.wait();
                }
                Ok(_) | Err(_) => (at, tries, lost) = (at + 1, 0, lost + 1),
            }
        }
        Sent { sent: frames.len() as u64 - lost, lost }
    }
}
