//! Description of the machine that predictions are for.

use std::fmt;
use std::hint::black_box;
use std::str::FromStr;
use std::time::Instant;

/// Machine in a few numbers, for the predictions of [`meta`](crate::live).
///
/// As text, which [`FromStr`] reads, it has a line `name = value` for each number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Nanoseconds of a step: a multiplication, a shift and an exclusive or, one after another.
    pub step: f64,
    /// Nanoseconds to read a random cache line among as many bytes as [`Self::SIZES`] says.
    ///
    /// No read waits for another.
    pub lines: [f64; 6],
}

/// Machine that the weights of all engines were fitted on, as `firstmatch-lab calibrate` prints it.
const FITTED: Machine = Machine { step: 1.202, lines: [0.773, 0.789, 0.847, 0.943, 1.660, 3.171] };

/// Number of readings of a probe.
///
/// The least counts, because whatever else runs on the machine only adds to a reading.
const READINGS: usize = 5;
const STEPS: u64 = 1 << 14;
const LINE: usize = 64;

impl Machine {
    /// Numbers of bytes that lines are read among: 32 KiB to 32 MiB.
    pub const SIZES: [usize; 6] = [32 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20, 32 << 20];

    const NAMES: [&str; 7] = ["step", "line_32k", "line_128k", "line_512k", "line_2m", "line_8m", "line_32m"];

    /// Measures this machine, with 32 MiB of memory and in a fraction of a second.
    pub fn probe() -> Self {
        let bytes = vec![1u8; Self::SIZES[5]];
        let step = least(STEPS, || (0..STEPS).fold(1, |x: u64, _| mix(x)));
        let lines = Self::SIZES.map(|size| {
            let bytes = &bytes[..size];
            let near: u64 = bytes.iter().step_by(LINE).map(|&byte| u64::from(byte)).sum();
            black_box(near);
            let at = |i: u64| ((mix(i << 32 | i) >> 32) as usize * (size / LINE)) >> 32;
            least(STEPS, || (1..=STEPS).map(|i| u64::from(bytes[at(i) * LINE])).sum())
        });
        Self { step, lines }
    }

    /// Returns the extra nanoseconds of a line among `bytes` bytes over one in the nearest cache.
    ///
    /// Sizes in between are interpolated over their logarithm. For example, with 1 ns among 32 KiB and 2 ns among 128
    /// KiB, a line among 64 KiB takes 0.5 ns more.
    pub(crate) fn far(&self, bytes: f64) -> f64 {
        let place = ((bytes / Self::SIZES[0] as f64).max(1.0).log2() / 2.0).min(5.0);
        let (low, share) = (place.floor().min(4.0), place - place.floor().min(4.0));
        let [a, b] = [0, 1].map(|next| self.lines[low as usize + next] - self.lines[0]);
        (a + share * (b - a)).max(0.0)
    }

    fn numbers(&mut self) -> [&mut f64; 7] {
        let [a, b, c, d, e, f] = &mut self.lines;
        [&mut self.step, a, b, c, d, e, f]
    }
}

#[inline]
fn mix(x: u64) -> u64 {
    let x = x.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^ x >> 29
}

/// Returns the nanoseconds of one of `count` steps in the shortest of some readings.
fn least(count: u64, run: impl Fn() -> u64) -> f64 {
    let reading = |_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64() * 1e9 / count as f64
    };
    (0..READINGS).map(reading).fold(f64::INFINITY, f64::min)
}

impl Default for Machine {
    /// Returns the machine on which the model was fitted.
    ///
    /// It is a core of an AMD EPYC of family 26 (Zen 5) in a virtual machine.
    fn default() -> Self {
        FITTED
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut machine = *self;
        Self::NAMES.iter().zip(machine.numbers()).try_for_each(|(name, value)| writeln!(f, "{name} = {value:.4}"))
    }
}

/// Error: a text describes no machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadMachine {
    line: usize,
    what: String,
}

impl BadMachine {
    /// Returns the line, from 1; one past the last if something is missing.
    pub fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for BadMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for BadMachine {}

impl FromStr for Machine {
    type Err = BadMachine;

    fn from_str(text: &str) -> Result<Self, BadMachine> {
        let mut found = [None; 7];
        let mut count = 0;
        for (index, line) in text.lines().enumerate() {
            count = index + 1;
            let bad = |what: String| BadMachine { line: count, what };
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (name, value) = line.split_once('=').map_or((line, ""), |(name, value)| (name.trim(), value.trim()));
            let Some(at) = Self::NAMES.iter().position(|&of| of == name) else {
                return Err(bad(format!(
                    "`{name}` is nothing of a machine; expected one of {}",
                    Self::NAMES.join(", ")
                )));
            };
            let nanos = value.parse().ok().filter(|&nanos: &f64| nanos > 0.0 && nanos.is_finite());
            let nanos = nanos.ok_or_else(|| bad(format!("`{value}`; expected nanoseconds, a number above 0")))?;
            if found[at].replace(nanos).is_some() {
                return Err(bad(format!("`{name}` a second time")));
            }
        }
        let mut machine = Self::default();
        for ((name, to), value) in Self::NAMES.iter().zip(machine.numbers()).zip(found) {
            *to = value
                .ok_or_else(|| BadMachine { line: count + 1, what: format!("expected `{name} = NANOSECONDS`") })?;
        }
        Ok(machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_the_machine() {
        let machine = Machine { step: 1.25, lines: [0.5, 0.75, 1.0, 2.5, 4.0, 9.125] };
        assert_eq!(machine.to_string().parse(), Ok(machine));
        let said = |text: &str| text.parse::<Machine>().map_err(|bad| bad.to_string());
        let text = machine.to_string();
        let without = text.lines().filter(|line| !line.starts_with("line_2m")).collect::<Vec<_>>().join("\n");
        assert_eq!(said(&without), Err("line 7: expected `line_2m = NANOSECONDS`".to_owned()));
        let twice = format!("# a machine\n\n{text}step = 1\n");
        assert_eq!(said(&twice), Err("line 10: `step` a second time".to_owned()));
        for bad in ["0", "-1", "inf", "NaN", "", "two"] {
            let text = format!("step = {bad}");
            assert_eq!(said(&text), Err(format!("line 1: `{bad}`; expected nanoseconds, a number above 0")));
        }
        assert!(
            said("stop = 1").is_err_and(|said| said.starts_with("line 1: `stop` is nothing of a machine; expected"))
        );
    }

    #[test]
    fn lines_are_interpolated() {
        let machine = Machine { step: 1.0, lines: [1.0, 2.0, 3.0, 5.0, 6.0, 8.0] };
        let sizes = Machine::SIZES.map(|size| machine.far(size as f64));
        assert_eq!(sizes, [0.0, 1.0, 2.0, 4.0, 5.0, 7.0]);
        assert_eq!([0.0, 1e3, 64.0 * 1024.0, 1e12].map(|bytes| machine.far(bytes)), [0.0, 0.0, 0.5, 7.0]);
    }

    #[test]
    fn a_probe_describes_a_machine() {
        let machine = Machine::probe();
        assert!(machine.to_string().parse::<Machine>().is_ok(), "{machine}");
        assert!(machine.step > 0.1 && machine.step < 100.0 && machine.far(32e6) >= 0.0, "{machine}");
    }
}
