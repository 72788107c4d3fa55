//! An instance whose world is set by hand.

use super::super::decide::decide;
use super::super::presumption;
use super::super::seen::{Balancers, DisableFile, InFlight, Probed, Said, Seen, Staging, Url};
use super::super::timers::Timers;
use crate::config::settings::{Driver, Hooks};
use crate::config::{Service, example, parse};
use crate::directive::act::Act;
use crate::host::{Alive, HookState};
use crate::journal::{Admitted, Journal, Known, Order, Phase};
use std::path::Path;
use std::time::Duration;
use tidegate_proto::record::directive::{Directive, Disposition, Drain, Evidence, HealthTimes};
use tidegate_proto::record::report::Health;
use tidegate_proto::record::window::Window;
use tidegate_proto::{Digest, Release, Revision, ServiceVersion, Span};
use tokio::time::Instant;

/// An instance whose world is set by hand.
#[derive(Clone)]
pub(crate) struct Story {
    pub(crate) service: Service,
    pub(crate) journal: Journal,
    pub(crate) timers: Timers,
    pub(crate) seen: Seen,
}

pub(crate) fn version(number: i64) -> ServiceVersion {
    ServiceVersion::new(number).unwrap()
}

pub(crate) fn release(number: i64) -> Release {
    Release {
        tag: format!("pantry-{number}.0.0").parse().unwrap(),
        sha256: Digest::of(b"code"),
        version: version(number),
    }
}

pub(crate) fn order(generation: i64, disposition: Disposition) -> Order {
    let drain = Drain { evidence: Evidence::Settle, settle: Span::from_secs(6), ..Drain::default() };
    Order {
        generation: Revision(generation),
        directive: Directive {
            upgrade: "u1".parse().unwrap(),
            disposition,
            releases: vec![],
            drain,
            health: HealthTimes::default(),
            term: "t1".parse().unwrap(),
            declared_stopped: false,
            presumes_out: false,
            after_decline: false,
        },
    }
}

/// A replacement that costs no budget, because the instance is out of rotation.
pub(crate) fn replace_what_is_out(generation: i64, number: i64) -> Order {
    let mut order = order(generation, replace(number));
    order.directive.presumes_out = true;
    order
}

pub(crate) fn replace(number: i64) -> Disposition {
    Disposition::Replace { release: release(number) }
}

impl Story {
    /// Version 1 serves, admitted, in rotation for a minute.
    pub(crate) fn serving() -> Self {
        let node = parse(&example::text("n1"), Path::new("agent.toml")).unwrap();
        let service = node.services.into_values().next().unwrap();
        let now = Instant::now();
        let journal = Journal {
            phase: Phase::Serving,
            admitted: Some(Admitted {
                version: version(1),
                release: Some(release(1).tag),
                revision: Revision(5),
            }),
            release: Some(release(1).tag),
            ..Journal::default()
        };
        let seen = Seen {
            now,
            store: true,
            alive: Alive::Yes,
            probe: Probed::Version(version(1)),
            ready: true,
            masked: false,
            gone: false,
            runs: false,
            said: Said::default(),
            health: Health::Healthy,
            file: DisableFile::Absent,
            url: Url::Good,
            balancers: Balancers::None,
            in_flight: InFlight::NotAsked,
            window: Some(None),
            wanted: None,
            reconciled: None,
            disregarded: false,
            readmit: false,
            unasked: false,
            recorded: None,
            staging: Staging::Ready,
            hook: HookState::NotBegun,
            booted: false,
        };
        let mut story = Self { service, journal, timers: Timers::new(now, false), seen };
        story.pass(0).pass(60);
        story
    }

    /// So many seconds later, with what is seen as it is.
    pub(crate) fn pass(&mut self, seconds: u64) -> &mut Self {
        self.pass_ms(1000 * seconds)
    }

    /// The same, in milliseconds.
    pub(crate) fn pass_ms(&mut self, ms: u64) -> &mut Self {
        self.seen.now += Duration::from_millis(ms);
        self.timers.take_in(&self.seen);
        self
    }

    pub(crate) fn act(&self) -> Act {
        decide(&self.service, &self.journal, &self.timers, &self.seen)
    }

    /// The store has this directive; it is accepted.
    pub(crate) fn ordered(&mut self, order: Order) -> &mut Self {
        self.seen.wanted = Some(order);
        match self.act() {
            Act::Accept(order, phase) => {
                self.journal.declined = presumption::fails(&order, &self.journal, &self.seen);
                self.journal.order = Some(*order);
                self.enter(phase);
            }
            other => panic!("not accepted: {other:?}"),
        }
        self
    }

    pub(crate) fn enter(&mut self, phase: Phase) {
        if phase != self.journal.phase {
            self.timers.changed(self.seen.now, &phase);
        }
        self.journal.phase = phase;
        self.timers.entered(self.seen.now);
    }

    pub(crate) fn disabled(&mut self) -> &mut Self {
        self.seen.file = DisableFile::Own;
        self.seen.url = Url::Unavailable;
        self.pass(0)
    }

    pub(crate) fn gone(&mut self) -> &mut Self {
        self.seen.alive = Alive::No;
        self.seen.probe = Probed::Failed("nothing runs".to_owned());
        self.seen.ready = false;
        self.seen.health = Health::Unhealthy;
        self.seen.url = Url::Other;
        self.pass(0)
    }

    /// Nothing listens any more where it answered, and no lock shows more.
    pub(crate) fn silent(&mut self) -> &mut Self {
        self.gone();
        self.seen.alive = Alive::Silent;
        self.seen.url = Url::NoListener;
        self.pass(0)
    }

    /// The configuration says this too.
    pub(crate) fn with_config(&mut self, more: &str) {
        let node = parse(&format!("{}\n{more}", example::text("n1")), Path::new("agent.toml")).unwrap();
        self.service = node.services.into_values().next().unwrap();
    }

    /// Its code is replaced by hooks.
    pub(crate) fn by_hooks(mut self) -> Self {
        let argv = || vec!["true".to_owned()];
        let timeout = Duration::from_secs(60);
        let hooks = Hooks { stage: None, stop: argv(), start: argv(), remove: None, status: None, timeout };
        self.service.driver = Some(Driver::Command(hooks));
        self
    }

    pub(crate) fn window(&mut self, floor: i64, ceiling: i64, revision: i64) -> &mut Self {
        let window = Window {
            floor: version(floor),
            ceiling: version(ceiling),
            set_by: "u1".parse().unwrap(),
            contracted: None,
        };
        let known = Some(Known { revision: Revision(revision), window });
        self.journal.window = known.clone();
        self.seen.window = Some(known);
        self
    }
}
