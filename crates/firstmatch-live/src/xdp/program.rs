//! The program that the kernel runs for each frame, its map of sockets, and its place at an interface.
#![expect(unsafe_code, reason = "the system call bpf")]

use std::ffi::{CStr, c_int, c_long};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::io::{Errno, Result};

/// Commands of bpf(2).
const MAP_CREATE: c_int = 0;
const MAP_UPDATE: c_int = 2;
const MAP_DELETE: c_int = 3;
const PROGRAM_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;

/// Type of a map from numbers to AF_XDP sockets.
const XSKMAP: u32 = 17;
/// Type of a program for frames that come in.
const PROGRAM_XDP: u32 = 6;
/// Place of such a program: an interface.
const ATTACH_XDP: u32 = 37;

/// The only queue of an interface, which is the only key of its map.
const QUEUE: u32 = 0;
/// Name of map and program, which `bpftool` shows.
const NAME: [u8; 16] = *b"firstmatch\0\0\0\0\0\0";
/// Licence that the kernel asks for, to know which helpers a program may call.
const LICENCE: &CStr = c"MIT";

/// Ways for an interface to run the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// The driver runs it, before the kernel makes a packet of the frame.
    Native,
    /// The kernel runs it for any driver, on a packet. This is slower.
    Generic,
}

/// Program at an interface, which ends with this value, or with the process however that ends.
///
/// The program gives a frame to the socket that the map has for its receive queue. It drops frames of queues without a
/// socket, because a frame that nobody decides must not reach anybody. For example, the host could route it to the other
/// interface. So it drops all frames before [`Program::let_in`] and after [`Program::keep_out`].
#[derive(Debug)]
pub(super) struct Program {
    map: OwnedFd,
    /// Keeps the program at the interface.
    _link: OwnedFd,
    pub(super) mode: Mode,
}

impl Program {
    /// Attaches the program to an interface, by its driver if that can run it.
    ///
    /// # Errors
    /// BUSY or EXIST if the interface has a program already, INVAL if the kernel is older than 5.9.
    pub(super) fn attach(interface: u32) -> Result<Self> {
        let map = bpf(MAP_CREATE, &MapCreate { kind: XSKMAP, key: 4, value: 4, entries: 1, ..MapCreate::default() })?;
        let code = code(map.as_raw_fd());
        let load = ProgramLoad {
            kind: PROGRAM_XDP,
            count: code.len() as u32,
            code: (&raw const code).expose_provenance() as u64,
            licence: LICENCE.as_ptr().expose_provenance() as u64,
            name: NAME,
            ..ProgramLoad::default()
        };
        let program = bpf(PROGRAM_LOAD, &load)?;
        let link = |flags| {
            let program = program.as_raw_fd() as u32;
            bpf(LINK_CREATE, &LinkCreate { program, interface, place: ATTACH_XDP, flags })
        };
        let (link, mode) = match link(XDP_FLAGS_DRV_MODE) {
            Ok(link) => (link, Mode::Native),
            Err(error @ (Errno::PERM | Errno::BUSY | Errno::EXIST)) => return Err(error),
            // The driver cannot, or not with the interface's settings.
            Err(_) => (link(XDP_FLAGS_SKB_MODE)?, Mode::Generic),
        };
        Ok(Self { map, _link: link, mode })
    }

    /// Gives frames to a socket from now on.
    pub(super) fn let_in(&self, socket: &impl AsFd) -> Result<()> {
        let socket = socket.as_fd().as_raw_fd();
        let value = (&raw const socket).expose_provenance() as u64;
        self.change(MAP_UPDATE, value)
    }

    /// Drops frames from now on.
    pub(super) fn keep_out(&self) -> Result<()> {
        match self.change(MAP_DELETE, 0) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        // A processor may still carry a frame to the socket. This call waits until none does: it waits for each reader of
        // the map. Where it is refused, on systems with processors that run without ticks, such a frame may come later.
        let _refused = rustix::thread::membarrier(rustix::thread::MembarrierCommand::Global);
        Ok(())
    }

    fn change(&self, command: c_int, value: u64) -> Result<()> {
        let queue = QUEUE;
        let key = (&raw const queue).expose_provenance() as u64;
        let change = MapChange { map: self.map.as_raw_fd() as u32, unused: 0, key, value, flags: 0 };
        call(command, &change).map(drop)
    }
}

const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Instruction of the kernel's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

/// Returns the program: `return redirect_map(map, frame->rx_queue_index, XDP_DROP)`, where XDP_DROP is what it returns
/// for a queue without a socket.
fn code(map: c_int) -> [Instruction; 6] {
    const QUEUE_INDEX: i16 = 16;
    const XDP_DROP: i32 = 1;
    const REDIRECT_MAP: i32 = 51;
    const MAP_BY_FD: u8 = 1;
    let instruction = |code, to: u8, from: u8, offset, value| {
        let registers = if cfg!(target_endian = "big") { to << 4 | from } else { from << 4 | to };
        Instruction { code, registers, offset, value }
    };
    [
        instruction(0x61, 2, 1, QUEUE_INDEX, 0),  // r2 = word at r1 + 16
        instruction(0x18, 1, MAP_BY_FD, 0, map),  // r1 = address of the map,
        instruction(0, 0, 0, 0, 0),               //      which fills two instructions
        instruction(0xB7, 3, 0, 0, XDP_DROP),     // r3 = XDP_DROP
        instruction(0x85, 0, 0, 0, REDIRECT_MAP), // r0 = redirect_map(r1, r2, r3)
        instruction(0x95, 0, 0, 0, 0),            // return r0
    ]
}

/// Fields of `union bpf_attr`, one type for each command.
///
/// # Safety
/// The type has no padding, and is the beginning of the command's part of the union.
unsafe trait Attributes {}

#[derive(Default)]
#[repr(C)]
struct MapCreate {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct MapChange {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[derive(Default)]
#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    version: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    place: u32,
    flags: u32,
}

// SAFETY: these are the fields of `linux/bpf.h`, all of them aligned without a gap.
unsafe impl Attributes for MapCreate {}
// SAFETY: as above.
unsafe impl Attributes for MapChange {}
// SAFETY: as above.
unsafe impl Attributes for ProgramLoad {}
// SAFETY: as above.
unsafe impl Attributes for LinkCreate {}

/// Runs a command that makes a file descriptor.
fn bpf(command: c_int, attributes: &impl Attributes) -> Result<OwnedFd> {
    let fd = call(command, attributes)?;
    // SAFETY: the kernel has just opened it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

fn call<A: Attributes>(command: c_int, attributes: &A) -> Result<c_long> {
    // SAFETY: the kernel reads these bytes, and zeros beyond them. Addresses in them are of values that live until the end
    // of the call, and have the sizes that map and program are made with.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<A>()) };
    if result < 0 {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    } else {
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::Interface;

    /// Variable of the process in the namespace.
    const INSIDE: &str = "FIRSTMATCH_XDP_PROGRAM";

    #[test]
    fn program_of_another_is_refused() {
        if std::env::var_os(INSIDE).is_none() {
            let script = "ip link add va type veth peer name vb; ip link set lo up; exec \"$@\"";
            let program = std::env::current_exe().unwrap();
            let name = "xdp::program::tests::program_of_another_is_refused";
            let mut command = Command::new("unshare");
            command.args(["-n", "sh", "-ec", script, "sh"]).arg(program).args(["--exact", name, "--nocapture"]);
            let output = command.env(INSIDE, "1").output().unwrap();
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            if !out.contains("running 1 test") || out.contains("no rights") {
                return firstmatch_testkit::skip(&format!("{name}: no namespaces, or no right to load programs"));
            }
            assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
            return;
        }
        let veth = Interface::of_name("vb").unwrap().index();
        let program = match Program::attach(veth) {
            Err(Errno::PERM) => return println!("no rights"),
            program => program.unwrap(),
        };
        assert_eq!(program.mode, Mode::Native);
        let refused = Program::attach(veth).unwrap_err();
        assert!([Errno::BUSY, Errno::EXIST].contains(&refused), "{refused}");
        drop(program);
        Program::attach(veth).unwrap();
        // The loopback has no driver that runs programs.
        let generic = Program::attach(Interface::of_name("lo").unwrap().index()).unwrap();
        assert_eq!(generic.mode, Mode::Generic);
    }
}
