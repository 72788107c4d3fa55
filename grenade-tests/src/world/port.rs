//! Free ports for the private processes of a world.

use std::net::SocketAddr;

use crate::world::WorldError;

/// A port with no listener, which no other world draws while this process lives.
///
/// # Errors
/// When none of many is free.
pub fn free() -> Result<SocketAddr, WorldError> {
    tidegate_port::free().map_err(WorldError::Port)
}
