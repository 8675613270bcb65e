//! `meta` by name, with its options.

use super::config::Config;
use super::owned::Owned;
use super::reader::Engine;
use crate::engine::entry::{Entry, Settings};
use crate::engine::options::{self, Knob, Set};
use crate::error::BuildError;
use crate::select::{Kind, Strategy};

/// Options by name.
const OPTIONS: &[Knob<Config>] = &[
    Knob {
        name: "base",
        summary: "base to take instead of choosing one",
        set: Set::OneOf(Kind::NAMES, |config, at| config.strategy = Strategy::Force(Kind::ALL[at])),
    },
    Knob {
        name: "trial",
        summary: "most region visits to time all candidates",
        set: Set::Count(|config, visits| config.trial = Some(visits)),
    },
    Knob {
        name: "overlay",
        summary: "most rules in the overlay",
        set: Set::Count(|config, rules| config.overlay = Some(rules)),
    },
    Knob {
        name: "due",
        summary: "number of rules in the overlay that makes a rebuild due",
        set: Set::Count(|config, rules| config.due = Some(rules)),
    },
    Knob {
        name: "dead",
        summary: "number of dead rules in the base that makes a rebuild due",
        set: Set::Count(|config, rules| config.dead = Some(rules)),
    },
    Knob {
        name: "in_place",
        summary: "number of changes in place that makes a rebuild due; with 0 there are none",
        set: Set::Count(|config, changes| config.in_place = Some(changes)),
    },
    Knob {
        name: "worst_tests",
        summary: "most regions that a packet may be tested against",
        set: Set::Count(|config, tests| config.limits.worst_tests = Some(tests)),
    },
    Knob {
        name: "worst_lines",
        summary: "most cache lines that a packet may touch",
        set: Set::Count(|config, lines| config.limits.worst_lines = Some(lines)),
    },
    Knob {
        name: "build_bytes",
        summary: "most bytes of the build of a base",
        set: Set::Count(|config, bytes| config.limits.build_bytes = bytes),
    },
];

/// Entry of `meta` for programs that name engines; the [registry](crate::engines::registry) has all other entries.
pub const META: Entry = Entry {
    name: "meta",
    summary: "the engine that suits the rules",
    options: || options::options(OPTIONS),
    build: |rules, settings| Ok(Box::new(Engine::build(rules, &Config::of(settings)?)?)),
    updatable: Some(|rules, settings| Ok(Box::new(Owned::build(rules, &Config::of(settings)?)?))),
};

impl Config {
    /// Converts the settings of an engine by name to a configuration; its options are those of [`META`].
    ///
    /// # Errors
    /// If there is no such option, or an option does not take its value.
    pub fn of(settings: &Settings) -> Result<Self, BuildError> {
        let mut config = Self::default();
        options::configure(OPTIONS, &settings.options, &mut config)?;
        let &Settings { budget, simd, seed, visits, .. } = settings;
        config.limits.build_visits = visits;
        config.limits.build_bytes = config.limits.build_bytes.min(settings.build_bytes);
        Ok(Self { budget, simd, seed, ..config })
    }
}
