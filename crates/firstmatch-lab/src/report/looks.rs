//! Looks of engines.

use super::plot::Look;
use super::records::Record;
use crate::view::{View, YARDSTICKS};

/// Looks of engines, the same on the whole page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Looks {
    names: Vec<String>,
}

impl Looks {
    pub(crate) fn of(records: &[Record]) -> Self {
        let mut looks = Self::default();
        for record in records {
            for name in View::new(&record.rows).engines {
                if !looks.names.iter().any(|known| known == name) {
                    looks.names.push(name.to_owned());
                }
            }
        }
        looks
    }

    pub(crate) fn get(&self, name: &str) -> Look {
        match YARDSTICKS.iter().position(|&yardstick| yardstick == name) {
            Some(number) => Look::yardstick(number),
            None => Look::engine(self.names.iter().position(|known| known == name).unwrap_or(0)),
        }
    }
}
