//! Cores that the threads of a simulation share, in the manner of Linux.

use super::{Core, Event, GLANCE, Next, Simulation, State};

/// Looks at a condition before a thread blocks where threads share cores, as in the plane.
const YIELDS: u32 = 4;
/// Rest of a paced source's wait that it spends looking, in nanoseconds, as in the plane.
const YIELDED: f64 = 150e3;
/// Nanoseconds since a thread ran within which Linux leaves it on its core, because its data are in the cache.
const HOT: f64 = 5e5;

impl Simulation<'_> {
    /// Makes a thread ready on a core, behind the others there.
    pub(super) fn queue(&mut self, thread: usize, core: usize) {
        self.threads[thread].state = State::Ready;
        self.cores[core].ready.push_back(thread);
    }

    /// Puts ready threads on free cores.
    pub(super) fn fill_cores(&mut self) {
        for core in 0..self.cores.len() {
            while self.cores[core].thread.is_none() {
                let Some(thread) = self.take_ready(core) else { break };
                let costs = &self.model.costs;
                let place = &mut self.cores[core];
                place.thread = Some(thread);
                place.until = self.now + costs.quantum;
                if place.last.replace(thread).is_some_and(|last| last != thread) {
                    self.threads[thread].rest += costs.switch;
                }
                let own = &mut self.threads[thread];
                (own.state, own.core) = (State::Running(core), core);
                self.go_on(thread, core);
            }
        }
    }

    /// Takes the next thread from the queue of a core, or from another queue one that has not run for long.
    fn take_ready(&mut self, core: usize) -> Option<usize> {
        if let Some(thread) = self.cores[core].ready.pop_front() {
            return Some(thread);
        }
        let is_cold = |core: &Core| core.ready.front().is_some_and(|&at| self.now - self.threads[at].left >= HOT);
        self.cores.iter().position(is_cold).and_then(|from| self.cores[from].ready.pop_front())
    }

    /// Starts the rest of a thread's work on its core, or asks for its next work.
    fn go_on(&mut self, thread: usize, core: usize) {
        loop {
            if self.threads[thread].rest > 0.0 {
                return self.start(thread, core);
            }
            match self.next(thread) {
                Next::Work(nanos) => {
                    let own = &mut self.threads[thread];
                    own.has_moved();
                    own.rest = nanos;
                }
                Next::Until(time) => return self.sleep(thread, core, time),
                Next::Wait(awaited) => {
                    self.threads[thread].awaited = Some(awaited);
                    return self.wait(thread, core);
                }
            }
        }
    }

    fn start(&mut self, thread: usize, core: usize) {
        let own = &mut self.threads[thread];
        own.epoch += 1;
        let place = &mut self.cores[core];
        place.since = self.now;
        let end = (self.now + own.rest).min(place.until);
        self.calendar.add(end, Event::Over { thread, epoch: own.epoch });
    }

    /// Ends a stretch of work, a quantum or a spin.
    pub(super) fn over(&mut self, thread: usize) {
        match self.threads[thread].state {
            State::Running(core) => {
                let ran = self.now - self.cores[core].since;
                self.cores[core].busy += ran;
                let own = &mut self.threads[thread];
                own.at_work += ran;
                own.rest -= ran;
                // A rest below a picosecond comes from rounding and is no work.
                if own.rest < 1e-3 {
                    own.rest = 0.0;
                }
                if self.now >= self.cores[core].until {
                    if self.cores[core].ready.is_empty() {
                        self.cores[core].until = self.now + self.model.costs.quantum;
                    } else {
                        return self.make_way(thread, core);
                    }
                }
                self.go_on(thread, core);
            }
            State::Spinning(core) => self.block(thread, core),
            State::Ready | State::Blocked | State::Away => {}
        }
    }

    /// Puts a thread behind the ready ones.
    fn make_way(&mut self, thread: usize, core: usize) {
        self.leave(thread, core);
        self.queue(thread, core);
    }

    /// Frees the core of a thread.
    fn leave(&mut self, thread: usize, core: usize) {
        self.cores[core].thread = None;
        self.threads[thread].left = self.now;
    }

    fn wait(&mut self, thread: usize, core: usize) {
        let costs = &self.model.costs;
        let own = &mut self.threads[thread];
        if own.was_woken {
            return self.block(thread, core);
        }
        if self.spins {
            own.epoch += 1;
            own.state = State::Spinning(core);
            return self.calendar.add(self.now + costs.spin, Event::Over { thread, epoch: own.epoch });
        }
        if own.looks == YIELDS {
            return self.block(thread, core);
        }
        own.looks += 1;
        own.rest = costs.look;
        if self.cores[core].ready.is_empty() { self.go_on(thread, core) } else { self.make_way(thread, core) }
    }

    fn block(&mut self, thread: usize, core: usize) {
        self.leave(thread, core);
        let own = &mut self.threads[thread];
        own.epoch += 1;
        (own.state, own.looks) = (State::Blocked, 0);
        self.blocks += 1;
    }

    /// Lets a paced source wait: it sleeps, but looks for the last part of the time.
    fn sleep(&mut self, thread: usize, core: usize, time: f64) {
        let rest = time - self.now;
        if rest > YIELDED {
            self.leave(thread, core);
            let own = &mut self.threads[thread];
            own.epoch += 1;
            own.state = State::Away;
            self.calendar.add(time - YIELDED, Event::Ready { thread, epoch: own.epoch });
        } else if self.cores[core].ready.is_empty() {
            self.threads[thread].rest = rest.clamp(1.0, GLANCE);
            self.start(thread, core);
        } else {
            // A look takes some time, so that sources that share a core do not take turns for ever.
            self.threads[thread].rest = self.model.costs.look.max(1.0);
            self.make_way(thread, core);
        }
    }

    /// Tells a thread to look again; `by` pays if it has to be woken.
    pub(super) fn ring_bell(&mut self, thread: usize, by: usize) {
        match self.threads[thread].state {
            State::Spinning(core) => {
                let is_due = self.threads[thread].awaited.is_some_and(|awaited| self.holds(thread, awaited));
                if is_due {
                    let own = &mut self.threads[thread];
                    own.epoch += 1;
                    own.state = State::Running(core);
                    self.cores[core].since = self.now;
                    self.calendar.add(self.now, Event::Over { thread, epoch: own.epoch });
                }
            }
            State::Blocked => {
                let costs = &self.model.costs;
                self.threads[by].owed += costs.wake;
                let own = &mut self.threads[thread];
                own.epoch += 1;
                (own.state, own.was_woken) = (State::Away, true);
                self.calendar.add(self.now + costs.latency, Event::Ready { thread, epoch: own.epoch });
            }
            State::Ready | State::Running(_) | State::Away => {}
        }
    }
}
