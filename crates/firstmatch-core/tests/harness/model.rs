//! Explores every order of a few threads' operations with at most three preemptions.
//!
//! `./ci.sh loom` runs it. The protocol's source is compiled once more here, over `loom`'s locks and atomics.

#[expect(dead_code, reason = "the model does not ask for sizes and ids")]
#[path = "../../src/live/left_right.rs"]
mod left_right;
#[path = "../../src/raw/try_lock.rs"]
mod try_lock;

use std::sync::atomic::Ordering;

use left_right::{Facts, LeftRight, ReaderSlot};
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use try_lock::TryLock;

/// `loom`'s types in place of the standard library's.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64};
    pub(super) use loom::sync::{Arc, Mutex, MutexGuard, RwLock};

    pub(super) use super::try_lock::TryLock;

    pub(super) const LOOK: u32 = 1;

    pub(super) fn pause(_round: u32) {
        loom::thread::yield_now();
    }

    /// Cell that notices two accesses that nothing orders.
    #[derive(Debug)]
    pub(super) struct UnsafeCell<T>(loom::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(super) fn new(value: T) -> Self {
            Self(loom::cell::UnsafeCell::new(value))
        }

        /// Returns the place of the value, to be changed.
        pub(super) fn get(&self) -> *mut T {
            self.0.with_mut(|place| place)
        }
    }
}

/// Two numbers that are equal whenever no change is in progress.
///
/// Nothing but the pair of replicas orders the threads' accesses to them.
struct Pair([AtomicU64; 2]);

impl Pair {
    fn of(value: u64) -> Self {
        Self([value; 2].map(AtomicU64::new))
    }

    fn get(&self) -> u64 {
        let [a, b] = [0, 1].map(|i| self.0[i].load(Ordering::Relaxed));
        assert_eq!(a, b, "a copy is read while it is changed");
        a
    }
}

impl Clone for Pair {
    fn clone(&self) -> Self {
        Self::of(self.get())
    }
}

fn replicas() -> Arc<LeftRight<Pair>> {
    Arc::new(LeftRight::new(Pair::of(0), 2, |facts, pair| facts.set(0, &[pair.get(); 2])))
}

/// Sets the numbers to the new publish count, the least that every later reader sees.
fn publish(replicas: &LeftRight<Pair>, wait: bool) -> bool {
    let to = replicas.publish_count() + 1;
    let change = |pair: &mut Pair, facts: &Facts| {
        assert!(pair.get() + 2 >= to, "it is the copy before the last");
        for i in 0..2 {
            pair.0[i].store(to, Ordering::Relaxed);
            facts.set(i, &[to]);
        }
    };
    replicas.publish(wait, change).is_ok()
}

/// Reads `batches` times; no read goes back in time.
fn read(replicas: &LeftRight<Pair>, reader_slot: &ReaderSlot<Pair>, batches: usize) {
    let mut last = 0;
    for _ in 0..batches {
        let before = replicas.publish_count().max(last);
        last = replicas.read(reader_slot, Pair::get);
        assert!(last >= before, "{last} after {before}");
    }
}

fn query(replicas: &LeftRight<Pair>) {
    let before = replicas.publish_count();
    let [a, b] = replicas.query(|facts| facts.get(0));
    assert!(a == b && a >= before, "{a}, {b} after {before}");
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Threads that get a lock have the value one after the other, and one that does not get it goes on.
#[test]
#[ignore = "`./ci.sh loom` runs it"]
fn one_thread_at_a_time_has_a_lock() {
    explore(|| {
        let value = Arc::new(TryLock::new(0));
        let add = |value: &TryLock<u32>| {
            value.try_lock().map_or(0, |mut value| {
                *value += 1;
                1
            })
        };
        let threads = [(); 2].map(|()| {
            let value = Arc::clone(&value);
            thread::spawn(move || add(&value))
        });
        let own = add(&value);
        let added = threads.into_iter().fold(own, |sum, thread| sum + thread.join().expect("no panic"));
        let last = value.try_lock();
        assert!(added >= 1 && last.as_ref().is_some_and(|value| **value == added), "{added} {last:?}");
    });
}

#[test]
#[ignore = "`./ci.sh loom` runs it"]
fn a_reader_beside_a_writer() {
    explore(|| {
        let replicas = replicas();
        let (of_reader, reader_slot) = (Arc::clone(&replicas), replicas.reader_slot());
        let reader = thread::spawn(move || read(&of_reader, &reader_slot, 2));
        (0..3).for_each(|_| assert!(publish(&replicas, true)));
        reader.join().expect("no panic");
    });
}

#[test]
#[ignore = "`./ci.sh loom` runs it"]
fn two_readers_beside_a_writer() {
    explore(|| {
        let replicas = replicas();
        let readers = [(); 2].map(|()| {
            let (replicas, reader_slot) = (Arc::clone(&replicas), replicas.reader_slot());
            thread::spawn(move || read(&replicas, &reader_slot, 1))
        });
        (0..2).for_each(|_| assert!(publish(&replicas, true)));
        readers.into_iter().for_each(|reader| reader.join().expect("no panic"));
    });
}

/// The writer never finds its replica taken where only queries run beside it.
#[test]
#[ignore = "`./ci.sh loom` runs it"]
fn queries_beside_a_writer() {
    explore(|| {
        let replicas = replicas();
        let queries = [(); 2].map(|()| {
            let replicas = Arc::clone(&replicas);
            thread::spawn(move || query(&replicas))
        });
        (0..2).for_each(|_| assert!(publish(&replicas, false), "a query is in the way"));
        queries.into_iter().for_each(|query| query.join().expect("no panic"));
    });
}

#[test]
#[ignore = "`./ci.sh loom` runs it"]
fn a_reader_and_a_query_beside_a_writer() {
    explore(|| {
        let replicas = replicas();
        let (of_reader, reader_slot) = (Arc::clone(&replicas), replicas.reader_slot());
        let reader = thread::spawn(move || read(&of_reader, &reader_slot, 1));
        let of_query = Arc::clone(&replicas);
        let queries = thread::spawn(move || query(&of_query));
        (0..2).for_each(|_| assert!(publish(&replicas, true)));
        [reader, queries].into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}
