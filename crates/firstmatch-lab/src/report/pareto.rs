//! Plots of lookups against their costs: updates and memory.

use super::looks::Looks;
use super::page::Figure;
use super::plot::{Form, Look, Series, chart};
use super::scale::Axis;
use crate::record::Row;
use crate::table::{Table, or_dash, short};
use crate::view::{View, What, YARDSTICKS, a_rule, as_is};

/// Figure that is plotted against lookups.
struct Against<'a> {
    title: &'a str,
    axis: &'a str,
    what: What<'a>,
    scaled: &'a dyn Fn(&Row, f64) -> f64,
    more_is_better: bool,
    better: &'a str,
}

/// Plots lookups against updates per second.
pub(crate) fn updates(view: &View<'_>, looks: &Looks) -> anyhow::Result<Option<Figure>> {
    let against = Against {
        title: "Lookup against updates",
        axis: "updates a second",
        what: What::measure("updates"),
        scaled: &as_is,
        more_is_better: true,
        better: "Better is further up and left",
    };
    against.figure(view, looks)
}

/// Plots lookups against bytes per rule.
pub(crate) fn memory(view: &View<'_>, looks: &Looks) -> anyhow::Result<Option<Figure>> {
    let against = Against {
        title: "Lookup against memory",
        axis: "bytes a rule",
        what: What::measure("run"),
        scaled: &a_rule,
        more_is_better: false,
        better: "Better is further down and left",
    };
    against.figure(view, looks)
}

/// Position of an engine: nanoseconds, and the other figure.
#[derive(Clone, Debug)]
struct Place<'a> {
    name: &'a str,
    at: (f64, f64),
}

impl Against<'_> {
    fn figure(&self, view: &View<'_>, looks: &Looks) -> anyhow::Result<Option<Figure>> {
        let Some(lookup) = view.largest() else { return Ok(None) };
        let mut sets = view.sets_with(self.what);
        sets.retain(|set| view.sets_with(lookup).contains(set));
        let nanos = |name: &str| view.mean_of(&sets, name, lookup, &as_is).map(|mean| mean.value);
        let other = |name: &str| view.mean_of(&sets, name, self.what, self.scaled).map(|mean| mean.value);
        let place = |name| Some(Place { name, at: (nanos(name)?, other(name)?) });
        let engines: Vec<Place<'_>> = view.engines.iter().filter_map(|&name| place(name)).collect();
        if engines.is_empty() {
            return Ok(None);
        }
        let best = self.undominated(&engines, [view.floor(lookup), view.floor(self.what)]);
        let mut front: Vec<(f64, f64)> = best.iter().map(|place| place.at).collect();
        front.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let mut series = vec![Series { look: Look::front(), form: Form::Front, points: front }];
        let mut legend = Vec::new();
        for Place { name, at } in &engines {
            let of_set = |set: &&str| {
                let row = view.row(set, name, self.what)?;
                Some((view.row(set, name, lookup)?.median?, (self.scaled)(row, row.median?)))
            };
            let look = looks.get(name);
            if sets.len() > 1 {
                series.push(Series { look, form: Form::Pale, points: sets.iter().filter_map(of_set).collect() });
            }
            series.push(Series { look, form: Form::Points, points: vec![*at] });
            legend.push((look, (*name).to_owned()));
        }
        for name in YARDSTICKS {
            let Some(x) = nanos(name) else { continue };
            let (form, y) = other(name).map_or((Form::Upright, 0.0), |y| (Form::Points, y));
            series.push(Series { look: looks.get(name), form, points: vec![(x, y)] });
            legend.push((looks.get(name), name.to_owned()));
        }
        let mut table = Table::new(&["", "ns a prepared key", self.axis]);
        for name in view.names(&YARDSTICKS) {
            let cells = [nanos(name), other(name)].map(|figure| or_dash(figure.map(short)));
            table.rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
        }
        let names: Vec<&str> = best.iter().map(|place| place.name).collect();
        let small = if sets.len() > 1 { "; small marks are the sets, large ones their geometric mean" } else { "" };
        let mut caption =
            format!("{}{small}. Beaten by none in both beyond the noise: {}.", self.better, names.join(", "));
        let without = |name: &&&str| nanos(name).is_some() && other(name).is_none();
        let without: Vec<&str> = view.engines.iter().filter(without).copied().collect();
        if !without.is_empty() {
            caption += &format!(" No figure of {}: {}.", self.axis, without.join(", "));
        }
        Ok(Some(Figure {
            title: self.title.to_owned(),
            caption,
            svg: chart(self.title, &Axis::log("ns a prepared key"), &Axis::log(self.axis), &series)?,
            legend,
            tables: vec![("Figures", table)],
        }))
    }

    /// Returns the places that no other dominates.
    ///
    /// One place dominates another if it is no worse in both figures, and better in one by more than its noise floor.
    /// For example, with a floor of 5 %, 10.0 ns does not dominate 10.4 ns at the same memory.
    fn undominated<'p, 'n>(&self, all: &'p [Place<'n>], floors: [f64; 2]) -> Vec<&'p Place<'n>> {
        // The ratio of two figures is above 1 if the first is better.
        let gain = |one: &Place<'_>, other: &Place<'_>| {
            let second = if self.more_is_better { one.at.1 / other.at.1 } else { other.at.1 / one.at.1 };
            [other.at.0 / one.at.0, second]
        };
        let beats = |one: &Place<'_>, other: &Place<'_>| {
            let gain = gain(one, other);
            // In a figure with an unknown floor (NaN), no difference counts.
            gain.iter().all(|&gain| gain >= 1.0) && gain.iter().zip(floors).any(|(gain, floor)| gain - 1.0 > floor)
        };
        all.iter().filter(|place| !all.iter().any(|other| beats(other, place))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_within_the_noise_beats() {
        let place = |name, nanos, other| Place { name, at: (nanos, other) };
        let all = [
            place("fast", 10.0, 100.0),
            place("small", 50.0, 10.0),
            place("worse than fast", 20.0, 100.0),
            place("as fast", 10.4, 100.0),
        ];
        let memory = |floors| {
            let against = Against {
                title: "",
                axis: "",
                what: What::measure(""),
                scaled: &as_is,
                more_is_better: false,
                better: "",
            };
            against.undominated(&all, floors).into_iter().map(|place| place.name).collect::<Vec<_>>()
        };
        assert_eq!(memory([0.05, 0.0]), ["fast", "small", "as fast"]);
        assert_eq!(memory([0.01, 0.0]), ["fast", "small"]);
        assert_eq!(memory([f64::NAN, 0.0]).len(), 4);
    }
}
