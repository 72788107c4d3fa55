//! Falsified histories. Each [`FalseRecord`] makes a history that was good bad in one place, so that what judges histories is itself
//! judged: it must find the rule broken that the falsification breaks.

mod about;
mod groups;
mod lasting;
mod orders;
mod record;
mod releases;
mod reports;
mod upgrades;

use tidegate_proto::record::Timestamp;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::event::Event;
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Key, Value};

pub use about::About;
pub use record::FalseRecord;

use super::{Put, Revision, Trace, Written};

impl FalseRecord {
    /// Falsifies a history; none where it lacks what the falsification is about.
    pub fn apply(self, trace: &mut Trace) -> Option<()> {
        match self {
            Self::LeaderIsLost => leader_is_lost(trace),
            Self::DirectiveOfADeposedTerm => orders::directive_of_a_deposed_term(trace),
            Self::EventIsWrittenAgain => comes_again(trace, |w| matches!(w.key, Key::Event(..))),
            Self::PauseIsIgnored => upgrades::pause_is_ignored(trace),
            Self::ApprovalIsMissing => upgrades::approval_is_missing(trace),
            Self::VerdictIsMissing => lose(trace, |w| matches!(w.key, Key::GateVerdict(..))),
            Self::FloorIsLost => window_is_lost(trace, |phase| *phase == Phase::Remove),
            Self::CertificateIsLost => lose(trace, is_certificate),
            Self::WitnessesAreFalse => witnesses_are_false(trace),
            Self::FloorIsNotAcknowledged => {
                let at = first(trace, |w| enters(w, is_contract))?;
                reports::last_report(trace, at, |report| report.window.0 -= 1)
            }
            Self::AgentForgets => reports::agent_forgets(trace),
            Self::OldNodeIsAdmitted => comes_again(trace, |w| matches!(w.key, Key::Inventory(..))),
            Self::WindowIsRemoved => is_removed(trace, |key| matches!(key, Key::Window(_))),
            // The former admission is rule 3, the former lease is rule 0.
            Self::ReportIsBackUnadmitted | Self::ReportGoesBeforeItsLease => reports::report_is_back(trace),
            Self::InventoryIsForgotten => is_removed(trace, |key| matches!(key, Key::Inventory(..))),
            Self::TwoAreDrained => orders::two_are_drained(trace),
            Self::TwoDomainsAreOut => {
                upgrades::zones_are_asked_for(trace);
                orders::two_are_drained(trace)
            }
            Self::UnhealthyAreDrained => {
                let at = first(trace, drains)?;
                reports::are_unhealthy(&mut trace.revisions[..at], |_| true);
                orders::two_are_drained(trace)
            }
            Self::BudgetIsLost => {
                let at = first(trace, drains)?;
                lose_at(trace, at, |written| matches!(written.key, Key::Budget(_)))
            }
            Self::UpgradeGoesBack => upgrades::upgrade_goes_back(trace),
            Self::LockIsLost => is_removed_before_the_end(trace, |key| matches!(key, Key::Active(_))),
            Self::SchemaLockIsLost => {
                is_removed_before_the_end(trace, |key| matches!(key, Key::ActiveSchema(_)))
            }
            Self::OneDoesNotServe => reports::never_serves(trace, |phase| *phase == Phase::Completed),
            Self::WindowIsNotRestored => {
                window_is_lost(trace, |phase| matches!(phase, Phase::RolledBack { .. }))
            }
            Self::OneIsNotBack => {
                reports::never_serves(trace, |phase| matches!(phase, Phase::RolledBack { .. }))
            }
            Self::TwoAreDeployed => releases::two_are_deployed(trace),
            Self::NoneIsDeployed => releases::none_is_deployed(trace),
            Self::RevisionIsGivenTwice => releases::revision_is_given_twice(trace),
            Self::ReleaseIsRemoved => releases::release_is_removed(trace),
            Self::ReleaseMeetsOldStorage => releases::meets_old_storage(trace),
            Self::NeedIsNotWritten => releases::need_is_not_written(trace),
            Self::FloorFallsBelowANeed => releases::floor_falls_below_a_need(trace),
            Self::ReconciledFloorIsLowered => upgrades::reconciled_floor_is_lowered(trace),
            Self::MigrateFloorIsMissing => upgrades::migrate_floor_is_missing(trace),
            Self::ManifestIsChanged => releases::manifest_is_changed(trace),
            Self::TagIsMoved => releases::tag_is_moved(trace),
            Self::WaveIsChanged => lasting::wave_is_changed(trace),
            Self::TaskEndsTwice => lasting::task_ends_twice(trace),
            Self::RevokedTokenIsGood => lasting::revoked_token_is_good(trace),
            Self::PersonIsNotNamed => {
                let at = first(trace, |w| matches!(w.key, Key::GateVerdict(..)))?;
                lose_at(trace, at, |w| matches!(w.key, Key::Event(..)))
            }
            Self::SettingsChangeUnnamed => releases::settings_change_unnamed(trace),
            Self::BatchIsLeftOut => groups::batch_is_left_out(trace),
            Self::DocumentIsLost => groups::document_is_lost(trace),
            Self::RequiredVersionIsForgotten => lasting::required_version_is_forgotten(trace),
            Self::InstanceIsSkippedAlone => lasting::instance_is_skipped_alone(trace),
            Self::WindowAdmitsTheExcluded => upgrades::window_admits_the_excluded(trace),
            Self::WavePassesUnverified => reports::wave_passes_unverified(trace),
        }
    }
}

/// The first drain comes again at the end of the roll, when its instance serves at the new version: what
/// [`Trace::needless_drains`] must find.
pub fn one_is_drained_again(trace: &mut Trace) -> Option<()> {
    let at = first(trace, drains)?;
    let again = trace.revisions[at].writes.iter().find(|w| drains(w))?.clone();
    let end = first(trace, |w| enters(w, |phase| *phase == Phase::Remove))?;
    let number = trace.revisions[end].number;
    trace.revisions.insert(end, Revision { number, writes: vec![again] });
    Some(())
}

/// The first revision with such a write.
fn first(trace: &Trace, is: impl Fn(&Written) -> bool) -> Option<usize> {
    trace.revisions.iter().position(|revision| revision.writes.iter().any(&is))
}

fn enters(written: &Written, is: impl Fn(&Phase) -> bool) -> bool {
    matches!(written.value(), Some(Value::Upgrade(upgrade)) if is(&upgrade.body.phase))
}

fn is_contract(phase: &Phase) -> bool {
    matches!(phase, Phase::Contract { .. })
}

fn is_certificate(written: &Written) -> bool {
    matches!(written.key, Key::Certificate(..))
}

fn drains(written: &Written) -> bool {
    matches!(written.value(), Some(Value::Directive(d)) if d.body.disposition == Disposition::Drain)
}

/// The person of the records that a falsification brings.
const PERSON: &str = "ann";

/// An event with that person's name.
fn event() -> Event {
    let (from, to, because) = (String::new(), String::new(), String::new());
    Event { from, to, because, who: PERSON.to_owned(), at: Timestamp(1) }
}

/// What is written at the end of the history.
fn append(trace: &mut Trace, writes: Vec<Written>) {
    let number = next(trace);
    trace.revisions.push(Revision { number, writes });
}

/// The number of the next revision.
fn next(trace: &Trace) -> i64 {
    trace.revisions.last().map_or(0, |last| last.number) + 1
}

/// The revision that first wrote such a thing comes again at the end.
fn comes_again(trace: &mut Trace, is: impl Fn(&Written) -> bool) -> Option<()> {
    let at = first(trace, is)?;
    let again = trace.revisions[at].writes.clone();
    append(trace, again);
    Some(())
}

/// The key that was written last of such is removed at the end.
fn is_removed(trace: &mut Trace, is: impl Fn(&Key) -> bool) -> Option<()> {
    let mut writes = trace.revisions.iter().rev().flat_map(|revision| &revision.writes);
    let key = writes.find(|written| is(&written.key) && written.put.is_some())?.key.clone();
    append(trace, vec![Written { key, put: None, gone: true }]);
    Some(())
}

fn lose(trace: &mut Trace, is: impl Fn(&Written) -> bool) -> Option<()> {
    let at = first(trace, &is)?;
    lose_at(trace, at, is)
}

fn lose_at(trace: &mut Trace, at: usize, is: impl Fn(&Written) -> bool) -> Option<()> {
    let writes = &mut trace.revisions[at].writes;
    let before = writes.len();
    writes.retain(|written| !is(written));
    (writes.len() < before).then_some(())
}

/// The revision that enters such a phase writes no window.
fn window_is_lost(trace: &mut Trace, is: fn(&Phase) -> bool) -> Option<()> {
    let at = first(trace, |w| enters(w, is))?;
    lose_at(trace, at, |written| matches!(written.key, Key::Window(_)))
}

fn witnesses_are_false(trace: &mut Trace) -> Option<()> {
    let at = first(trace, is_certificate)?;
    let written = trace.revisions[at].writes.iter_mut().find(|written| is_certificate(written))?;
    let Some(Put { value: Value::Certificate(page), .. }) = &mut written.put else { return None };
    page.body.text = page.body.text.replacen('1', "2", 1);
    Some(())
}

/// A lock goes with the last drain.
fn is_removed_before_the_end(trace: &mut Trace, is: impl Fn(&Key) -> bool) -> Option<()> {
    let at = trace.revisions.iter().rposition(|revision| revision.writes.iter().any(drains))?;
    let mut locks = trace.revisions[..at].iter().flat_map(|revision| &revision.writes);
    let key = locks.rfind(|w| is(&w.key))?.key.clone();
    trace.revisions[at].writes.push(Written { key, put: None, gone: true });
    Some(())
}

fn leader_is_lost(trace: &mut Trace) -> Option<()> {
    let at = first(trace, drains)?.checked_sub(1)?;
    trace.revisions[at].writes.push(Written { key: Key::Leader, put: None, gone: true });
    Some(())
}
