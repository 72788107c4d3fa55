//! Each reason as a sentence.

use super::{CanaryCount, NeededBy, Reason};
use std::fmt;
use tidegate_proto::Span;

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent { service, nodes } => {
                write!(f, "{service}: no report from {nodes}: unknown, not gone")
            }
            Self::VersionUnknown { service, nodes } => {
                write!(f, "{service}: the version that runs is not known on {nodes}")
            }
            Self::Unreadable { key, why } => write!(f, "the record {key} {why}"),
            Self::Behind { service, nodes, needs } => {
                write!(f, "{service} is below version {needs} on {nodes}")
            }
            Self::Ahead { service, nodes, allowed } => {
                write!(f, "{service} is above version {allowed} on {nodes}")
            }
            Self::Unacknowledged { service, nodes, window } => {
                write!(f, "{service}: the window of revision {window} is not acknowledged by {nodes}")
            }
            Self::Staging { release, nodes } => write!(f, "{release} is being staged on {nodes}"),
            Self::StageFailed { node, release, why } => {
                write!(f, "{node} could not stage or remove {release}: {why}")
            }
            Self::Removing { nodes } => write!(f, "old code is being removed from {nodes}"),
            Self::Draining { nodes, deadline } => write!(f, "draining {nodes} (each within {deadline})"),
            Self::Replacing { nodes, deadline } => {
                write!(f, "replacing and verifying {nodes} (each healthy within {deadline})")
            }
            Self::Returning { nodes } => write!(f, "going back into rotation: {nodes}"),
            Self::NotServing { nodes } => write!(f, "not in rotation and healthy: {nodes}"),
            Self::Outside { service, window, nodes } => write!(
                f,
                "{service}: the version was changed in rotation to one outside the window {window} on {nodes}; these instances are drained one after the other, as far as capacity allows"
            ),
            Self::Held { nodes } => {
                write!(f, "drained and not stopped, because too few others are in rotation: {nodes}")
            }
            Self::Maintained { nodes } => write!(f, "kept out by a person: {nodes}"),
            Self::Capacity { in_service, required, out } => {
                write!(f, "{in_service} instances are in service and {required} must stay")?;
                if out.is_empty() { Ok(()) } else { write!(f, "; not in service: {out}") }
            }
            Self::Unavailable { allowed, out } => {
                write!(f, "{} instances are not in service and at most {allowed} may be: {out}", out.count)
            }
            Self::Domain { domain, out } => {
                write!(f, "failure domain {domain} is out, and no second one may be; not in service: {out}")
            }
            Self::Unlabelled { nodes } => write!(
                f,
                "out of rotation without the label of a failure domain, so possibly in any of them: {nodes}; nobody else may go"
            ),
            Self::Skipped { nodes } => write!(
                f,
                "skipped, which excuses from a wave but not from what comes after the last one: {nodes}"
            ),
            Self::Failed { node, why } => write!(f, "{node} failed: {why}"),
            Self::EmptyWave { wave } => {
                write!(f, "nobody is left in wave {} who could be seen at the new version", wave + 1)
            }
            Self::NoInstances { service } => write!(f, "{service} has no instance"),
            Self::Stalled { for_ms, deadline, out } => {
                let time = Span::from_millis(for_ms / 1000 * 1000);
                write!(f, "no instance became healthy for {time} (progress deadline {deadline})")?;
                if out.is_empty() { Ok(()) } else { write!(f, "; not in service: {out}") }
            }
            Self::Preflight { finding } => f.write_str(finding),
            Self::Approval { point } => write!(f, "{point} waits for a person's approval"),
            Self::Acceptance { why } => {
                write!(f, "contract waits for an approval that accepts what cannot be proved: {why}")
            }
            Self::Paused { who, why, .. } => write!(f, "paused by {who}: {why}"),
            Self::Schema { job, progress } => write!(f, "schema {job}: {progress}"),
            Self::SchemaTrouble { job, why } => {
                write!(f, "schema {job} did not succeed and is tried again: {why}")
            }
            Self::StoreRefused { what, why } => {
                write!(f, "the store refused the transaction {what:?}: {why}")
            }
            Self::SchemaLost { job, .. } => write!(
                f,
                "the database no longer shows that {job} is done: it was replaced by an older copy, or changed by hand; no instance is drained until it shows that again"
            ),
            Self::MigrateFloor { service, floor: Some(floor), needs } => write!(
                f,
                "migrate requires the floor {needs} of {service}, and its committed floor is {floor}"
            ),
            Self::MigrateFloor { service, floor: None, needs } => {
                write!(f, "migrate requires the floor {needs} of {service}, and no floor of it is committed")
            }
            Self::Certificate { why } => write!(f, "the certificate cannot be made: {why}"),
            Self::NoWayBack { why } => f.write_str(why),
            Self::Needed { service, floor, by } => {
                let NeededBy { stream, revision, tag, hold, needs } = &**by;
                write!(f, "the floor of {service} cannot fall to {floor}: ")?;
                write!(f, "revision {revision} of {stream} ({tag}) is {hold} and needs {needs}")
            }
            Self::Floor { service, floor, needs } => {
                write!(f, "the floor of {service} is committed at {floor} and {needs} is needed")
            }
            Self::ReleaseUnknown { service, nodes } => {
                write!(f, "{service}: which release runs is not known on {nodes}")
            }
            Self::NoStorage { compute } => {
                write!(f, "{compute} needs evidence, and there is no storage instance to have it for")
            }
            Self::Evidence { compute, storage, found: None } => {
                write!(f, "there is no evidence that {compute} works with {storage}, which is in use")
            }
            Self::Evidence { compute, storage, found: Some(verdict) } => {
                write!(
                    f,
                    "the compatibility run of {compute} with {storage}, which is in use, said {verdict}"
                )
            }
            Self::ReleaseApproval { stream, revision } => {
                write!(f, "revision {revision} of {stream} waits for a person's approval")
            }
            Self::ReleaseFailed { why, overtaken: None } => write!(f, "it failed: {why}"),
            Self::ReleaseFailed { why, overtaken: Some(by) } => {
                write!(
                    f,
                    "it failed ({why}), and revision {by}, which is later, is deployed: create it again"
                )
            }
            Self::Manual { tag } => write!(f, "the stream's manual strategy names {tag}, and manual wins"),
            Self::NoStrategy => f.write_str(
                "the stream's strategy lets nothing out by itself: latest is off, and no tag is named",
            ),
            Self::CanaryBusy { revision } => {
                write!(f, "revision {revision} is in canary, and one is tried at a time")
            }
            Self::RollsBack { revision, failed: true } => {
                write!(
                    f,
                    "revision {revision}, a rollback, failed, and no earlier release goes out by itself"
                )
            }
            Self::RollsBack { revision, .. } => {
                write!(f, "revision {revision} goes back to an earlier release and overtakes this one")
            }
            Self::CanaryOpen { count, .. } => {
                let CanaryCount { successes, needed, failures, tolerated } = count;
                write!(f, "{successes} computes told of success")?;
                match needed {
                    Some(needed) => write!(f, " and {needed} are needed")?,
                    None => f.write_str(", and a person promotes it")?,
                }
                write!(f, "; {failures} told of failure and {tolerated} are tolerated")
            }
            Self::NotAvailable { answered, needed, .. } => {
                write!(f, "it has answered for {answered} without a break, and {needed} are needed")
            }
            Self::Errand { hook, nodes } => write!(f, "hook {hook} was not begun on {nodes}"),
            Self::ErrandRuns { hook, nodes } => write!(f, "hook {hook} runs on {nodes}"),
            Self::ErrandUnknown { hook, node, why, .. } => {
                write!(f, "hook {hook} was begun on {node}, and how it ended is not known: {why}")
            }
            Self::ErrandFailed { hook, node, why } => write!(f, "hook {hook} failed on {node}: {why}"),
            Self::TooManyKept { count } => {
                write!(f, "{count} superseded releases are kept already, which is the most")
            }
            Self::Restored { witnesses, count } => {
                write!(
                    f,
                    "the store was restored from a backup, or is blank, and nothing acts until a person has reconciled it: {}",
                    witnesses.join("; ")
                )?;
                match count - witnesses.len() {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more witnesses"),
                }
            }
            Self::Unsupported { service, node, claim } => write!(
                f,
                "{service}/{node} {claim}; no database and no other node claims that, so the instance counts as silent and out, and the floor, remove and contract of {service} are closed"
            ),
            Self::Unheard { for_ms } => write!(
                f,
                "this coordinator has not seen the store before, and hears the agents first: {} more",
                Span::from_millis(for_ms.div_ceil(1000) * 1000)
            ),
            Self::FormerStore { nodes } => {
                write!(f, "obeyed a former store until this one was reconciled, and are told anew: {nodes}")
            }
            Self::Disregarded { service, nodes } => write!(
                f,
                "{service}: a person disregarded what these instances claim against the store, and their agents obey it only after a plan includes them: {nodes}"
            ),
            Self::Unsignalled { nodes, batch, batches, .. } => {
                write!(f, "batch {batch} of {batches}: not yet told by {nodes}")
            }
            Self::Watched { batch, batches, .. } => {
                write!(f, "batch {batch} of {batches} has told, and is watched for a while")
            }
        }
    }
}
