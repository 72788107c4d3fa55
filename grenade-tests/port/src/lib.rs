//! Free ports on the loopback address, each reserved for the process that drew it.
//!
//! Drawn from below the range that the system gives to outgoing connections: a load makes a hundred of those a second,
//! and one of them would sooner or later sit on a port that a server is about to bind.
//!
//! Between the draw and the bind of the server that the port is for, often seconds, the port looks free. So the process
//! that drew it holds an abstract socket of the port's name until it ends, and no other process that draws here gets
//! that port: neither another test nor another gate beside it.

use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as Name, UnixListener};
use std::sync::{Mutex, PoisonError};

use rand::RngExt;

/// The reservations of this process: each ends with it.
static HELD: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
/// Below are the ports of well-known services.
const LOWEST: u16 = 10_240;
/// Where the system says which ports it gives to outgoing connections.
const OUTGOING: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// The first of them where the system does not say: Linux's default.
const FIRST_OUTGOING: u16 = 32_768;
/// How many ports are tried.
const TRIES: u32 = 2000;

/// A loopback address on which nothing listens and which no living process has drawn. A program that draws elsewhere
/// may still take it; the user's bind then fails.
///
/// # Errors
/// When none of many is free.
pub fn free() -> Result<SocketAddr> {
    let (mut dice, range) = (rand::rng(), range());
    let mut refused = Error::from(ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        let port = dice.random_range(range.clone());
        let held = match reserve(port) {
            Ok(held) => held,
            Err(e) => {
                refused = e;
                continue;
            }
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match TcpListener::bind(address) {
            Ok(_) => {
                HELD.lock().unwrap_or_else(PoisonError::into_inner).push(held);
                return Ok(address);
            }
            Err(e) => refused = e,
        }
    }
    Err(refused)
}

/// The reservation of a port, which ends when it is dropped; an error where it has one already.
fn reserve(port: u16) -> Result<UnixListener> {
    UnixListener::bind_addr(&Name::from_abstract_name(format!("tidegate-port-{port}"))?)
}

fn range() -> Range<u16> {
    let first = std::fs::read_to_string(OUTGOING)
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(FIRST_OUTGOING);
    // A system that gives out nearly everything leaves nothing below: then any port must do.
    if first > LOWEST + 1000 { LOWEST..first } else { LOWEST..u16::MAX }
}
