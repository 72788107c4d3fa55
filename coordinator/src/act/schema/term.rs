//! The term that a database obeyed last, and the one that it is to obey.

use super::bound::Unbound;
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_migrations::Term;
use tidegate_planner::SchemaFacts;
use tidegate_proto::{Revision, TermId, mutant};

/// Whether the store knows the term that a database obeyed last, and gives a higher number; if not, the planner says
/// what that means.
pub(super) fn acknowledged(context: &Context, seen: &SchemaFacts) -> bool {
    let view = context.mirror.view();
    let is_known = |(term, number): &(TermId, Revision)| view.fleet.acknowledges_database(term, *number);
    mutant::is("database-is-no-witness") || seen.obeyed.as_ref().is_none_or(is_known)
}

/// Whether a store before this one can have given the number that the database keeps for the term that it obeyed last.
/// Another number contradicts no store, and no reconciliation counts on from it.
pub(super) fn countable(context: &Context, variable: &str, seen: &SchemaFacts) -> Result<(), Unbound> {
    let Some((term, number)) = &seen.obeyed else { return Ok(()) };
    if context.mirror.view().fleet.revision().may_follow(*number) {
        return Ok(());
    }
    Err(Unbound::Number { variable: variable.to_owned(), term: term.clone(), number: *number })
}

/// The term as databases keep it. After a store was restored, its numbers count on from the highest that the former
/// one had given, because a database obeys no lower one.
///
/// # Errors
/// Where the reconciliation record names a revision that no store can have given.
pub(super) fn term_of(context: &Context, leadership: &Leadership) -> Result<Term, Unbound> {
    let former = context.mirror.view().fleet.reconciliation().map_or(Revision::ABSENT, |by| by.revision);
    let former = if mutant::is("former-revisions-are-not-counted-on") { Revision::ABSENT } else { former };
    let number = former.checked_add(leadership.leading.revision).ok_or(Unbound::Term(former))?;
    Ok(Term { revision: number.0, id: leadership.leading.term.to_string() })
}
