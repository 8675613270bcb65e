//! Rule files: text and what it means, as text again, and what is said of faults.
//!
//! `meaning` has round trips and the oracle, `schema` files with a schema of their own, `live` rules for sets that are
//! there, `write` the text that is written. `faults` has every message by line, column and width, `warnings` what hardly
//! means what it says, `limits` what is too much.

mod faults;
mod limits;
mod live;
mod meaning;
mod schema;
mod warnings;
mod write;
