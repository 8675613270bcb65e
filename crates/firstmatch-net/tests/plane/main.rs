//! Tests of the plane: nothing is lost, doubled or reordered, whatever the form and whatever happens.

mod fault;
mod fixture;
mod passage;
mod steering;
