//! Running planes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::bell::lock;
use super::counters::PlaneCounters;
use super::ends::{Entrance, Exit, SendError};
use super::error::{Notice, PlaneError};
use super::order::ResultOrder;
use super::state::{Control, Controller};
use super::worker::Message;

/// Name of the stage in errors of a controller.
const CONTROLLER: &str = "controller";

/// Running plane: the caller's ends, and handles to its threads.
///
/// All methods take `&self`, so that one thread may send while another receives. A thread that does both calls
/// [`Plane::try_send`], because [`Plane::send`] waits for room that only receiving makes.
///
/// Dropping a plane ends its threads and loses the packets in flight; [`Plane::join`] returns their number.
pub struct Plane<T: Message> {
    pub(super) control: Control,
    pub(super) entrance: Mutex<Option<Entrance<T>>>,
    pub(super) exit: Mutex<Option<Exit<T>>>,
    pub(super) threads: Vec<JoinHandle<()>>,
    /// Threads of controllers, each of which ends once its sender is dropped.
    pub(super) controllers: Vec<(mpsc::Sender<()>, JoinHandle<()>)>,
    pub(super) notices: Vec<Notice>,
    pub(super) order: ResultOrder,
}

impl<T: Message> std::fmt::Debug for Plane<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { control, notices, order, .. } = self;
        f.debug_struct("Plane").field("control", control).field("notices", notices).field("order", order).finish()
    }
}

impl<T: Message> Plane<T> {
    /// Sends a message into the plane. If the plane is full, it waits, or drops the message if the entrance is lossy.
    ///
    /// # Errors
    /// If the message was dropped, or the plane was stopped, was ended by a fault, or has no entrance.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.send_or(message, true)
    }

    /// Sends a message into the plane if there is room now.
    ///
    /// # Errors
    /// As [`Plane::send`], and if the plane is full; the message then counts as neither accepted nor dropped.
    pub fn try_send(&self, message: T) -> Result<(), SendError<T>> {
        self.send_or(message, false)
    }

    fn send_or(&self, message: T, waits: bool) -> Result<(), SendError<T>> {
        match &mut *lock(&self.entrance) {
            Some(entrance) => entrance.send(message, waits, &self.control.0),
            None => Err(SendError::Stopped(message)),
        }
    }

    /// Returns the next message that comes out, or `None` once none will come. It waits for one.
    ///
    /// After a fault it returns `None` as well, and [`Plane::join`] has the reason.
    pub fn recv(&self) -> Option<T> {
        lock(&self.exit).as_mut()?.receive(true, &self.control.0)
    }

    /// Returns a message if one has come out.
    pub fn try_recv(&self) -> Option<T> {
        lock(&self.exit).as_mut()?.receive(false, &self.control.0)
    }

    /// Ends the input: refuses messages of the caller, and does not call sources again.
    ///
    /// Everything accepted still comes out. It returns at once; [`Plane::recv`] then returns the rest.
    pub fn stop(&self) {
        self.control.0.stop();
        // A sender that waits holds the lock until it sees the stop.
        *lock(&self.entrance) = None;
    }

    /// Returns a handle that reads counters and sets the number of active workers.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Calls a controller once per period, on a thread of its own, until the plane is joined or dropped.
    ///
    /// A panic of the controller ends the plane as that of a worker does, with the stage `controller`.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn control_by(
        &mut self,
        period: Duration,
        mut controller: impl Controller + 'static,
    ) -> Result<(), PlaneError> {
        let (running, ended) = mpsc::channel();
        let control = self.control.clone();
        let ticks = move || {
            while ended.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                let tick = catch_unwind(AssertUnwindSafe(|| controller.tick(&control)));
                if let Err(payload) = tick {
                    return control.0.fail(PlaneError::panic(CONTROLLER, 0, &*payload));
                }
            }
        };
        let thread = thread::Builder::new().name(CONTROLLER.to_owned()).spawn(ticks);
        let thread = thread.map_err(|error| PlaneError::thread(CONTROLLER, self.controllers.len(), error))?;
        self.controllers.push((running, thread));
        Ok(())
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> PlaneCounters {
        self.control.counters()
    }

    /// Returns the fault that ended the plane, if there was one, without the counters at the end.
    pub fn fault(&self) -> Option<PlaneError> {
        self.control.0.fault()
    }

    /// Returns circumstances that make the plane slower, such as too few cores.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Returns the order in which messages come out.
    pub fn order(&self) -> &ResultOrder {
        &self.order
    }

    /// Ends the caller's input, waits for all threads and returns the final counters.
    ///
    /// Sources go on to their own end, unless [`Plane::stop`] was called. Messages that the caller did not receive
    /// before are lost, and counted so.
    ///
    /// # Errors
    /// If a fault ended the plane; [`PlaneError::counters`] has the counters then.
    pub fn join(mut self) -> Result<PlaneCounters, PlaneError> {
        *lock(&self.entrance) = None;
        self.end()
    }

    /// Waits for all threads, without a receiver.
    pub(super) fn end(&mut self) -> Result<PlaneCounters, PlaneError> {
        let shared = &self.control.0;
        if let Some(exit) = lock(&self.exit).take() {
            shared.left.add(exit.left());
        }
        shared.desert();
        for thread in self.threads.drain(..) {
            // Workers catch their panics, so that only a panic while one is dropped comes here.
            if let Err(payload) = thread.join() {
                shared.fail(PlaneError::panic("(ending)", 0, &*payload));
            }
        }
        for (running, thread) in self.controllers.drain(..) {
            drop(running);
            // Its panics are faults already.
            let _ = thread.join();
        }
        shared.end();
        let counters = shared.counters();
        match shared.fault() {
            Some(mut fault) => {
                fault.0.counters = Some(counters);
                Err(fault)
            }
            None => Ok(counters),
        }
    }
}

impl<T: Message> Drop for Plane<T> {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.control.0.abort();
            *lock(&self.entrance) = None;
            let _ = self.end();
        }
    }
}
