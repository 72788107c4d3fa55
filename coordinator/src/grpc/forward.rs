//! Calls that only the leader may carry out: handled here if this coordinator leads, else forwarded to the leader,
//! once, in the caller's name. The leader authorizes the caller by itself: by the caller's own token, or by the
//! certificate that the forwarding coordinator vouches for with the token that the coordinators share.

use super::client::{self, Connection, Trust};
use crate::context::Context;
use crate::guard::{By, Principal, Token, VOUCHED, vouch};
use crate::leadership::Leadership;
use crate::telemetry::Chain;
use std::sync::Arc;
use tidegate_proto::Revision;
use tidegate_proto::record::leader::Leader;
use tokio::time::Instant;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status};

/// The mark of a call that a follower has forwarded: it is never forwarded again.
const FORWARDED: &str = "tidegate-forwarded";

/// How long the leader may take to answer a forwarded call: longer than any takes, and shorter than callers wait.
const ANSWER: std::time::Duration = std::time::Duration::from_secs(30);

/// How long a call waits for a coordinator that leads: a leader that was killed is followed within its TTL, 5 s unless set.
const HANDOVER: std::time::Duration = std::time::Duration::from_secs(10);

/// How long this coordinator may take to see what the leader has just written.
const SYNC_LIMIT: std::time::Duration = std::time::Duration::from_secs(2);

/// How the other coordinators are reached. They share token and certificate authority.
#[derive(Clone, Default)]
pub struct Peers {
    /// The coordinators' own token.
    pub own: Option<Token>,
    /// What to trust and to show, for those that speak TLS.
    pub trust: Trust,
}

/// Where a call goes.
pub enum Route {
    /// This coordinator leads.
    Here(Arc<Leadership>),
    /// That one does.
    There(Connection),
}

/// Why a call cannot be sent to its place.
enum NoRoute {
    /// Another leader, or another look at it, may change that.
    Yet(Status),
    /// It stays so.
    For(Status),
}

impl Peers {
    /// Where a call goes that only the leader may do. Where none is there to do it, it waits for the next one, but not longer
    /// than a handover takes.
    pub async fn route<T>(
        &self,
        context: &Context,
        request: &Request<T>,
        principal: &Principal,
    ) -> Result<Route, Status> {
        let end = Instant::now() + HANDOVER;
        let is_forwarded = request.metadata().contains_key(FORWARDED);
        let mut leadership = context.leadership.clone();
        let mut sync_status = context.mirror.sync_status();
        loop {
            let named = leader(context);
            leadership.mark_unchanged();
            let why = match self.route_now(context, is_forwarded, principal).await {
                Ok(route) => return Ok(route),
                Err(NoRoute::For(why)) => return Err(why),
                Err(NoRoute::Yet(why)) => why,
            };
            let another = async {
                // The mirror lives as long as the context, and its sender with it: this ends by a change only.
                let _ = sync_status.wait_for(|_| leader(context) != named).await;
            };
            tokio::select! {
                () = another => {}
                Ok(()) = leadership.changed() => {}
                () = tokio::time::sleep_until(end) => return Err(why),
            }
        }
    }

    async fn route_now(
        &self,
        context: &Context,
        is_forwarded: bool,
        principal: &Principal,
    ) -> Result<Route, NoRoute> {
        if let Some(leadership) = context.led_here() {
            return Ok(Route::Here(leadership));
        }
        let Some(Leader { address: leader, .. }) = leader(context) else {
            return Err(NoRoute::Yet(Status::unavailable(format!(
                "no coordinator has led for {HANDOVER:?}; one takes over within the leader's TTL: ask again",
            ))));
        };
        let changing = || Status::unavailable("the leadership is changing hands: ask again");
        if leader == *context.address {
            return Err(NoRoute::Yet(changing()));
        }
        if is_forwarded {
            return Err(NoRoute::For(changing()));
        }
        let token = self.in_the_name_of(principal, &leader).map_err(NoRoute::For)?;
        match client::connect_within(&leader, Some(token), &self.trust, ANSWER).await {
            Ok(connection) => Ok(Route::There(connection)),
            Err(error) => {
                let why = format!("could not forward to the leader, and none followed: {}", Chain(&error));
                Err(NoRoute::Yet(Status::unavailable(why)))
            }
        }
    }

    /// The token of a forwarded call.
    fn in_the_name_of(&self, principal: &Principal, leader: &str) -> Result<Token, Status> {
        match (&principal.by, &self.own) {
            (By::Token(token), _) => Ok(token.clone()),
            (By::Certificate(_), Some(own)) => Ok(own.clone()),
            (By::Place, _) => Err(Status::unauthenticated(format!(
                "this coordinator does not lead, and forwards no call without a token: give a token with --token-file (TIDEGATE_TOKEN_FILE), or ask the leader {leader} on its own machine"
            ))),
            (By::Certificate(_), None) => Err(Status::unavailable(format!(
                "this coordinator does not lead and cannot vouch for a certificate, because it has no --token-file in common with the leader: ask {leader}"
            ))),
        }
    }
}

/// Who leads, by the store.
fn leader(context: &Context) -> Option<Leader> {
    context.mirror.view().leader.as_ref().map(|leader| (**leader).clone())
}

/// The same call, marked.
pub(super) fn forwarded<T>(request: Request<T>, principal: &Principal) -> Request<T> {
    let mut again = Request::new(request.into_inner());
    again.metadata_mut().insert(FORWARDED, MetadataValue::from_static("1"));
    if let By::Certificate(subject) = &principal.by {
        again.metadata_mut().insert(VOUCHED, vouch(subject));
    }
    again
}

/// The error for the caller of a mutation: the leader's own status, or, where the connection broke or the answer was
/// late, that the outcome is unknown.
pub(super) fn unanswered(status: Status) -> Status {
    match is_of_the_leader(&status) {
        true => status,
        false => Status::unknown(format!(
            "forwarded to the leader, which did not answer ({}): whether it was carried out is not known; look before you ask again",
            Chain(&status)
        )),
    }
}

/// The same where nothing was to be changed.
pub(super) fn unread(status: Status) -> Status {
    match is_of_the_leader(&status) {
        true => status,
        false => Status::unavailable(format!("the leader did not answer ({}): ask again", Chain(&status))),
    }
}

/// Its own statuses come without a cause, and are none of those of a time limit.
fn is_of_the_leader(status: &Status) -> bool {
    std::error::Error::source(status).is_none()
        && !matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded)
}

/// Waits a moment until this coordinator too sees what the leader wrote, so that the next request here finds it; if it
/// is late, the request is carried out all the same.
pub(super) async fn seen(context: &Context, revision: i64) {
    context.mirror.reaches_within(Revision(revision), SYNC_LIMIT).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_forward_is_an_unknown_outcome_and_a_refusal_stays_one() {
        let broken = || Status::from_error(Box::new(std::io::Error::other("broken pipe")));
        for status in [broken(), Status::cancelled("Timeout expired"), Status::deadline_exceeded("late")] {
            let reported = unanswered(status);
            assert_eq!(reported.code(), Code::Unknown, "{reported:?}");
            assert!(reported.message().contains("whether it was carried out is not known"), "{reported:?}");
        }
        assert_eq!(unread(broken()).code(), Code::Unavailable);
        for said in [Status::unknown("not known"), Status::not_found("no such release")] {
            assert_eq!(unread(said.clone()).code(), said.code());
        }
        for said in [Status::unavailable("none leads"), Status::failed_precondition("a gate is closed")] {
            assert_eq!(unanswered(said.clone()).code(), said.code());
        }
    }
}
