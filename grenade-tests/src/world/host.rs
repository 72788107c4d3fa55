//! Where processes of a world run: on the loopback address, or in a network namespace of their own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::world::{WorldError, port};

/// A machine, as far as its network goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The address that its servers listen on.
    pub ip: IpAddr,
    /// The file of its network namespace; none = the namespace of this process.
    pub namespace: Option<PathBuf>,
}

impl Host {
    /// The loopback address of this process' own namespace.
    pub fn loopback() -> Self {
        Self { ip: Ipv4Addr::LOCALHOST.into(), namespace: None }
    }

    /// An address with a port that nothing listens on.
    ///
    /// # Errors
    /// When no port is free.
    pub fn socket(&self) -> Result<SocketAddr, WorldError> {
        // In another namespace every port is free; a port that this process gave out is given to no other server.
        Ok(SocketAddr::new(self.ip, port::free()?.port()))
    }

    /// Whether others reach its servers without the loopback device.
    pub fn is_remote(&self) -> bool {
        self.namespace.is_some()
    }
}
