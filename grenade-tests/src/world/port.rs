//! Free ports on the loopback address.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

use crate::world::WorldError;

/// Ports that were given out by this process, so that none is given out twice before its user has bound it.
static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);

/// A port that nobody listens on. Somebody may take it before its user does; whoever cannot bind says so.
///
/// # Errors
/// When the system has none.
pub fn free() -> Result<SocketAddr, WorldError> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = given.get_or_insert_default();
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(WorldError::Port)?;
        let address = listener.local_addr().map_err(WorldError::Port)?;
        if given.insert(address.port()) {
            return Ok(address);
        }
    }
}
