//! The planner, tested by scenarios of a fleet: a store and agents that are nothing but data, and the product's own
//! decisions between them.

#![expect(clippy::unwrap_used, reason = "tests say what they expect in one word")]

mod budget;
mod certificate;
mod contracted;
mod cut_off;
mod damaged;
mod database;
mod deadlines;
mod domains;
mod exceptions;
mod faults;
mod former;
mod fuzz;
mod gates;
mod hiccups;
mod index;
mod late_nodes;
mod left_behind;
mod lost_journal;
mod metadata;
mod model;
mod operations;
mod outside;
mod persons;
mod presumption;
mod properties;
mod reasons;
mod recalled;
mod reconcile;
mod releases;
mod rollback;
mod rolling;
mod rules;
mod schema;
mod sharing;
mod sim;
mod stale_view;
mod stories;
mod stragglers;
mod tokens;
mod unconfirmed;
mod unknown_version;
mod window;
mod witness;
