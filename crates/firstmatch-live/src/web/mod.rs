//! A page, a JSON interface and metrics about running lanes, over HTTP. One thread serves all of it.
//!
//! That thread reads counts that lanes publish, and takes no lock that a change of rules holds. [`State`] has the facts:
//! the thread of control writes them. A [`Server`] answers until it is dropped.

mod api;
mod guard;
mod history;
mod metrics;
mod page;
mod rules;
mod server;
mod state;
mod text;

pub use server::{Server, ServerConfig, Serving};
pub use state::{About, Explain, Link, Reload, State};
