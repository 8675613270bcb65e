//! Running planes.

use std::sync::Mutex;
use std::thread::JoinHandle;

use super::bell::lock;
use super::counters::PlaneCounters;
use super::ends::{Entrance, Exit, SendError};
use super::error::{Notice, PlaneError};
use super::order::ResultOrder;
use super::state::Control;
use super::worker::Message;

/// Running plane: the caller's ends, and handles to its threads.
///
/// All methods take `&self`, so that one thread may send while another receives. A thread that does both calls
/// [`Plane::try_send`], because [`Plane::send`] waits for room that only receiving makes.
///
/// Dropping a plane ends its threads and loses what is on its way; [`Plane::join`] says how much that was.
pub struct Plane<T: Message> {
    pub(super) control: Control,
    pub(super) entrance: Mutex<Option<Entrance<T>>>,
    pub(super) exit: Mutex<Option<Exit<T>>>,
    pub(super) threads: Vec<JoinHandle<()>>,
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
        for thread in self.threads.drain(..) {
            // Workers catch their panics, so that only a panic while one is dropped comes here.
            if let Err(payload) = thread.join() {
                shared.fail(PlaneError::panic("(ending)", 0, &*payload));
            }
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
