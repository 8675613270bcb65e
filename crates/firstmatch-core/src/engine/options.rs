//! Options of engines that are known by name: their names, meanings and values.

use std::fmt;

use crate::error::BuildError;

/// Option of an engine that is known by name.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct EngineOption {
    /// Name; for example, `collision_limit`.
    pub name: &'static str,
    /// Meaning in one line, with the unit.
    pub summary: &'static str,
    /// Values that it takes.
    pub values: OptionValues,
}

/// Values that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionValues {
    /// `true` or `false`.
    Switch,
    /// Whole number.
    Count,
    /// Whole number in a range.
    CountWithin {
        /// Smallest number.
        least: usize,
        /// Largest number.
        most: usize,
        /// Difference of two neighbouring numbers.
        step: usize,
    },
    /// Number from the first to the second, perhaps with a fraction.
    Number(u32, u32),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Text of this form.
    Text(&'static str),
}

impl fmt::Display for OptionValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch => f.write_str("true or false"),
            Self::Count => f.write_str("a whole number"),
            Self::CountWithin { least, most, step: 1 } => write!(f, "a whole number from {least} to {most}"),
            Self::CountWithin { least, most, step } => {
                write!(f, "a whole number from {least} to {most} in steps of {step}")
            }
            Self::Number(least, most) => write!(f, "a number from {least} to {most}"),
            Self::OneOf(words) => f.write_str(&words.join(" or ")),
            Self::Text(form) => f.write_str(form),
        }
    }
}

/// Option with the function that sets it in a configuration.
///
/// Each engine has one list of them, which alone defines its options. Options that replace others, such as `paper`,
/// come first in the list, because options are set in its order.
#[derive(Debug)]
pub(crate) struct Knob<C> {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) set: Set<C>,
}

/// Function that sets an option in a configuration, by the kind of its values.
#[derive(Debug)]
pub(crate) enum Set<C> {
    Switch(fn(&mut C, bool)),
    Count(fn(&mut C, usize)),
    /// Takes the numbers from the first to the second, in steps of the third.
    Within([usize; 3], fn(&mut C, usize)),
    /// Takes the numbers from the first to the second.
    Number([u32; 2], fn(&mut C, f64)),
    /// Takes the index of the word.
    OneOf(&'static [&'static str], fn(&mut C, usize)),
    /// Text of a form; the function returns whether it has that form.
    Text(&'static str, fn(&mut C, &str) -> bool),
}

impl<C> Knob<C> {
    fn option(&self) -> EngineOption {
        let values = match self.set {
            Set::Switch(_) => OptionValues::Switch,
            Set::Count(_) => OptionValues::Count,
            Set::Within([least, most, step], _) => OptionValues::CountWithin { least, most, step },
            Set::Number([least, most], _) => OptionValues::Number(least, most),
            Set::OneOf(words, _) => OptionValues::OneOf(words),
            Set::Text(form, _) => OptionValues::Text(form),
        };
        EngineOption { name: self.name, summary: self.summary, values }
    }

    /// Sets the option; returns whether it takes the value.
    fn apply(&self, config: &mut C, value: &str) -> bool {
        match self.set {
            Set::Switch(set) => value.parse().map(|value| set(config, value)).is_ok(),
            Set::Count(set) => value.parse().map(|value| set(config, value)).is_ok(),
            Set::Within([least, most, step], set) => {
                let is_taken = |&count: &usize| (least..=most).contains(&count) && (count - least) % step == 0;
                value.parse().ok().filter(is_taken).map(|count| set(config, count)).is_some()
            }
            Set::Number([least, most], set) => {
                let range = f64::from(least)..=f64::from(most);
                let number = value.parse().ok().filter(|number| range.contains(number));
                number.map(|number| set(config, number)).is_some()
            }
            Set::OneOf(words, set) => words.iter().position(|word| *word == value).map(|at| set(config, at)).is_some(),
            Set::Text(_, set) => set(config, value),
        }
    }
}

/// Returns the options of a list.
pub(crate) fn options<C>(knobs: &[Knob<C>]) -> Vec<EngineOption> {
    knobs.iter().map(Knob::option).collect()
}

/// Sets the options `given` (names with values) in `config`, in the order of the list.
///
/// If an option is given twice, the last value counts.
///
/// # Errors
/// If an option is not in the list, or does not take its value.
pub(crate) fn configure<C>(knobs: &[Knob<C>], given: &[(String, String)], config: &mut C) -> Result<(), BuildError> {
    if let Some((name, _)) = given.iter().find(|(name, _)| knobs.iter().all(|knob| knob.name != name)) {
        let names: Vec<_> = knobs.iter().map(|knob| knob.name).collect();
        let expected = if names.is_empty() { "none".to_owned() } else { format!("one of {}", names.join(", ")) };
        return Err(BuildError::refused(format!("this engine has no option `{name}`; expected {expected}")));
    }
    for knob in knobs {
        for (name, value) in given.iter().filter(|(name, _)| name == knob.name) {
            if !knob.apply(config, value) {
                let expected = knob.option().values;
                return Err(BuildError::refused(format!("option {name}: `{value}` is not {expected}")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_set_in_the_order_of_the_list() {
        let knobs: [Knob<(usize, f64, bool, usize)>; 6] = [
            Knob {
                name: "paper",
                summary: "",
                set: Set::Switch(|config, on| *config = (7 * usize::from(on), 0.5, on, 9)),
            },
            Knob { name: "count", summary: "", set: Set::Count(|config, count| config.0 = count) },
            Knob { name: "share", summary: "", set: Set::Number([0, 4], |config, share| config.1 = share) },
            Knob { name: "even", summary: "", set: Set::Within([2, 8, 2], |config, count| config.0 = count) },
            Knob { name: "is", summary: "", set: Set::Switch(|config, is| config.2 = is) },
            Knob { name: "way", summary: "", set: Set::OneOf(&["left", "right"], |config, at| config.3 = at) },
        ];
        let with = |given: &[(&str, &str)]| {
            let given: Vec<_> = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let mut config = (1, 1.0, false, 8);
            configure(&knobs, &given, &mut config).map(|()| config).map_err(|error| error.to_string())
        };
        assert_eq!(with(&[]), Ok((1, 1.0, false, 8)));
        assert_eq!(with(&[("count", "3"), ("way", "right"), ("paper", "true")]), Ok((3, 0.5, true, 1)));
        assert_eq!(with(&[("share", "2"), ("count", "3"), ("count", "4")]), Ok((4, 2.0, false, 8)));
        assert_eq!(with(&[("even", "2"), ("share", "4")]), Ok((2, 4.0, false, 8)));
        assert_eq!(with(&[("even", "8"), ("share", "0")]), Ok((8, 0.0, false, 8)));
        for (given, expected) in [
            (("counts", "3"), "no option `counts`; expected one of paper, count, share, even, is, way"),
            (("even", "0"), "option even: `0` is not a whole number from 2 to 8 in steps of 2"),
            (("even", "5"), "option even: `5` is not a whole number from 2 to 8 in steps of 2"),
            (("even", "10"), "option even: `10` is not a whole number from 2 to 8 in steps of 2"),
            (("share", "4.5"), "option share: `4.5` is not a number from 0 to 4"),
            (("share", "NaN"), "option share: `NaN` is not a number from 0 to 4"),
            (("count", "-3"), "option count: `-3` is not a whole number"),
            (("share", "inf"), "option share: `inf` is not a number from 0 to 4"),
            (("is", "yes"), "option is: `yes` is not true or false"),
            (("way", "up"), "option way: `up` is not left or right"),
        ] {
            let error = with(&[given]).expect_err("a bad option");
            assert!(error.contains(expected), "{error}");
        }
    }
}
