//! Samples of denied packets, written as a capture (pcap) by a thread of its own, or kept for a page.
//!
//! The queue to that thread is bounded: if it is full, a sample is dropped and counted, so that a lane never waits.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::samples::{Decided, Denied, Recent, SNAP, Sample};

/// Minimum time between two samples of a lane, in nanoseconds.
const INTERVAL: u64 = 20_000_000;
/// Maximum number of samples that wait for the writer.
const QUEUE: usize = 256;
/// Time after which samples are in the file, at the latest.
const FLUSH: Duration = Duration::from_millis(200);

/// Taker of samples, one for each lane. It gives them to a [`Writer`], keeps the [last ones](Recent), or does both.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    queue: Option<SyncSender<Sample>>,
    recent: Option<Arc<Recent>>,
    /// Time of the last sample in nanoseconds since 1970.
    last: Option<u64>,
}

impl Sampler {
    /// Returns a sampler that also keeps the last samples of each lane.
    #[must_use]
    pub fn keeping(self) -> Self {
        Self { recent: Some(Arc::default()), ..self }
    }

    /// Returns the sampler of one lane, which keeps samples of its own.
    pub(crate) fn of_lane(&self) -> Self {
        Self { recent: self.recent.as_ref().map(|_| Arc::default()), ..self.clone() }
    }

    /// Returns the samples that are kept, if any are.
    pub(crate) fn recent(&self) -> Option<Arc<Recent>> {
        self.recent.clone()
    }

    /// Whether a packet received at `time` (seconds and nanoseconds) is to be a sample, because the last one was 20 ms
    /// before it or more.
    pub fn is_due(&mut self, time: (u32, u32)) -> bool {
        let now = u64::from(time.0) * 1_000_000_000 + u64::from(time.1);
        // A clock that was set back makes the difference huge.
        let is_due = self.last.is_none_or(|last| now.wrapping_sub(last) >= INTERVAL);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }

    /// Takes a sample with the reason of its verdict; returns false if there is a writer that was behind.
    pub fn take(&self, sample: Sample, decided: Decided) -> bool {
        let is_written = self.queue.as_ref().is_none_or(|queue| queue.try_send(sample.clone()).is_ok());
        if let Some(recent) = &self.recent {
            recent.keep(Denied { sample, decided });
        }
        is_written
    }
}

/// Thread that writes samples.
#[derive(Debug)]
pub struct Writer {
    thread: JoinHandle<io::Result<u64>>,
}

impl Writer {
    /// Starts a writer to `out`, and returns the sender of samples to it.
    ///
    /// # Errors
    /// If the head of the capture cannot be written, or the thread not started.
    pub fn start(out: impl Write + Send + 'static) -> io::Result<(Self, Sampler)> {
        let mut out = BufWriter::new(out);
        let head: [u32; 6] = [
            0xA1B2_3C4D, // times in nanoseconds
            u32::from_ne_bytes([2, 0, 4, 0]).to_le(),
            0,
            0,
            SNAP as u32,
            1, // Ethernet
        ];
        head.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))?;
        out.flush()?;
        let (queue, samples) = sync_channel(QUEUE);
        let thread = thread::Builder::new().name("samples".to_owned()).spawn(move || write(&samples, out))?;
        Ok((Self { thread }, Sampler { queue: Some(queue), recent: None, last: None }))
    }

    /// Waits until all samples are written, and returns their number. All senders must be gone.
    ///
    /// # Errors
    /// If a sample could not be written.
    pub fn finish(self) -> io::Result<u64> {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn write(samples: &Receiver<Sample>, mut out: impl Write) -> io::Result<u64> {
    let mut written = 0;
    loop {
        let sample = match samples.recv_timeout(FLUSH) {
            Ok(sample) => sample,
            Err(RecvTimeoutError::Timeout) => {
                out.flush()?;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return out.flush().map(|()| written),
        };
        let (time, data) = (sample.time(), sample.data());
        let head = [time.0, time.1, data.len() as u32, sample.bytes()];
        head.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))?;
        out.write_all(data)?;
        written += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Bytes that were written, which the test keeps.
    #[derive(Clone, Default)]
    struct Bytes(Arc<Mutex<Vec<u8>>>);

    impl Write for Bytes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const DECIDED: Decided = Decided { rule: None, line: None, outcome: firstmatch::Outcome::NotIp, generation: 0 };

    /// A sample is due 20 ms after the last, and after a clock that was set back.
    #[test]
    fn samples_are_due_by_the_time_of_packets() {
        let (writer, mut sampler) = Writer::start(io::sink()).expect("started");
        let times = [(5, 0), (5, 19_999_999), (5, 20_000_000), (6, 0), (6, 1), (1, 0), (1, 5)];
        let due: Vec<bool> = times.map(|time| sampler.is_due(time)).into();
        assert_eq!(due, [true, false, true, true, false, true, false]);
        drop(sampler);
        assert_eq!(writer.finish().expect("written"), 0);
    }

    /// The capture has the first bytes of each packet, its time and its length on the wire.
    #[test]
    fn captures_have_what_was_offered() {
        let bytes = Bytes::default();
        let (writer, sampler) = Writer::start(bytes.clone()).expect("started");
        assert!(sampler.take(Sample::new((1, 2), &[7; 600], 700), DECIDED));
        assert!(sampler.take(Sample::new((3, 4), &[8; 60], 60), DECIDED));
        drop(sampler);
        assert_eq!(writer.finish().expect("written"), 2);
        let bytes = bytes.0.lock().expect("no panic").clone();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let head = [0, 4, 16, 20].map(word);
        assert_eq!(head, [0xA1B2_3C4D, 0x0004_0002, 512, 1]);
        assert_eq!([24, 28, 32, 36].map(word), [1, 2, 512, 700]);
        assert_eq!([552, 556, 560, 564].map(word), [3, 4, 60, 60]);
        assert_eq!((&bytes[40..552], &bytes[568..]), (&[7; 512][..], &[8; 60][..]));
    }

    /// A writer that is stuck costs samples, and no lane waits for it.
    #[test]
    fn a_full_queue_drops_samples() {
        let (_reader, pipe) = io::pipe().expect("a pipe");
        let (_writer, sampler) = Writer::start(pipe).expect("started");
        let taken = (0..5_000).filter(|_| sampler.take(Sample::new((0, 0), &[0; 512], 512), DECIDED)).count();
        assert!((QUEUE..5_000).contains(&taken), "{taken}");
    }
}
