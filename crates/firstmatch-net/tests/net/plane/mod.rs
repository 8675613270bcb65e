//! Tests of the plane: nothing is lost, doubled or reordered, whatever the form and whatever happens.

mod control;
mod fault;
mod fixture;
mod gather;
mod passage;
mod steering;
