//! Pnpf as its thesis runs it: pools of threads, queues of 1,000 packets, and a controller.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firstmatch_net::plane::{PlaneBuilder, Seat};
use firstmatch_net::systems::Step;
use firstmatch_net::systems::copies::{self, Fetched};
use firstmatch_net::systems::pnpf::{self, Config, QueueController};

use super::rows::{Rows, Slots};
use super::stopwatch::Times;
use super::{Form, Lookups, Ran, Setup, on_cores};

impl Lookups {
    /// Returns whether a plane has the thesis's workers, which a controller then changes.
    pub(super) fn is_controlled(&self, setup: &Setup) -> bool {
        self.form == Form::Pnpf && setup.workers == Config::paper().workers(self.steps.len())
    }

    /// Runs [`pnpf::stages`] by [`Config::paper`] behind a source. The rate is that of the second half of the packets,
    /// because the controller adds a worker to a stage in a second at most.
    pub(super) fn controlled(
        &self,
        setup: &Setup,
        steps: &[Step<Rows>],
        fetch: impl Fn(&Seat) -> Box<dyn FnMut() -> Fetched<Rows>> + Send + Sync + 'static,
        times: &[Arc<Times>],
        slots: &[Slots],
    ) -> anyhow::Result<Ran> {
        let (config, mut builder) = (Config::paper(), PlaneBuilder::<Rows>::new());
        let source = copies::source(&mut builder, "source", 1, &[], move |seat| {
            let mut fetch = fetch(seat);
            move || match fetch() {
                Fetched::Message(rows) => Fetched::Numbered(rows.number, rows),
                other => other,
            }
        });
        let stages = pnpf::stages(&mut builder, steps, &config);
        builder.link(source, stages[0], config.link());
        let (counters, wall, active) = on_cores(setup.cores, || {
            let mut plane = builder.start()?;
            let controller = QueueController::start(&stages, config.scaling, plane.control());
            plane.control_by(config.period, controller)?;
            let packets = setup.packets;
            let (start, mut came, mut half) = (Instant::now(), 0, None);
            while let Some(rows) = plane.recv() {
                came += rows.rows.len() as u64;
                slots[0].give_back(rows);
                if half.is_none() && came >= packets / 2 {
                    half = Some((start.elapsed(), came));
                }
            }
            let (to_half, of_half) = half.unwrap_or((Duration::ZERO, 0));
            let later = (start.elapsed() - to_half).as_secs_f64() / (came - of_half).max(1) as f64;
            let active = stages.iter().map(|stage| plane.control().active(stage.index())).collect();
            anyhow::Ok((plane.join()?, Duration::from_secs_f64(later * came as f64), active))
        })??;
        Ok(Ran { counters, wall, active, services: times.iter().map(|times| times.take()).collect() })
    }
}
