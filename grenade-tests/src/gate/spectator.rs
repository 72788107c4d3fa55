//! Who sees how an upgrade goes while it does, five times a second.

use std::time::Duration;

use crate::gate::picture::Picture;

/// Sees it, and shows it to a person.
pub trait Spectator: Sync {
    /// Receives what is done now.
    fn say(&self, what: &str);

    /// Sees one instant.
    fn look(&self, picture: &Picture);

    /// Whether it wants to see each instance; else a picture has none, and neither coordinator nor balancer is asked.
    fn sees_instances(&self) -> bool {
        true
    }

    /// What waits for a person is shown so long before the operator acts.
    fn reading(&self) -> Duration {
        Duration::ZERO
    }
}
