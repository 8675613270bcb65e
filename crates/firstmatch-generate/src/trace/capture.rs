//! Writing a trace as a capture.

use std::io::{self, Write};

use etherparse::err::packet::BuildWriteError;
use etherparse::{IpNumber, PacketBuilder};
use firstmatch_core::schema::Family;

use super::{Header, Trace};
use crate::profile::with_ports;

/// Least size of a frame in bytes; shorter frames are padded with zeros.
pub const MIN_FRAME: usize = 64;

/// Ethernet addresses, locally administered because nothing depends on them.
pub(super) const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(super) const RECEIVER: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub(super) const HOPS: u8 = 64;

impl Trace {
    /// Writes the trace as a pcap capture of Ethernet frames, a microsecond apart.
    ///
    /// Each frame has [`MIN_FRAME`] bytes, or as many as its headers take, with correct lengths and checksums. The
    /// rules are not written.
    ///
    /// The packets have exactly the headers of a trace with [`Form::Packets`](super::Form::Packets). For other traces,
    /// ports that a protocol does not have are left out.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn write_pcap<W: Write>(&self, mut out: W) -> io::Result<()> {
        write_head(&mut out)?;
        let mut bytes = Vec::new();
        for (micros, header) in (0u64..).zip(self.iter()) {
            bytes.clear();
            header.append_frame(&mut bytes)?;
            write_record(micros, &bytes, &mut out)?;
        }
        out.flush()
    }
}

/// Writes the head of a capture.
pub(super) fn write_head<W: Write>(out: &mut W) -> io::Result<()> {
    out.write_all(&HEAD.map(u32::to_le_bytes).concat())
}

/// Writes a frame that came `micros` microseconds after the start.
pub(super) fn write_record<W: Write>(micros: u64, frame: &[u8], out: &mut W) -> io::Result<()> {
    let length = frame.len() as u32;
    // Seconds, microseconds, captured bytes and bytes of the packet.
    let [seconds, micros] = [micros / 1_000_000, micros % 1_000_000].map(|of| of as u32);
    out.write_all(&[seconds, micros, length, length].map(u32::to_le_bytes).concat())?;
    out.write_all(frame)
}

/// Head of a pcap file: magic number, version 2.4, time zone, accuracy, bytes kept of a packet, Ethernet.
const HEAD: [u32; 6] = [0xA1B2_C3D4, 4 << 16 | 2, 0, 0, 65_535, 1];

impl Header {
    /// Appends the Ethernet frame of the header, with correct lengths and checksums.
    ///
    /// It has [`MIN_FRAME`] bytes, or as many as its headers take. The ports are left out if the protocol has none.
    ///
    /// # Errors
    /// If the frame cannot be built.
    ///
    /// ```
    /// use firstmatch_core::schema::Family;
    /// use firstmatch_generate::trace::{Header, MIN_FRAME};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let header = Header { src: 1, dst: 2, family: Family::Ipv4, sport: 3, dport: 53, proto: 17, rule: None };
    /// let mut frame = Vec::new();
    /// header.append_frame(&mut frame)?;
    /// assert_eq!((frame.len(), &frame[12..14], frame[23]), (MIN_FRAME, &[8, 0][..], 17));
    /// # Ok(())
    /// # }
    /// ```
    pub fn append_frame(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let before = out.len();
        frame(self, out).map_err(from_build)?;
        out.resize(out.len().max(before + MIN_FRAME), 0);
        Ok(())
    }
}

/// Builds the frame of a header.
fn frame(header: &Header, out: &mut Vec<u8>) -> Result<(), BuildWriteError> {
    let Header { src, dst, family, sport, dport, proto, .. } = *header;
    let ethernet = PacketBuilder::ethernet2(SENDER, RECEIVER);
    let ip = match family {
        Family::Ipv4 => ethernet.ipv4((src as u32).to_be_bytes(), (dst as u32).to_be_bytes(), HOPS),
        Family::Ipv6 => ethernet.ipv6(src.to_be_bytes(), dst.to_be_bytes(), HOPS),
    };
    match (IpNumber(proto), family) {
        (IpNumber::TCP, _) => ip.tcp(sport, dport, 0, u16::MAX).syn().write(out, &[]),
        (IpNumber::UDP, _) => ip.udp(sport, dport).write(out, &[]),
        (IpNumber::ICMP, Family::Ipv4) => ip.icmpv4_echo_request(0, 0).write(out, &[]),
        (IpNumber::IPV6_ICMP, Family::Ipv6) => ip.icmpv6_echo_request(0, 0).write(out, &[]),
        (other, _) if with_ports(proto) => {
            let [a, b] = sport.to_be_bytes();
            let [c, d] = dport.to_be_bytes();
            ip.write(out, other, &[a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0])
        }
        (other, _) => ip.write(out, other, &[]),
    }
}

pub(super) fn from_build(error: BuildWriteError) -> io::Error {
    match error {
        BuildWriteError::Io(error) => error,
        other => io::Error::other(other),
    }
}
