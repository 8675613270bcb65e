//! Threads that carry packets through classification, in stages with rings between them.
//!
//! A [`PlaneBuilder`] takes stages and links, and starts a [`Plane`]. A *stage* has one or more *workers*, each a
//! thread that owns its state. A *link* leads from a stage to another, with one *ring* for each pair of workers. Rings
//! carry *messages* of a type of the caller's ([`Message`]), usually batches of packets.
//!
//! ```text
//!            ring     ┌ first ┐    ring     ┌ second ┐   ring
//!          ┌────────▶ │ worker│ ──────────▶ │ worker │ ────────┐
//!  send ───┤          └───────┘ ╲         ╱ └────────┘         ├──▶ recv
//! (caller) │                      ╲     ╱                      │   (caller)
//!          │          ┌───────┐     ╲ ╱     ┌────────┐         │
//!          └────────▶ │ worker│ ──────────▶ │ worker │ ────────┘
//!                     └ stage ┘  4 rings    └ stage  ┘
//! ```
//!
//! # The forms
//!
//! | form | stages | rings |
//! |---|---|---|
//! | replicated | one [source](PlaneBuilder::source), whose workers pull packets and do everything | none |
//! | context-pipelined (Bitmap-RFC 5.5) | one for each part of a lookup, each with any number of workers | each stage to the next |
//! | field-pipelined (Pnpf, Shaikot 5.6) | input, one for each field, output | each stage to the next |
//! | Storm (section 3) | caches, full classifiers, one updater | hits leave the caches; misses go on by [`Dispatch::Lane`]; samples and evolved rules take lossy links, the latter back to the caches |
//!
//! The module `systems` builds such planes from engines, and `tests/net/systems/form.rs` has each form with real lookups.
//! State shared by an `Arc` that each factory clones can replace a ring to an earlier stage. Storm's dynamic assignment
//! and Pnpf's [`Controller`] set the number of [active](Control::set_active) workers, by the messages
//! [queued](Control::queued). A stage that gathers packets sends them on when it is [idle](Work::idle).
//!
//! # Rings
//!
//! | place | when the ring is full | when the receiver looks at nothing more |
//! |---|---|---|
//! | entrance, [`Link::new`] | [`Plane::send`] waits, [`Plane::try_send`] returns the message | the message comes back |
//! | entrance, [`Link::lossy`] | the message comes back and counts as dropped | the message comes back |
//! | between stages and to the caller, [`Link::new`] | the worker waits | the message counts as lost |
//! | between stages, [`Link::lossy`] | the message is dropped, and counted by ring | dropped and counted |
//!
//! A worker moves up to [`PlaneBuilder::chunk`] messages out of a ring at once, so more messages may wait than the ring
//! holds. [`RingCounters::queued`] counts all of them, an occupancy only the messages in the ring.
//!
//! Capacities and occupancies are in messages. [`Link::most_packets`] bounds the packets of each ring, too, and
//! [`Link::packets_in_all`] the packets of a link. Counters have messages and packets ([`Flux`]); times are durations.
//! An occupancy is sampled once per message and its series is spread over messages, so it does not depend on a clock.
//!
//! # Order
//!
//! [`Dispatch::Flow`] sends all messages of a flow the same way, so they stay in order. [`FlowHash`] groups packets by
//! a keyed hash. [`PlaneBuilder::in_order_of_arrival`] restores the order of all messages at the end, within a window;
//! sources must [number](Outputs::number) their messages. [`Plane::order`] returns the order that holds.
//!
//! # Waiting
//!
//! A thread without work looks again for a short while and then blocks, so an idle plane uses no CPU. If there are
//! fewer cores than threads, each look gives the core away first, and [`Plane::notices`] reports it.
//!
//! # Ends
//!
//! After [`Plane::stop`] nothing comes in, and everything accepted comes out. A panic of a worker ends the whole plane:
//! [`Plane::recv`] returns `None`, [`Plane::send`] refuses, and [`Plane::join`] returns stage, worker and text of the
//! panic. Packets that are in flight then count as lost.
//!
//! # Invariants
//!
//! - Accepted packets are delivered or lost, if every stage sends on each packet once and reports the packets that it
//!   has [kept](Work::kept) (`tests/net/plane/passage.rs`, `tests/net/plane/fault.rs`, `tests/net/plane/gather.rs`).
//! - Links that wait lead to later stages, so full rings never wait for each other in a circle
//!   (`PlaneBuilder::check`).
//! - A stage ends only after all earlier stages that send to it, so a ring is empty when it is closed for good
//!   (`Job::take_all`).

mod affinity;
mod bell;
mod builder;
mod counters;
mod ends;
mod error;
mod flow;
mod memory;
mod order;
mod ring;
mod run;
mod state;
mod worker;

pub use affinity::Pinning;
#[cfg(feature = "systems")]
pub(crate) use bell::lock;
pub use builder::{Link, MOST_CAPACITY, MOST_WORKERS, PlaneBuilder, StageId};
pub use counters::{Flux, Occupancy, PlaneCounters, RingCounters, RingEnd, StageCounters, WorkerCounters};
pub use ends::SendError;
pub use error::{Notice, PlaneError};
pub use flow::{FlowHash, RowHash};
pub use memory::{Deal, Pace, highest_rate};
pub use order::ResultOrder;
pub use run::Plane;
pub use state::{Control, Controller};
pub use worker::{Dispatch, Message, Outputs, Pulled, Seat, Work};
