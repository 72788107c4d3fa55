//! What a directive says, in one form for every caller, and the commit that writes it in place of what was read.

use crate::fleet::Instance;
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::spec::Spec;
use tidegate_proto::{Key, Release, Revision, ServiceName, UpgradeId};

/// On whose behalf instances are ordered.
pub(super) struct Authority<'a> {
    pub(super) upgrade: &'a UpgradeId,
    /// How to drain, and when an instance counts as healthy; none = the defaults.
    pub(super) spec: Option<&'a Spec>,
    pub(super) moment: &'a Moment,
}

impl Authority<'_> {
    /// What an instance should be doing, with these releases on its node. `presumes_out`: nothing is taken out of the budget
    /// for it.
    pub(super) fn directive(
        &self,
        disposition: Disposition,
        releases: Vec<Release>,
        presumes_out: bool,
    ) -> Directive {
        Directive {
            upgrade: self.upgrade.clone(),
            disposition,
            releases,
            drain: self.spec.map(|spec| spec.drain.clone()).unwrap_or_default(),
            health: self.spec.map(|spec| spec.health.clone()).unwrap_or_default(),
            term: self.moment.leader.term.clone(),
            declared_stopped: false,
            presumes_out,
            after_decline: false,
        }
    }
}

/// Adds to a commit the directive of an instance, if the one that was read is unchanged. One that cannot be read is not
/// compared: the instance gets no order ([`Instance::can_be_ordered`]).
pub(super) fn put(commit: Commit, service: &ServiceName, instance: &Instance, body: Directive) -> Commit {
    debug_assert!(instance.can_be_ordered(), "no order is given in place of one that cannot be read");
    let key = Key::Directive(service.clone(), instance.node.clone());
    let stored = instance.directive.as_ref();
    let body = Directive { after_decline: instance.says_declined(), ..body };
    let commit =
        commit.when(Precondition::At(key.clone(), stored.map_or(Revision::ABSENT, |stored| stored.at)));
    match stored {
        Some(stored) => commit.put(key, stored.record.with(body)),
        None => commit.put(key, body),
    }
}
