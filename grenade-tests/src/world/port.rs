//! Free ports on the loopback address.
//!
//! Drawn from below the range that the system gives to outgoing connections: a load makes a hundred of those a second,
//! and one of them would sooner or later sit on a port that a server is about to bind.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rand::RngExt;

use crate::world::WorldError;

/// Ports that were given out by this process, so that none is given out twice before its user has bound it.
static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
/// Below are the ports of well-known services.
const LOWEST: u16 = 10_240;
/// Where the system says which ports it gives to outgoing connections.
const OUTGOING: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// The first of them where the system does not say: Linux's default.
const FIRST_OUTGOING: u16 = 32_768;
/// How many ports are tried.
const TRIES: u32 = 2000;

/// A port with no listener. Another process may take it before its user does; the user's bind then fails.
///
/// # Errors
/// When none of many is free.
pub fn free() -> Result<SocketAddr, WorldError> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = given.get_or_insert_default();
    let (mut dice, range) = (rand::rng(), range());
    let mut refused = std::io::Error::from(std::io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, dice.random_range(range.clone())));
        match TcpListener::bind(address) {
            Ok(_) if given.insert(address.port()) => return Ok(address),
            Ok(_) => {}
            Err(e) => refused = e,
        }
    }
    Err(WorldError::Port(refused))
}

fn range() -> Range<u16> {
    let first = std::fs::read_to_string(OUTGOING)
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(FIRST_OUTGOING);
    // A system that gives out nearly everything leaves nothing below: then any port must do.
    if first > LOWEST + 1000 { LOWEST..first } else { LOWEST..u16::MAX }
}
