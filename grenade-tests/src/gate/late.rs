//! What failed, and whether a machine that is too slow explains it as well as a fault of the service does.

use thiserror::Error;

use crate::load::outcome::Failure;
use crate::load::wire::NoAnswer;
use crate::world::WorldError;

/// Something that was waited for in vain, in words.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Late(pub String);

/// What did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// In words.
    pub what: String,
    /// Whether it is for want of time: a deadline, no answer, no connection.
    pub of_time: bool,
}

impl Wrong {
    /// What time does not explain.
    pub fn of_service(what: String) -> Self {
        Self { what, of_time: false }
    }

    /// An error of the runner, with its causes.
    pub fn of(error: &anyhow::Error) -> Self {
        let of_time = error.chain().any(|cause| {
            matches!(cause.downcast_ref(), Some(WorldError::Late { .. }))
                || cause.downcast_ref::<Failure>().is_some_and(Failure::is_of_time)
                || cause.is::<NoAnswer>()
                || cause.is::<Late>()
        });
        Self { what: format!("{error:#}"), of_time }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::anyhow;

    use super::*;

    #[test]
    fn deadline_is_of_time_and_an_exit_status_is_not() {
        let late =
            WorldError::Late { what: "n1".to_owned(), limit: Duration::from_secs(1), seen: String::new() };
        let late = anyhow::Error::new(late).context("the target alone");
        let wrong = Wrong::of(&late);
        assert!(wrong.of_time && wrong.what.starts_with("the target alone: waited 1s for n1"), "{wrong:?}");
        assert!(Wrong::of(&anyhow::Error::new(Late("no answer".to_owned())).context("step 1")).of_time);
        assert!(Wrong::of(&anyhow::Error::new(Failure::Silence)).of_time);
        assert!(!Wrong::of(&anyhow!("n1 ended with exit status: 3 before it was ready")).of_time);
        assert!(!Wrong::of(&anyhow::Error::new(Failure::Content("name is 2".to_owned()))).of_time);
    }
}
