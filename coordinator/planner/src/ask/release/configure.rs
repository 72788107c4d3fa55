//! Set how a stream is run.

use super::{Asked, begun, granted};
use crate::ask::{Asker, Refusal};
use crate::fleet::Fleet;
use crate::moment::Moment;
use tidegate_proto::compute::Canary;
use tidegate_proto::record::release::{ComputeRelease, ReleaseStatus};
use tidegate_proto::record::stream::{Head, MAX_HOOK_NODES, MAX_KEPT, NodeHook, Stream, StreamSettings};
use tidegate_proto::{ReleaseTag, StreamName};

/// Replaces a stream's settings; a stream that is not there yet begins with them.
pub fn configure(
    fleet: &Fleet,
    moment: &Moment,
    name: &StreamName,
    settings: &StreamSettings,
    asker: &Asker,
) -> Result<Asked, Refusal> {
    valid(settings)?;
    let mut change = begun(fleet, moment, name)?;
    if fleet.stream(name).is_some() && *change.stream.settings == *settings {
        return Ok(Asked::already(name, None));
    }
    if let Some(tag) = &settings.strategy.manual {
        can_go_out(&change.stream, name, tag)?;
    }
    change.stream.removed_images |= change.stream.settings.removal.is_some();
    asks_for_new_hooks(&mut change.stream, settings);
    change.stream.settings = Box::new(settings.clone());
    Ok(granted(change, asker, None, "settings".to_owned(), "settings changed".to_owned()))
}

/// What a former hook did says nothing about the one that is named now: this one gets tasks under new names, on every
/// node.
fn asks_for_new_hooks(stream: &mut Stream, settings: &StreamSettings) {
    let differs = |former: &Option<NodeHook>, named: &Option<NodeHook>| {
        former.as_ref().map(|asked| &asked.hook) != named.as_ref().map(|asked| &asked.hook)
    };
    if differs(&stream.settings.prewarm, &settings.prewarm) {
        stream.pending.iter_mut().for_each(|head| head.attempt += 1);
    }
    if differs(&stream.settings.removal, &settings.removal) {
        let collected = |head: &&mut Head| head.release.status == ReleaseStatus::Deprecated;
        stream.kept.iter_mut().filter(collected).for_each(|head| head.attempt += 1);
    }
}

/// Refuses a manual strategy with a tag that never goes out: it would hold back every other release.
fn can_go_out(stream: &Stream, name: &StreamName, tag: &ReleaseTag) -> Result<(), Refusal> {
    let bears = |release: &&ComputeRelease| release.tag == *tag;
    let of_tag: Vec<&ComputeRelease> = stream.heads().map(|head| &head.release).filter(bears).collect();
    let Some(latest) = of_tag.iter().max_by_key(|release| release.revision) else {
        return Err(Refusal::state(format!(
            "strategy.manual names {tag}, and {name} keeps no release with this tag"
        )));
    };
    let deployed = stream.deployed.as_ref().map(|head| head.release.revision);
    let goes_out = |release: &ComputeRelease| match release.status {
        ReleaseStatus::Pending | ReleaseStatus::Canary | ReleaseStatus::Deployed => true,
        ReleaseStatus::Superseded => release.deployed_at.is_some(),
        // A person may retry it.
        ReleaseStatus::Error => deployed.is_none_or(|deployed| deployed < release.revision),
        ReleaseStatus::Deprecated => false,
    };
    if of_tag.iter().copied().any(goes_out) {
        return Ok(());
    }
    let was_deployed = of_tag.iter().filter(|release| release.deployed_at.is_some());
    let next_step = match was_deployed.map(|release| release.revision).max() {
        Some(target) => {
            let manual = stream.settings.strategy.manual.as_ref();
            // A rollback to another tag than that is refused.
            let unset = match manual.is_some_and(|manual| manual != tag) {
                true => "unset strategy.manual, then ",
                false => "",
            };
            let command = format!("tidegate release rollback {target} --stream {name} --why …");
            format!("{unset}roll back to it first: `{command}`")
        }
        None => "no revision with this tag was ever deployed: create the release again first".to_owned(),
    };
    Err(Refusal::state(format!(
        "strategy.manual names {tag}, which does not go out: revision {} of {name} is {}; {next_step}",
        latest.revision, latest.status
    )))
}

/// What is wrong with settings by themselves.
fn valid(settings: &StreamSettings) -> Result<(), Refusal> {
    let invalid = |message: String| Err(Refusal::invalid(message));
    if settings.minimum_available == 0 || settings.minimum_available as usize > MAX_KEPT {
        return invalid(format!(
            "minimum_available is {}: 1 to {MAX_KEPT} is allowed, counting the deployed release",
            settings.minimum_available
        ));
    }
    if let Some(canary) = &settings.canary {
        valid_canary("canary", canary)?;
    }
    if let Some(availability) = &settings.availability
        && availability.healthy_deadline <= availability.min_healthy_time
    {
        return invalid(format!(
            "availability.healthy_deadline: {} is not above min_healthy_time ({}), so no release could ever become available in time",
            availability.healthy_deadline, availability.min_healthy_time
        ));
    }
    valid_hook("prewarm", settings.prewarm.as_ref())?;
    valid_hook("removal", settings.removal.as_ref())
}

/// The most words that a canary may wait for: each is a key of the store.
const MAX_SIGNALS: u32 = 10_000;

pub(super) fn valid_canary(field: &str, canary: &Canary) -> Result<(), Refusal> {
    let enough = canary.promote_after.unwrap_or(1);
    if enough == 0 || enough > MAX_SIGNALS {
        return Err(Refusal::invalid(format!(
            "{field}.promote_after is {enough}: 1 to {MAX_SIGNALS} computes are allowed; unmeasured is not success"
        )));
    }
    if canary.tolerate > MAX_SIGNALS {
        return Err(Refusal::invalid(format!(
            "{field}.tolerate is {}: 0 to {MAX_SIGNALS} are allowed",
            canary.tolerate
        )));
    }
    Ok(())
}

fn valid_hook(field: &str, hook: Option<&NodeHook>) -> Result<(), Refusal> {
    match hook.map(|hook| hook.nodes.len()) {
        Some(count) if count == 0 || count > MAX_HOOK_NODES => Err(Refusal::invalid(format!(
            "{field}.nodes names {count} nodes: 1 to {MAX_HOOK_NODES} are allowed"
        ))),
        _ => Ok(()),
    }
}
