//! The trial of a waiting release: where its stream asks for that, the release must have been available for a while before
//! it is deployed, or it has failed. The time is counted only while every other gate is open.

use super::ReleaseGate;
use crate::gate::Reason;
use tidegate_proto::Span;
use tidegate_proto::record::stream::{Availability, Head};

/// Why a release does not go out yet.
pub(crate) enum Trial {
    /// Other gates are shut, and it is not on trial.
    Shut(Vec<Reason>),
    /// Every other gate has opened.
    Begins,
    /// Another gate has shut: waiting for that does not count.
    Ends,
    /// It has not answered for long enough yet.
    Waits(Vec<Reason>),
    /// It did not become available in time.
    Failed(String),
}

/// What the trial says, given the reasons of every other gate.
pub(crate) fn assess(
    availability: Option<&Availability>,
    head: &Head,
    reasons: Vec<Reason>,
) -> Result<(), Trial> {
    if !reasons.is_empty() {
        return Err(if head.on_trial { Trial::Ends } else { Trial::Shut(reasons) });
    }
    let Some(asked) = availability else { return Ok(()) };
    match head.on_trial {
        _ if head.available == Some(true) && is_long_enough(head, asked) => Ok(()),
        false => Err(Trial::Begins),
        true if head.trial_ms >= asked.healthy_deadline.as_millis() => Err(Trial::Failed(format!(
            "it did not answer for {} without a break within {}",
            asked.min_healthy_time, asked.healthy_deadline
        ))),
        true => Err(Trial::Waits(vec![Reason::Release(ReleaseGate::NotAvailable {
            answered: Span::from_millis(head.available_ms / 1000 * 1000),
            needed: asked.min_healthy_time,
            deadline: asked.healthy_deadline,
        })])),
    }
}

fn is_long_enough(head: &Head, asked: &Availability) -> bool {
    head.available_ms >= asked.min_healthy_time.as_millis()
}
