//! Copies: each worker takes messages by itself and does all steps with each of them.
//!
//! A message changes threads only if the source is linked to another stage or to the caller.

use std::sync::Arc;

use firstmatch_core::Classifier;

use super::step::{LookupMessage, Step};
use crate::plane::{Message, Outputs, PlaneBuilder, Pulled, Seat, StageId};

/// Result of asking for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched<T> {
    /// Message to work on.
    Message(T),
    /// Message to work on, with its number in order of arrival ([`Outputs::number`]).
    Numbered(u64, T),
    /// No packets now. A source that waits for them must return this at least every 50 ms.
    Nothing,
    /// No more packets come.
    End,
}

/// Returns the one step of a whole lookup.
pub fn whole<T: LookupMessage>(engine: Arc<dyn Classifier>) -> Step<T> {
    Step::improving("whole", engine)
}

/// Adds a source whose workers fetch messages, do all `steps` with each, and send on the messages that are left.
///
/// `fetch` makes the function of each worker that brings messages in. A message that the last step passes on goes to
/// the first link of the stage, if it has one. In a plane in order of arrival, `fetch` must number the messages that
/// are passed on. Without steps it is a source for a [`chain`](super::chain).
pub fn source<T: Message, F: FnMut() -> Fetched<T> + 'static>(
    builder: &mut PlaneBuilder<T>,
    name: &str,
    workers: usize,
    steps: &[Step<T>],
    fetch: impl Fn(&Seat) -> F + Send + Sync + 'static,
) -> StageId {
    let steps = steps.to_vec();
    builder.source(name, workers, move |seat| {
        let mut fetch = fetch(seat);
        let mut work: Vec<_> = steps.iter().map(|step| step.worker(seat)).collect();
        move |out: &mut Outputs<T>| {
            let (number, message) = match fetch() {
                Fetched::Message(message) => (None, message),
                Fetched::Numbered(number, message) => (Some(number), message),
                Fetched::Nothing => return Pulled::Packets(0),
                Fetched::End => return Pulled::End,
            };
            let packets = message.packets();
            let left = work.iter_mut().try_fold(message, |message, work| work(message));
            if let Some(left) = left.filter(|_| out.links() > 0) {
                if let Some(number) = number {
                    out.number(number);
                }
                out.send(left);
            }
            Pulled::Packets(packets)
        }
    })
}
