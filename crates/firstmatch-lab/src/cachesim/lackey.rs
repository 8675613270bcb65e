//! Reader of the traces that Valgrind's tool Lackey prints: `valgrind --tool=lackey --trace-mem=yes PROGRAM`.
//!
//! Each line is one access: its kind, its address in hexadecimal and its bytes. Lines of Valgrind's own begin with `==`.
//!
//! ```text
//! I  04001e40,3        the processor fetches an instruction of 3 bytes
//!  L 1ffefff7e8,8      it loads 8 bytes
//!  S 1ffefff7e0,8      it stores 8 bytes
//!  M 0421c7cc,4        it loads and stores 4 bytes
//! ```

use std::collections::VecDeque;
use std::io::BufRead;

use anyhow::{Context, bail, ensure};

use super::marks::{LOAD_BYTES, Mark, Watcher};

/// Kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Fetch,
    Load,
    Store,
    /// Load and store of the same bytes by one instruction.
    Modify,
}

/// Access of an instruction to memory, or the fetch of the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) kind: Kind,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// Part of a trace that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// Accesses between a mark of the program's beginning and one of its end; there may be several such parts.
    Marked,
}

/// Reads a trace and hands over each access of the part, with the number of the marked part from 1; 0 for a whole trace.
///
/// # Errors
///
/// If a line is no access, the error has its number and column. It is an error, too, if a marked part does not begin or
/// does not end.
pub(crate) fn read(mut input: impl BufRead, part: Part, mut each: impl FnMut(usize, Access)) -> anyhow::Result<()> {
    let mut marked = Marked::default();
    let (mut line, mut number) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        number += 1;
        if input.read_until(b'\n', &mut line).with_context(|| format!("line {number}"))? == 0 {
            break;
        }
        let text = line.trim_ascii_end();
        if text.starts_with(b"==") || text.is_empty() {
            continue;
        }
        let access = access(text).with_context(|| format!("line {number}"))?;
        match part {
            Part::Whole => each(0, access),
            Part::Marked => marked.take(access, number, &mut each).with_context(|| format!("line {number}"))?,
        }
    }
    match (part, marked.inside, marked.parts) {
        (Part::Whole, ..) => Ok(()),
        (_, true, _) => bail!("line {number}: the trace ends in a part that has begun; expected the mark of its end"),
        (_, false, 0) => {
            bail!("no marked part in {} lines; expected a trace of a program that leaves marks", number - 1)
        }
        _ => Ok(()),
    }
}

fn access(line: &[u8]) -> anyhow::Result<Access> {
    let kind = match line.get(..3) {
        Some(b"I  ") => Kind::Fetch,
        Some(b" L ") => Kind::Load,
        Some(b" S ") => Kind::Store,
        Some(b" M ") => Kind::Modify,
        _ => bail!("column 1: expected `I  `, ` L `, ` S ` or ` M ` and an access, or `==`"),
    };
    let text = std::str::from_utf8(&line[3..]).ok().and_then(|text| text.split_once(','));
    let (address, bytes) = text.context("column 4: expected an address, a comma and the number of bytes")?;
    let parsed = u64::from_str_radix(address, 16).ok();
    let parsed = parsed.with_context(|| format!("column 4: expected an address in hexadecimal, not `{address}`"))?;
    let wanted = || format!("column {}: expected the number of bytes, not `{bytes}`", 5 + address.len());
    Ok(Access { kind, address: parsed, bytes: bytes.parse().ok().filter(|&bytes| bytes > 0).with_context(wanted)? })
}

/// Accesses that a part keeps back, because they may be those of the mark of its end.
const DELAY: usize = 4096;

#[derive(Default)]
struct Marked {
    watcher: Watcher,
    inside: bool,
    parts: usize,
    /// Accesses not handed over yet, each with its line.
    delayed: VecDeque<(u64, Access)>,
}

impl Marked {
    fn take(&mut self, access: Access, number: u64, each: &mut impl FnMut(usize, Access)) -> anyhow::Result<()> {
        if self.inside {
            self.delayed.push_back((number, access));
            if self.delayed.len() > DELAY {
                self.delayed.pop_front().into_iter().for_each(|(_, access)| each(self.parts, access));
            }
        }
        let may_mark = access.kind == Kind::Load && access.bytes == LOAD_BYTES;
        match may_mark.then(|| self.watcher.load(access.address, number)).flatten() {
            Some((Mark::Begin, _)) => {
                ensure!(!self.inside, "a part begins inside another; expected the mark of its end");
                (self.inside, self.parts) = (true, self.parts + 1);
            }
            Some((Mark::End, first)) => {
                ensure!(self.inside, "a part ends that has not begun");
                self.inside = false;
                let of_part = self.delayed.drain(..).filter(|(number, _)| *number < first);
                of_part.for_each(|(_, access)| each(self.parts, access));
            }
            None => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(trace: &str, part: Part) -> anyhow::Result<Vec<Access>> {
        let mut all = Vec::new();
        read(trace.as_bytes(), part, |_, access| all.push(access))?;
        Ok(all)
    }

    #[test]
    fn every_kind_of_line_is_read() {
        let trace =
            "==1== Lackey, an example Valgrind tool\n==1== \nI  04001e40,3\n L 1ffefff7e8,8\n S 10,32\n M 0421c7cc,4\n";
        let access = |kind, address, bytes| Access { kind, address, bytes };
        let expected = [
            access(Kind::Fetch, 0x0400_1e40, 3),
            access(Kind::Load, 0x1f_feff_f7e8, 8),
            access(Kind::Store, 0x10, 32),
            access(Kind::Modify, 0x0421_c7cc, 4),
        ];
        assert_eq!(all(trace, Part::Whole).expect("a trace"), expected);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (line, expected) in [
            ("hello", "line 2: column 1: expected `I  `"),
            (" L", "line 2: column 1: expected"),
            (" L 12", "line 2: column 4: expected an address, a comma"),
            (" L xyz,8", "line 2: column 4: expected an address in hexadecimal, not `xyz`"),
            (" L 12,eight", "line 2: column 7: expected the number of bytes, not `eight`"),
            (" L 12,0", "line 2: column 7: expected the number of bytes, not `0`"),
        ] {
            let error = all(&format!("I  1,1\n{line}\n"), Part::Whole).expect_err(line);
            assert!(format!("{error:#}").contains(expected), "{line}: {error:#}");
        }
    }

    /// Writes loads as a program that leaves marks makes them, with a store between any two.
    fn mark(mark: Mark) -> String {
        super::super::marks::tests::loads(mark, 0x5000).map(|at| format!(" L {at:x},2\n S 9,8\n")).collect()
    }

    #[test]
    fn only_marked_parts_count() {
        let (begin, end) = (mark(Mark::Begin), mark(Mark::End));
        let trace = format!("I  1,1\n{begin} L 20,8\n L 21,1\n{end} L 30,8\n{begin} S 40,4\n{end}");
        let read = all(&trace, Part::Marked).expect("two parts");
        let addresses: Vec<u64> = read.iter().map(|access| access.address).collect();
        // The store after the last load of a mark belongs to the part.
        assert_eq!(addresses, [9, 0x20, 0x21, 9, 0x40]);
        let mut parts = Vec::new();
        super::read(trace.as_bytes(), Part::Marked, |part, _| parts.push(part)).expect("two parts");
        assert_eq!(parts, [1, 1, 1, 2, 2]);
        for (trace, expected) in [
            ("I  1,1\n".to_owned(), "no marked part in 1 lines"),
            (format!("{begin}I  1,1\n"), "the trace ends in a part that has begun"),
            (format!("{begin}{begin}{end}"), "a part begins inside another"),
            (format!("I  1,1\n{end}"), "a part ends that has not begun"),
        ] {
            let error = all(&trace, Part::Marked).expect_err(expected);
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
    }

    /// A part of any length comes whole, although its last accesses are kept back.
    #[test]
    fn long_parts_come_whole() {
        let inside: String = (0..3 * DELAY).map(|at| format!(" L {at:x},2\n")).collect();
        let trace = mark(Mark::Begin) + &inside + &mark(Mark::End);
        assert_eq!(all(&trace, Part::Marked).expect("a part").len(), 3 * DELAY + 1);
    }
}
