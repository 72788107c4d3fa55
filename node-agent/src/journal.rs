//! The journal: what the agent must remember of one service, on the disk before each act that it names. An agent that is
//! killed at any instant and started again neither starts a service twice nor forgets a drain.

mod phase;
mod writer;

pub(crate) use phase::Phase;
pub(crate) use writer::JournalWriter;

use crate::host::Started;
use crate::pair::state::State;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::reconciliation::AcceptedState;
use tidegate_proto::record::report::Witness;
use tidegate_proto::record::window::Window;
use tidegate_proto::{Digest, Generation, ReleaseTag, Revision, ServiceVersion, mutant};

/// What is remembered of one service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// The instance's phase.
    pub phase: Phase,
    /// The last directive that was accepted.
    pub order: Option<Order>,
    /// That directive is not carried out: it presumes that the instance is out of rotation, and it was not; or it is older than
    /// this journal; or it is of a former store, and nothing of the service answered any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declined: bool,
    /// The last window that was seen; absent where there was none.
    pub window: Option<Known>,
    /// The last admission.
    pub admitted: Option<Admitted>,
    /// The boot of the machine in which that was; absent in the journal of an older agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admitted_boot: Option<String>,
    /// The mod_revision of the first admission since this journal began; none since the store was reconciled. An older
    /// directive was written before this journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_admission: Option<Revision>,
    /// The last refusal, until something changes.
    pub refusal: Option<Refusal>,
    /// A version was refused after the last admission, and a directive or a reconciliation has taken the refusal away since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused_since: bool,
    /// The release that runs, or ran last; what is started again after a crash.
    pub release: Option<ReleaseTag>,
    /// The process that was started last, with the `process` driver.
    pub process: Option<Started>,
    /// The boot of the machine in which that was; absent in the journal of an older agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_boot: Option<String>,
    /// Nothing of what was started since the last confirmed stop was ever in rotation: no request can be in flight.
    #[serde(default)]
    pub unexposed: bool,
    /// The release that was started last, until it was verified, or admitted at the version that it answers in the boot of the
    /// machine in which it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unidentified: Option<ReleaseTag>,
    /// The machine was booted before that one was identified, or during a start: what runs may be another release. The hook
    /// that is run next takes away what shows that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_doubt: bool,
    /// The release that ran before the one that was started last, until that one is identified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ReleaseTag>,
    /// It was shown before its readiness could be known; while it verifies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shown_unjudged: bool,
    /// The releases that the agent staged, by the digest that was verified.
    #[serde(default)]
    pub staged: BTreeMap<ReleaseTag, Digest>,
    /// What outranks a restored store: reports name it.
    #[serde(default)]
    pub witness: Witness,
}

/// An accepted directive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The mod_revision of its key.
    pub generation: Generation,
    /// What it said.
    pub directive: Directive,
}

/// A window as the store had it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// The mod_revision of its key.
    pub revision: Revision,
    /// Floor and ceiling.
    pub window: Window,
}

/// An admission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Admitted {
    /// The version that was admitted.
    pub version: ServiceVersion,
    /// Its release, where it is known.
    pub release: Option<ReleaseTag>,
    /// The mod_revision of the inventory record; 0 since the store was reconciled, until it is admitted there.
    pub revision: Revision,
}

/// An admission that was refused.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// The version that was refused.
    pub version: ServiceVersion,
    /// The mod_revision of the window that refused it.
    pub window: Revision,
    /// Why, for people.
    pub reason: String,
    /// Whether an instance in rotation may stay there with this version until it is drained.
    #[serde(default)]
    pub bears: bool,
    /// Whether it was admitted in this boot of the machine, and the floor has risen since to what compute releases need: no
    /// upgrade has moved this instance.
    #[serde(default)]
    pub overtaken: bool,
    /// Whether it is above the ceiling of that window; else it is below the floor.
    #[serde(default)]
    pub above: bool,
}

impl State for Journal {
    const NAME: &'static str = "journal";
    const SCHEMA: u32 = 1;
    const IF_DAMAGED: &'static str =
        "look at what runs, then move both files away, so that the service is adopted again";
    const CRASH_POINT: &'static str = "journal";

    fn step(&self) -> String {
        self.phase.name()
    }
}

impl Journal {
    /// The generation of the last accepted directive; 0 for none.
    pub fn generation(&self) -> Generation {
        self.order.as_ref().map_or(Revision::ABSENT, |order| order.generation)
    }

    /// What the accepted directive wants; none where there is none, or it was declined.
    pub fn disposition(&self) -> Option<&Disposition> {
        self.order.as_ref().filter(|_| !self.declined).map(|order| &order.directive.disposition)
    }

    /// Whether no order takes the instance out or starts a release.
    pub fn is_let_in(&self) -> bool {
        matches!(self.disposition(), None | Some(Disposition::Serve { .. }))
    }

    /// The mod_revision of the last window that was seen; 0 for none.
    pub fn window_revision(&self) -> Revision {
        self.window.as_ref().map_or(Revision::ABSENT, |known| known.revision)
    }

    /// The mod_revision of the last admission; 0 for none.
    pub fn admission(&self) -> Revision {
        self.admitted.as_ref().map_or(Revision::ABSENT, |admitted| admitted.revision)
    }

    /// The mod_revision of the last admission where it may still be valid; 0 for none. Its report may have lapsed before a
    /// refusal: what was refused is admitted again before it counts, also once a directive lets it be asked for again.
    pub fn standing_admission(&self) -> Revision {
        if self.was_refused() { Revision::ABSENT } else { self.admission() }
    }

    /// Whether a version was refused after the last admission.
    pub fn was_refused(&self) -> bool {
        self.refusal.is_some() || self.refused_since
    }

    /// Takes in an admission.
    pub fn admit(&mut self, admitted: Admitted) {
        if self.admitted.is_none() {
            self.first_admission = Some(admitted.revision);
        }
        self.admitted = Some(admitted);
        self.refusal = None;
        self.refused_since = false;
    }

    /// Takes in a directive. What was refused is asked for again under it.
    pub fn accept(&mut self, order: Order) {
        self.witness.term = Some(order.directive.term.clone());
        self.refused_since |= self.refusal.take().is_some();
        self.order = Some(order);
    }

    /// Journals the process that was started, in the boot of the machine called `boot`; none = hooks have started it, or it was
    /// stopped.
    pub fn note_process(&mut self, process: Option<Started>, boot: &str) {
        self.process_boot = process.is_some().then(|| boot.to_owned());
        self.process = process;
    }

    /// Whether the machine, whose boot is now called `boot`, was booted since its process was started.
    pub fn was_booted_since_start(&self, boot: &str) -> bool {
        self.process_boot.as_ref().is_some_and(|started_in| started_in != boot)
    }

    /// The release that runs where something runs: in its start the one that is started.
    pub fn running_release(&self) -> Option<&ReleaseTag> {
        match &self.phase {
            Phase::Starting { target } => Some(&target.tag),
            _ => self.release.as_ref(),
        }
    }

    /// The release that may run in place of the one that was started last, where that is in doubt. None where it is the former
    /// one, which the releases of a directive begin with: then what was started is what a rollback would have to replace.
    pub fn release_in_doubt(&self) -> Option<&ReleaseTag> {
        let former = self.order.as_ref().and_then(|order| order.directive.releases.first());
        self.before.as_ref().filter(|tag| self.in_doubt && former.is_none_or(|release| release.tag != **tag))
    }

    /// What is being started runs: that is its release, whichever version it answers.
    pub fn note_started(&mut self) {
        if let Phase::Starting { target } = &self.phase {
            if self.release.as_ref() != Some(&target.tag) {
                self.before.clone_from(&self.release);
            }
            self.release = Some(target.tag.clone());
            self.unidentified = Some(target.tag.clone());
        }
    }

    /// Goes into a phase.
    pub fn enter(&mut self, phase: Phase) {
        self.unexposed |= phase == Phase::Stopped;
        if matches!(phase, Phase::Stopped | Phase::Serving) {
            self.unidentified = None;
            // What serves under no order to replace it, or has declined that, was not replaced: a later order does that.
            let replaced = matches!(self.disposition(), Some(Disposition::Replace { .. }))
                || mutant::is("doubt-ends-without-a-replacement");
            self.in_doubt &= phase == Phase::Serving && !replaced;
        }
        if phase == Phase::Serving && !self.in_doubt {
            self.before = None;
        }
        self.shown_unjudged &= phase == Phase::Verifying;
        self.phase = phase;
    }

    /// What was obeyed so far.
    pub fn obeyed(&self) -> AcceptedState<'_> {
        AcceptedState {
            term: self.witness.term.as_ref(),
            floor: self.witness.floor,
            revision: self.generation().max(self.window_revision()),
        }
    }

    /// What a report claims to have obeyed: the same, and the last admission.
    pub fn claimed(&self) -> AcceptedState<'_> {
        let obeyed = self.obeyed();
        AcceptedState { revision: obeyed.revision.max(self.admission()), ..obeyed }
    }

    /// Whether the accepted directive is of a former store: an operator has reconciled this one since, and no directive of
    /// it was accepted yet.
    pub fn obeys_former_store(&self) -> bool {
        let at = self.witness.reconciled;
        at.exists() && self.order.as_ref().is_some_and(|order| order.generation == at)
    }

    /// The generation of the directive that was accepted in this store; 0 for none. An older one shows that the store fell
    /// back.
    pub fn accepted_here(&self) -> Generation {
        if self.obeys_former_store() { Revision::ABSENT } else { self.generation() }
    }

    /// An operator has reconciled the store at `at`: what it says from there on is obeyed, and no directive from
    /// before. The accepted order is kept until then, and the floor until a window is acknowledged.
    pub fn reconcile(&mut self, at: Revision) {
        if let Some(order) = &mut self.order {
            order.generation = at;
        }
        if let Some(admitted) = &mut self.admitted {
            // Its record was the former store's.
            admitted.revision = Revision::ABSENT;
        }
        self.first_admission = None;
        self.window = None;
        self.refused_since |= self.refusal.take().is_some();
        self.witness = Witness { term: None, floor: self.witness.floor, reconciled: at };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::tests::story::order;
    use crate::host::Target;
    use crate::machine::Machine;
    use crate::pair::Pair;
    use crate::pair::state::StateFile;

    #[test]
    fn a_journal_is_read_as_it_was_written() {
        let room = tempfile::tempdir().unwrap();
        let mut file = StateFile::<Journal>::within(&Machine::shared(), room.path());
        assert_eq!(file.read().unwrap(), Journal::default());
        let journal = Journal { phase: Phase::Drained { forced: true }, ..Journal::default() };
        file.write(&journal).unwrap();
        assert_eq!(StateFile::<Journal>::within(&Machine::shared(), room.path()).read().unwrap(), journal);
    }

    #[test]
    fn started_release_is_unidentified_until_verified_or_stopped() {
        let [former, tag]: [ReleaseTag; 2] = ["pantry-1", "pantry-2"].map(|tag| tag.parse().unwrap());
        for (next, stays) in [
            (Phase::Serving, false),
            (Phase::Stopped, false),
            (Phase::Draining, true),
            (Phase::failed("verifying", "it answers 1", true), true),
        ] {
            let target = Target { tag: tag.clone(), version: ServiceVersion::default(), sha256: None };
            let phase = Phase::Starting { target };
            let mut journal = Journal { phase, release: Some(former.clone()), ..Journal::default() };
            assert_eq!(journal.running_release(), Some(&tag));
            journal.note_started();
            journal.enter(Phase::Verifying);
            assert_eq!((journal.release.as_ref(), journal.unidentified.as_ref()), (Some(&tag), Some(&tag)));
            journal.enter(next.clone());
            assert_eq!(journal.unidentified.is_some(), stays, "{next:?}");
        }
    }

    #[test]
    fn boot_of_a_process_is_known_until_that_is_stopped() {
        let mut journal = Journal::default();
        let process = || Some(Started { pid: 7, ticks: 1 });
        for (process, boot, expected) in
            [(process(), "one", true), (process(), "two", false), (None, "one", false)]
        {
            journal.note_process(process, boot);
            assert_eq!(journal.was_booted_since_start("two"), expected, "{:?}", journal.process);
        }
        journal.process = process();
        assert!(!journal.was_booted_since_start("two"), "an older agent has journalled it");
    }

    #[test]
    fn admission_before_a_refusal_does_not_stand() {
        let version = ServiceVersion::new(1).unwrap();
        let admitted = |at: i64| Admitted { version, release: None, revision: Revision(at) };
        let mut journal = Journal::default();
        journal.admit(admitted(5));
        journal.accept(order(7, Disposition::Drain));
        assert_eq!(journal.standing_admission(), Revision(5), "nothing was refused");
        let reason = "below the floor".to_owned();
        journal.refusal = Some(Refusal { version, window: Revision(8), reason, ..Refusal::default() });
        assert_eq!(journal.standing_admission(), Revision::ABSENT);
        for generation in [9, 10] {
            journal.accept(order(generation, Disposition::Serve { returning: true }));
            assert_eq!((&journal.refusal, journal.standing_admission()), (&None, Revision::ABSENT));
            assert_eq!(journal.admission(), Revision(5), "reports go on to name it");
        }
        journal.admit(admitted(11));
        assert_eq!(journal.standing_admission(), Revision(11));
    }

    #[test]
    fn a_damaged_or_newer_journal_is_refused_and_kept() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("journal.a");
        let refused = |part: &str| {
            let before = std::fs::read(&path).unwrap();
            let error =
                StateFile::<Journal>::within(&Machine::shared(), room.path()).read().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), before);
        };
        for (text, part) in
            [("{\"schema\":1}", "damaged"), ("nonsense", "damaged"), ("{\"schema\":2}", "newer agent")]
        {
            let _ = std::fs::remove_file(&path);
            Pair::new(&Machine::shared(), [path.clone(), room.path().join("journal.b")])
                .write(text.as_bytes())
                .unwrap();
            refused(part);
        }
        std::fs::write(&path, "not written by an agent").unwrap();
        refused("neither file is whole");
    }
}
