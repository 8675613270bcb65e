//! Tests of the two replicas, with threads that stop where a test wants them.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::super::left_right::{Facts, LeftRight, lock};

fn replicas_of(value: u32) -> LeftRight<u32> {
    LeftRight::new(value, 1, |facts, &value| facts.set(0, &[value.into()]))
}

fn set(replicas: &LeftRight<u32>, wait: bool, to: u32) -> bool {
    let change = |value: &mut u32, facts: &Facts| {
        *value = to;
        facts.set(0, &[to.into()]);
    };
    replicas.publish(wait, change).is_ok()
}

/// Readers go on while the writer stands still inside a change.
#[test]
fn readers_never_wait() {
    let replicas = &replicas_of(1);
    let (go, stopped) = mpsc::channel::<()>();
    let (inside, is_inside) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            replicas.publish(true, |value, _| {
                *value = 2;
                inside.send(()).map_err(drop)?;
                stopped.recv().map_err(drop)
            })
        });
        is_inside.recv().expect("the writer comes there");
        // So do queries.
        assert_eq!(replicas.query(|facts| facts.get(0)), [1]);
        let reader = || {
            let reader_slot = replicas.reader_slot();
            (0..500_000).filter(|_| replicas.read(&reader_slot, |&value| value == 1)).count()
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        assert_eq!(readers.map(|reader| reader.join().expect("no panic")), [500_000; 2]);
        go.send(()).expect("the writer waits");
    });
    assert_eq!(replicas.read(&replicas.reader_slot(), |&value| value), 2);
}

/// A batch keeps its replica: one change finds the other free, the next waits or is busy.
#[test]
fn a_batch_keeps_its_copy() {
    let replicas = &replicas_of(1);
    let (go, stopped) = mpsc::channel::<()>();
    let (inside, is_inside) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let reader_slot = replicas.reader_slot();
            let first = replicas.read(&reader_slot, |&value| {
                inside.send(()).expect("the test waits");
                stopped.recv().expect("the test goes on");
                value
            });
            (first, replicas.read(&reader_slot, |&value| value))
        });
        is_inside.recv().expect("the reader comes there");
        assert!(set(replicas, false, 2));
        assert!(!set(replicas, false, 3) && !set(replicas, false, 4));
        assert_eq!(replicas.read(&replicas.reader_slot(), |&value| value), 2);
        let writer = scope.spawn(move || set(replicas, true, 5));
        thread::sleep(Duration::from_millis(20));
        assert!(!writer.is_finished(), "the copy is in use");
        go.send(()).expect("the reader waits");
        assert!(writer.join().expect("no panic"));
        let (first, second) = reader.join().expect("no panic");
        assert!(first == 1 && (second == 2 || second == 5), "{first}, {second}");
    });
}

/// While a reader looks at the idle replica, a change waits or is busy, as the caller asked.
#[test]
fn a_look_at_the_idle_copy_is_waited_for_or_not() {
    for wait in [false, true] {
        let replicas = &replicas_of(1);
        thread::scope(|scope| {
            let looking = replicas.copies[1].read().expect("no panic");
            let writer = scope.spawn(move || set(replicas, wait, 2));
            let limit = Duration::from_millis(if wait { 20 } else { 10_000 });
            let start = std::time::Instant::now();
            while !writer.is_finished() && start.elapsed() < limit {
                thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(writer.is_finished(), !wait);
            drop(looking);
            assert_eq!(writer.join().expect("no panic"), wait);
        });
        assert_eq!(replicas.read(&replicas.reader_slot(), |&value| value), if wait { 2 } else { 1 });
    }
}

/// Idle readers block nobody, and leave no slot behind when they are dropped.
#[test]
fn idle_readers_hold_nothing_up() {
    let replicas = replicas_of(0);
    let reader_slots: Vec<_> = (0..5).map(|_| replicas.reader_slot()).collect();
    for round in 1..20 {
        assert!(set(&replicas, false, round));
        let read =
            reader_slots.iter().skip(round as usize % 3).map(|reader_slot| replicas.read(reader_slot, |&value| value));
        assert!(read.into_iter().all(|value| value == round));
    }
    drop(reader_slots);
    let _last = replicas.reader_slot();
    assert_eq!(lock(&replicas.reader_slots).len(), 1);
}

/// A reader gets the current replica and its count, whatever happens between its two looks.
///
/// The test tries up to four publishes in between, and a writer that changes the very replica that the reader was to
/// take.
#[test]
fn a_flip_between_two_looks_is_noticed() {
    for publish_count in 0..5 {
        let replicas = replicas_of(0);
        let mut looks = 0;
        let (at, copy) = replicas.now_after(|| {
            looks += 1;
            (1..=publish_count).filter(|_| looks == 1).for_each(|to| assert!(set(&replicas, false, to)));
        });
        assert_eq!((at, *copy, looks), (u64::from(publish_count), publish_count, 1 + u64::from(publish_count > 0)));
        drop(copy);
        // Publishes at every look but the last.
        let mut left = 3;
        let (at, copy) = replicas.now_after(|| {
            left -= 1;
            assert!(left == 0 || set(&replicas, false, 10 + left));
        });
        assert_eq!((at, *copy), (u64::from(publish_count) + 2, 11));
    }
    let replicas = &replicas_of(0);
    let (go, stopped) = mpsc::channel::<()>();
    let (inside, is_inside) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let (mut looks, mut stopped) = (0, Some(stopped));
        let (at, copy) = replicas.now_after(|| {
            looks += 1;
            if let Some(stopped) = stopped.take() {
                assert!(set(replicas, false, 1));
                let inside = inside.clone();
                scope.spawn(move || {
                    replicas.publish(true, |value, _| {
                        *value = 2;
                        inside.send(()).map_err(drop)?;
                        stopped.recv().map_err(drop)
                    })
                });
                is_inside.recv().expect("the writer comes there");
            }
        });
        assert_eq!((at, *copy, looks), (1, 1, 2));
        go.send(()).expect("the writer waits");
    });
    assert_eq!(replicas.now(), (2, Arc::new(2)));
}

/// Facts belong to one replica, whatever the writer does while they are read.
#[test]
fn facts_are_of_one_moment() {
    let replicas = LeftRight::new(0u32, 2, |_, _| {});
    let change = |to: u32| {
        let change = |_: &mut u32, facts: &Facts| facts.set(0, &[to.into(), to.into()]);
        replicas.publish(false, change).expect("nobody reads");
    };
    for publish_count in 0..5 {
        let mut looks = 0;
        let facts = replicas.query(|facts| {
            let [first] = facts.get(0);
            looks += 1;
            (1..=publish_count).filter(|_| looks == 1).for_each(change);
            let [second] = facts.get(1);
            (first, second)
        });
        let last = u64::from(if looks > 1 { publish_count } else { publish_count.saturating_sub(1) });
        assert_eq!((facts, looks), ((last, last), 1 + u32::from(publish_count > 0)));
    }
}

/// A batch that does not end is counted; readers between batches are not.
#[test]
fn batches_that_keep_a_copy_are_counted() {
    let replicas = &replicas_of(0);
    let idle = replicas.reader_slot();
    assert_eq!(replicas.read(&idle, |&value| value), 0);
    let reader_slot = replicas.reader_slot();
    replicas.read(&reader_slot, |_| {
        assert!(set(replicas, false, 1));
        assert_eq!((replicas.blocking(), set(replicas, false, 2)), (1, false));
    });
    assert_eq!((replicas.blocking(), set(replicas, false, 2)), (0, true));
}

/// A panic leaves nothing behind that others see or that blocks them.
#[test]
fn panics_do_not_spread() {
    let replicas = replicas_of(1);
    let reader_slot = replicas.reader_slot();
    let panics = |run: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err();
    assert!(panics(&|| replicas.read(&reader_slot, |_| panic!("a reader"))));
    assert!(panics(&|| drop(replicas.publish(true, |_, _| panic!("the writer")))));
    for to in 2..6 {
        assert!(set(&replicas, false, to));
        assert_eq!(replicas.read(&reader_slot, |&value| value), to);
    }
}
