//! What the embedded store promises, on its own and beside a real etcd.

mod durability;
mod facts;
mod forms;
mod real_etcd;
mod stalls;
mod watchers;
