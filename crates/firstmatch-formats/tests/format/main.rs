//! Rule files: text and what it means, as text again, and the faults that are reported.
//!
//! `meaning` has round trips and the oracle. `schema` has files with a schema of their own, `live` rules for existing
//! sets, `write` the text that is written. `names` has rules in words, `absent` those about packets without a field,
//! `except` values with exceptions,
//! `include` sets that include files. `faults` has every message by line, column and width, `hints` the corrections
//! that messages propose, `other_lines` those for lines of other rule languages, `hidden` characters that do not show. `warnings` has rules that hardly mean what they say,
//! `live_sets` sets whose members change, `limits` texts that are too large. `grammar` compares the grammar of the manual with the program.

mod absent;
mod except;
mod faults;
mod grammar;
mod hidden;
mod hints;
mod include;
mod layers;
mod limits;
mod live;
mod live_sets;
mod meaning;
mod names;
mod other_lines;
mod schema;
mod warnings;
mod write;
