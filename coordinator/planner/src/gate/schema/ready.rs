//! Whether the services that share the schema are what its contract requires: the conditions of the certificate on them.

use super::uncertified;
use crate::certificate::{False, services_flaws, services_seen};
use crate::gate::{Answer, Reason};
use crate::upgrade::View;

/// The most findings that are listed at once.
const LISTED: usize = 20;

/// Whether each service that shares the schema is what contract requires. It is asked before any approval of contract.
pub(crate) fn services_are_ready(view: &View<'_>) -> Answer {
    let schema = view.upgrade.schema.as_ref().and_then(|binding| view.fleet.schema(&binding.id));
    let Some((schema, asked)) = schema.zip(view.spec().schema.as_ref()) else {
        return Answer::from(uncertified("the schema's record is gone"));
    };
    let services = services_seen(view.fleet, asked, schema);
    let reasons = listed(&services_flaws(&schema.services, &services, view.fleet.revision()));
    Answer { is_open: reasons.is_empty(), reasons }
}

/// Findings as reasons, bounded; none where there is none.
pub(crate) fn listed(flaws: &[False]) -> Vec<Reason> {
    let more = flaws.len().saturating_sub(LISTED);
    let more = (more > 0).then(|| format!("and {more} more findings, which are listed when these are gone"));
    flaws.iter().take(LISTED).map(ToString::to_string).chain(more).map(uncertified).collect()
}
