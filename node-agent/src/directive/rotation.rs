//! Whether an instance is in rotation, by evidence.

use super::seen::{DisableFile, Seen, Url};
use super::timers::Timers;
use crate::config::Service;
use crate::host::Alive;
use tidegate_proto::record::report::Rotation;

/// Whether balancers know that it refuses: they were asked, or their checks had time to see it; or nobody is there to
/// answer what they send.
fn was_noticed(seen: &Seen, timers: &Timers, service: &Service) -> bool {
    let nobody = seen.alive == Alive::No || seen.url == Url::Nobody;
    let long = timers.unavailable_for(seen.now).is_some_and(|time| time >= service.fall_time());
    nobody || long || !service.balancers.is_empty()
}

/// Whether the instance is in rotation, by the evidence of this look and of how long it has been so.
pub fn of(seen: &Seen, timers: &Timers, service: &Service) -> Rotation {
    let rise = service.rise_time();
    match (seen.file, seen.url) {
        (DisableFile::Foreign, _) => Rotation::Maintenance,
        (DisableFile::Own, Url::Good) => Rotation::Leaving,
        (DisableFile::Own, _) if timers.is_out() && was_noticed(seen, timers, service) => Rotation::Out,
        (DisableFile::Own, _) => Rotation::Leaving,
        (DisableFile::Absent, Url::Good) if timers.is_in(seen.now, rise) => Rotation::In,
        (DisableFile::Absent, Url::Good) => Rotation::Returning,
        (DisableFile::Absent, _) => Rotation::Unknown,
    }
}
