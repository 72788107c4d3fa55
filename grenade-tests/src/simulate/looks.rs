//! Every question that only reads, asked as doors ask it. Each is answered, or refused because of what was asked or because the
//! store does not answer: a question changes nothing, so that no gate closes it. What a list names is found, once a coordinator
//! that lists from memory had the time to see a store that was restored.

use super::stream_commands::STREAM;
use std::time::Duration;
use tidegate_coordinator::context::Context;
use tidegate_coordinator::leadership::Leadership;
use tidegate_coordinator::operation::{self, OperationError, metadata, release};
use tidegate_proto::wire::v1::upgrade_seen::Seen;
use tidegate_proto::wire::v1::{
    Event, ExplainGroupRequest, ExplainReleaseRequest, ExplainUpgradeRequest, FleetHistoryRequest,
    FleetSpreadRequest, FleetVersionsRequest, GetReleaseRequest, GroupHistoryRequest,
    InstanceMetadataRequest, ListEvidenceRequest, ListGatesRequest, ListGroupsRequest, ListInstancesRequest,
    ListReleasesRequest, ListStreamsRequest, ListTasksRequest, ListTokensRequest, ListUpgradesRequest,
    PreviewUpgradeRequest, ReleaseSettingsRequest, ShowGroupRequest, ShowStreamRequest, StartUpgradeRequest,
    StreamHistoryRequest, UpgradeCertificateRequest, UpgradeHistoryRequest, UpgradeStatusRequest,
    WatchUpgradeRequest,
};
use tokio::time::{Instant, sleep, timeout_at};

/// A watch that says nothing for so long has said all that there is for now.
const QUIET: Duration = Duration::from_millis(500);

/// The longest that a watch is read.
const LONGEST: Duration = Duration::from_secs(2);

/// So long after a store was restored, a coordinator lists what is there.
const SEEN: Duration = Duration::from_secs(5);

/// The answers that no question has.
#[derive(Debug, Default)]
struct Wrong {
    /// Wrong at any time.
    answers: Vec<String>,
    /// What was listed, and was not found.
    missing: Vec<String>,
}

impl Wrong {
    /// What was answered to a question.
    fn note<T>(&mut self, what: &str, answer: Result<T, OperationError>) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(
                OperationError::BadInput(_)
                | OperationError::NotFound(_)
                | OperationError::Unavailable(_)
                | OperationError::Store { .. },
            ) => None,
            // What it is about cannot be read.
            Err(OperationError::Refused(why)) if why.contains(" is malformed: ") => None,
            Err(error) => {
                self.answers.push(format!("{what} only reads, and was refused: {error}"));
                None
            }
        }
    }

    /// What was answered to a question about something that a list has just named.
    fn note_listed<T>(&mut self, what: &str, answer: Result<T, OperationError>) {
        if let Err(OperationError::NotFound(why)) = &answer {
            self.missing.push(format!("{what} was listed, and is not found: {why}"));
        }
        self.note(what, answer);
    }
}

/// Previews an upgrade, as a follower does and as the leader does. It is refused where the real one would be.
pub(super) async fn preview(context: &Context, leadership: &Leadership, spec: &serde_json::Value) {
    let asked = PreviewUpgradeRequest { spec: spec.to_string(), ..Default::default() };
    let _ = operation::preview_upgrade(context, &asked).await;
    let asked = StartUpgradeRequest {
        spec: spec.to_string(),
        dry_run: true,
        who: "person".to_owned(),
        ..Default::default()
    };
    let _ = operation::start_upgrade(context, leadership, asked).await;
}

/// Asks every question; which wrong answers came.
pub(super) async fn look(context: &Context, leadership: &Leadership, id: &str, service: &str) -> Vec<String> {
    let ask_all = async || {
        let mut wrong = Wrong::default();
        of_upgrades(&mut wrong, context, id, service).await;
        of_fleet(&mut wrong, context, service).await;
        of_streams(&mut wrong, context, leadership).await;
        of_groups(&mut wrong, context, leadership).await;
        wrong
    };
    let Wrong { mut answers, mut missing } = ask_all().await;
    if !missing.is_empty() {
        sleep(SEEN).await;
        let again = ask_all().await;
        missing.retain(|what| again.missing.contains(what));
        answers.extend(missing.into_iter().chain(again.answers));
    }
    answers
}

async fn of_upgrades(wrong: &mut Wrong, context: &Context, id: &str, service: &str) {
    let (id, service) = (id.to_owned(), service.to_owned());
    let asked = UpgradeStatusRequest { id: id.clone(), max_instances: 5 };
    wrong.note("a status", operation::upgrade_status(context, &asked).await);
    let asked = ExplainUpgradeRequest { id: id.clone() };
    wrong.note("an explanation", operation::explain_upgrade(context, &asked).await);
    watched(wrong, context, &id).await;
    wrong.note(
        "a certificate",
        operation::upgrade_certificate(context, &UpgradeCertificateRequest { id }).await,
    );
    let asked = ListUpgradesRequest { service: service.clone(), ..Default::default() };
    let listed = wrong.note("the list of upgrades", operation::list_upgrades(context, &asked).await);
    for upgrade in listed.into_iter().flat_map(|listed| listed.upgrades).take(2) {
        let asked = UpgradeStatusRequest { id: upgrade.id.clone(), max_instances: 0 };
        wrong.note_listed(
            &format!("upgrade {}", upgrade.id),
            operation::upgrade_status(context, &asked).await,
        );
    }
    wrong.note("the list of gates", operation::list_gates(context, &ListGatesRequest { service }).await);
}

/// A watch of an upgrade says what its history has before and after it, in the same order and without a gap, and nothing after
/// the end. A coordinator that is stopped may say a part of it.
async fn watched(wrong: &mut Wrong, context: &Context, id: &str) {
    let history =
        async || operation::upgrade_history(context, &UpgradeHistoryRequest { id: id.to_owned() }).await;
    let Some(before) = wrong.note("a history", history().await) else { return };
    let asked = WatchUpgradeRequest { id: id.to_owned() };
    let Some(mut stream) = wrong.note("a watch", operation::watch_upgrade(context, &asked).await) else {
        return;
    };
    let (mut said, mut ended) = (Vec::new(), None);
    let longest = Instant::now() + LONGEST;
    while let Ok(Some(seen)) = timeout_at(longest.min(Instant::now() + QUIET), stream.recv()).await {
        if ended.is_some() {
            wrong.answers.push(format!("a watch of {id} goes on after its end: {seen:?}"));
        }
        match seen.seen {
            Some(Seen::Event(event)) => said.push(event),
            Some(Seen::Over(over)) => ended = Some(over.phase),
            _ => {}
        }
    }
    let Some(after) = wrong.note("a history", history().await) else { return };
    let missed = missed(&before, &said, &after, ended.is_some());
    wrong.answers.extend(missed.map(|event| format!("a watch of {id} left out {event:?}")));
}

/// The first event that a watch between two looks at the history left out: one before another that it said, or any before
/// the end.
fn missed(before: &[Event], said: &[Event], after: &[Event], is_over: bool) -> Option<Event> {
    // One that cannot be read has no name, and what a store forgot is in one of the looks only.
    let is_kept = |event: &&Event| !event.who.is_empty() && after.contains(event);
    let mut kept = before.iter().filter(is_kept);
    let mut said = said.iter().filter(|event| before.contains(event) && after.contains(event));
    loop {
        match (kept.next(), said.next()) {
            (Some(kept), Some(said)) if kept == said => {}
            (Some(kept), None) if is_over => return Some(kept.clone()),
            (Some(kept), Some(_)) => return Some(kept.clone()),
            _ => return None,
        }
    }
}

async fn of_fleet(wrong: &mut Wrong, context: &Context, service: &str) {
    let service = service.to_owned();
    let asked = ListInstancesRequest { service: service.clone(), all: true };
    wrong.note("the list of instances", operation::list_instances(context, &asked).await);
    let asked = FleetSpreadRequest { service: service.clone() };
    wrong.note("a spread", operation::fleet_spread(context, &asked).await);
    wrong.note("versions", operation::fleet_versions(context, &FleetVersionsRequest { service }).await);
    wrong.note("the list of tasks", operation::list_tasks(context, &ListTasksRequest::default()).await);
    wrong.note("the list of tokens", operation::list_tokens(context, &ListTokensRequest { all: true }).await);
    wrong.note("the history of the fleet", operation::fleet_history(context, &FleetHistoryRequest {}).await);
    drop(operation::leader(context));
}

async fn of_streams(wrong: &mut Wrong, context: &Context, leadership: &Leadership) {
    let stream = STREAM.to_owned();
    let listed =
        wrong.note("the list of streams", release::list_streams(context, &ListStreamsRequest {}).await);
    for named in listed.into_iter().flatten() {
        let asked = ShowStreamRequest { stream: named.stream.to_string() };
        wrong.note_listed("a stream", release::show_stream(context, &asked).await);
        wrong.note("the active release", release::active_release(context, &asked).await);
    }
    let asked = ListReleasesRequest { stream: stream.clone(), ..Default::default() };
    let listed = wrong.note("the list of releases", release::list_releases(context, &asked).await);
    for named in listed.into_iter().flat_map(|page| page.releases).take(2) {
        let asked = GetReleaseRequest {
            stream: stream.clone(),
            revision: named.revision.get(),
            ..Default::default()
        };
        wrong.note_listed("a release", release::get_release(context, &asked).await);
        let asked = ReleaseSettingsRequest {
            stream: stream.clone(),
            revision: named.revision.get(),
            pg_version: 16,
            ..Default::default()
        };
        wrong.note("settings of a release", release::release_settings(context, &asked).await);
    }
    let asked = ExplainReleaseRequest { stream: stream.clone(), ..Default::default() };
    wrong.note("why a release waits", release::explain_release(context, leadership, &asked).await);
    wrong.note(
        "the history of a stream",
        release::stream_history(context, &StreamHistoryRequest { stream }).await,
    );
    wrong.note("evidence", release::list_evidence(context, &ListEvidenceRequest::default()).await);
}

async fn of_groups(wrong: &mut Wrong, context: &Context, leadership: &Leadership) {
    let listed =
        wrong.note("the list of groups", metadata::list_groups(context, &ListGroupsRequest {}).await);
    for named in listed.into_iter().flatten() {
        let group = named.group.to_string();
        let asked = ShowGroupRequest { group: group.clone() };
        wrong.note_listed("a group", metadata::show_group(context, &asked).await);
        let asked = GroupHistoryRequest { group: group.clone() };
        wrong.note("the history of a group", metadata::group_history(context, &asked).await);
        let asked = InstanceMetadataRequest { group: group.clone(), instance: "n00".to_owned() };
        wrong.note("the document of an instance", metadata::instance_metadata(context, &asked).await);
    }
    let asked = ExplainGroupRequest { group: "group".to_owned() };
    wrong.note("why a group waits", metadata::explain_group(context, leadership, &asked).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(names: &str) -> Vec<Event> {
        names.chars().map(|name| Event { who: name.to_string(), ..Event::default() }).collect()
    }

    #[test]
    fn watch_leaves_no_event_out() {
        let missed = |before, said, after, is_over| {
            let missed = missed(&events(before), &events(said), &events(after), is_over);
            missed.map(|event| event.who)
        };
        assert_eq!(missed("abc", "abcd", "abcde", true), None);
        assert_eq!(missed("abc", "ab", "abc", false), None, "its coordinator may be stopped");
        assert_eq!(missed("abc", "ab", "abc", true), Some("c".to_owned()), "it said the end");
        assert_eq!(missed("abc", "acd", "abcd", false), Some("b".to_owned()), "it said a later one");
        assert_eq!(
            missed("abc", "bacd", "abcd", false),
            Some("a".to_owned()),
            "it said them in another order"
        );
        assert_eq!(missed("abcx", "abcy", "abcyz", true), None, "the store was restored before x");
        let unreadable = [Event::default()];
        assert_eq!(super::missed(&unreadable, &[], &unreadable, true), None);
    }
}
