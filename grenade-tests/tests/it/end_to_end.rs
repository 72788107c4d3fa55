//! Whole upgrades on real processes, and what must never happen in them (rules 1 to 4 of the design), as seen from
//! outside: by the balancer, the clients, the commands of an operator.

mod adopted;
mod bad_input;
mod crash_sweep;
mod evidence;
mod fleet;
mod gate_command;
mod gate_disk;
mod gate_health;
mod gate_job;
mod gate_mariadb;
mod gate_not_run;
mod gate_orders;
mod gate_sample;
mod gate_sources;
mod gate_survival;
mod gates;
mod generations;
mod hiccup;
mod hooks;
mod late_death;
mod late_old_node;
mod leaders;
mod least;
mod line;
pub(crate) mod metadata;
mod outside;
mod releases;
mod restored;
mod rotation_monitor;
mod store_away;
pub(crate) mod tasks;
