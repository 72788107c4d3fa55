//! What failed, and whether a machine that is too slow explains it as well as a fault of the service does.

use anyhow::Context;
use thiserror::Error;

use crate::load::outcome::Failure;
use crate::load::wire::NoAnswer;
use crate::world::WorldError;

/// Something that was waited for in vain, in words.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Late(pub String);

/// A command of the gate file that ended with another status than 0, in words.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Failed(pub String);

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

    /// What the service's own contract showed after an upgrade that completed: that a command of it failed or took too long
    /// is a result.
    ///
    /// # Errors
    /// When a command could not be started.
    pub fn of_contract(done: anyhow::Result<()>) -> anyhow::Result<Option<Self>> {
        let Err(error) = done.context("it completed, and then its contract failed") else { return Ok(None) };
        let wrong = Self::of(&error);
        if wrong.of_time || error.is::<Failed>() { Ok(Some(wrong)) } else { Err(error) }
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

    #[test]
    fn contract_that_fails_is_a_result_unless_it_cannot_start() {
        assert_eq!(Wrong::of_contract(Ok(())).unwrap(), None);
        let failed = Failed("`drop` ended with exit status: 1".to_owned());
        let failed = anyhow::Error::new(failed).context("schema.contract[0]");
        let what = "it completed, and then its contract failed: schema.contract[0]: `drop` ended with exit status: 1";
        let wrong = Wrong::of_contract(Err(failed)).unwrap();
        assert_eq!(wrong, Some(Wrong::of_service(what.to_owned())));
        let late =
            WorldError::Late { what: "drop".to_owned(), limit: Duration::from_secs(1), seen: String::new() };
        assert!(Wrong::of_contract(Err(late.into())).unwrap().is_some_and(|wrong| wrong.of_time));
        Wrong::of_contract(Err(anyhow!("the program `drop` is not installed"))).unwrap_err();
    }
}
