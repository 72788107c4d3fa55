//! A look at the database of an upgrade: what it shows, for the decision before which the upgrade is.

use super::bound::Bound;
use crate::leadership::Leadership;
use tidegate_migrations::RowCount;
use tidegate_planner::{LookedFor, SchemaFacts};
use tidegate_proto::record::upgrade::{Phase, PhaseName, Upgrade};

/// What the database shows now.
pub(super) async fn looked(
    leadership: &Leadership,
    upgrade: &Upgrade,
    bound: &Bound,
) -> Result<SchemaFacts, String> {
    let looked_for = Some(LookedFor::of(upgrade));
    let seen = bound.facts(counted_for(&upgrade.phase)).await.map_err(|e| e.in_words())?;
    // It ages from its end: one that took longer than a look holds would never be recent.
    Ok(SchemaFacts { looked_for, looked_ms: leadership.leading_ms(), ..seen })
}

/// The same, where nothing but the look is asked for: rows that were counted for this decision are not counted once more.
/// Whether any has come since, the job that follows sees by itself.
pub(super) async fn again(
    leadership: &Leadership,
    upgrade: &Upgrade,
    bound: &Bound,
    known: &SchemaFacts,
) -> Result<SchemaFacts, String> {
    if !is_counted(upgrade, known) {
        return looked(leadership, upgrade, bound).await;
    }
    let looked_for = Some(LookedFor::of(upgrade));
    let seen = bound.facts(RowCount::Uncounted).await.map_err(|e| e.in_words())?;
    let migrated = seen.expanded && seen.filled;
    Ok(SchemaFacts { looked_for, looked_ms: leadership.leading_ms(), migrated, ..seen })
}

/// What is known as a job begins that has looked at the database: of how far that is only the fill, for services that share the
/// schema, because the job changes it; and whether migrate has begun, and every contract that the look showed, which a rollback
/// must not pass over. It begins only on a database that holds the schema, whatever took its place before.
pub(super) fn begun(known: &SchemaFacts, seen: &SchemaFacts, running: String) -> SchemaFacts {
    SchemaFacts {
        clean: false,
        filled_before_job: Some(seen.filled),
        migrate_begun: seen.migrate_begun,
        contract_begun: seen.contract_begun,
        contracted_by: seen.contracted_by.clone(),
        later: seen.later.clone(),
        unclaimed: false,
        running: Some(running),
        ..known.clone()
    }
}

/// What stays known after an attempt that did not succeed, or was stopped: how far the database is has to be looked at again.
/// That migrate or a contract has begun stays until a look shows another database: a rollback, which goes on while the database is
/// away, and services that share the schema must not pass over it. A job that had begun has looked before: that look stays known to
/// the rolls of services that share the schema, and to rollbacks after a reconciliation, which a job that fails again and again
/// would hold otherwise.
pub(super) fn unseen(known: &SchemaFacts, trouble: Option<String>) -> SchemaFacts {
    SchemaFacts {
        trouble,
        migrate_begun: known.migrate_begun,
        contract_begun: known.contract_begun,
        contracted_by: known.contracted_by.clone(),
        later: known.later.clone(),
        sessions_unknown: known.sessions_unknown.clone(),
        filled_before_job: known.filled_before_job.filter(|_| known.running.is_some()),
        ..SchemaFacts::default()
    }
}

/// Whether no row was left when the database was looked at for this decision.
fn is_counted(upgrade: &Upgrade, known: &SchemaFacts) -> bool {
    known.migrated && known.looked_for == Some(LookedFor::of(upgrade))
}

/// Which rows that are left count for the next decision. A contract that the history shows as ended before the upgrade has
/// reached its own comes from a rollback or a lost store: rows may have come since.
fn counted_for(phase: &Phase) -> RowCount {
    match phase.name() {
        PhaseName::Migrate | PhaseName::Remove => RowCount::OpenOrEmpty,
        PhaseName::Contract => RowCount::Open,
        _ => RowCount::Uncounted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tidegate_planner::{ContractBegun, LaterContract};
    use tidegate_proto::record::Timestamp;
    use tidegate_proto::spec::Spec;

    fn in_remove() -> Upgrade {
        let sha256 = tidegate_proto::Digest::of(b"artifact");
        let spec: Spec = serde_json::from_value(serde_json::json!({
            "service": "pantry-api", "from": 1, "to": 2, "release": {"tag": "r2", "sha256": sha256},
        }))
        .unwrap();
        Upgrade {
            digest: spec.digest(),
            spec: Box::new(spec),
            by: "op".to_owned(),
            at: Timestamp(0),
            phase: Phase::Remove,
            paused: None,
            approvals: BTreeMap::new(),
            former: None,
            schema: None,
            certificate: None,
            waves: None,
            failed: BTreeMap::new(),
            skipped: BTreeMap::new(),
            resumed: 0,
            stalled_ms: 0,
            phase_ms: 0,
            done: 0,
            timetable: Vec::new(),
        }
    }

    #[test]
    fn rows_are_counted_once_for_a_decision() {
        let upgrade = in_remove();
        let looked_for = Some(LookedFor::of(&upgrade));
        let counted = SchemaFacts { looked_for, migrated: true, ..SchemaFacts::default() };
        assert!(is_counted(&upgrade, &counted));
        assert!(!is_counted(&upgrade, &SchemaFacts { migrated: false, ..counted.clone() }), "some are left");
        let resumed = Upgrade { resumed: 1, ..upgrade };
        assert!(!is_counted(&resumed, &counted), "that is another decision");
    }

    #[test]
    fn failed_attempt_keeps_that_a_contract_has_begun() {
        let seen = SchemaFacts {
            looked_for: Some(LookedFor::of(&in_remove())),
            expanded: true,
            migrate_begun: true,
            contract_begun: ContractBegun::OfOthers,
            contracted_by: vec!["first".parse().unwrap()],
            later: vec![LaterContract { migration: "0003_it".to_owned(), version: None, by: None }],
            ..SchemaFacts::default()
        };
        let trouble = || Some("connection refused".to_owned());
        let failed = unseen(&seen, trouble());
        assert_eq!(failed, SchemaFacts { looked_for: None, expanded: false, trouble: trouble(), ..seen });
        assert_eq!(unseen(&failed, None), SchemaFacts { trouble: None, ..failed }, "one that was stopped");
    }

    #[test]
    fn failed_job_keeps_what_it_saw_before_it_began() {
        let later = vec![LaterContract { migration: "0003_it".to_owned(), version: None, by: None }];
        let seen =
            SchemaFacts { filled: true, contract_begun: ContractBegun::Own, later, ..SchemaFacts::default() };
        let begun = begun(&SchemaFacts::default(), &seen, "connecting".to_owned());
        let failed = unseen(&begun, Some("a row breaks a constraint".to_owned()));
        assert_eq!((failed.looked_for.as_ref(), failed.filled_before_job), (None, Some(true)));
        assert_eq!((failed.contract_begun, &failed.later), (ContractBegun::Own, &seen.later));
        let away = unseen(&failed, Some("connection refused".to_owned()));
        assert_eq!(away.filled_before_job, None, "the look of the next attempt failed");
    }

    /// The database is back in the place of one that held nothing.
    #[test]
    fn job_that_begins_has_found_the_schema() {
        let unclaimed = SchemaFacts { unclaimed: true, ..SchemaFacts::default() };
        let begun = begun(&unclaimed, &SchemaFacts::default(), "connecting".to_owned());
        assert!(!begun.unclaimed, "it would show that nothing is there to undo");
    }
}
