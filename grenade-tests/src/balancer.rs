//! The built-in balancer: an HTTP/1.1 reverse proxy that knows addresses and a health URL, and nothing else.
//!
//! Round robin over the servers that are up. Never retries, never looks at files, the store or a coordinator. It
//! reports the state of its servers in HAProxy's own words on a unix socket, so that one evidence client serves both.

pub mod check;
pub mod health;
pub mod proxy;
pub mod run;
pub mod server;
pub mod stat;
pub mod stats_socket;
