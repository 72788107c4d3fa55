//! One whole upgrade of three instances, with coordinators that fail at one of their writes, and the one after them.

use super::trace::{Onlooker, Trace};
use super::wire::{Fault, Wire};
use crate::herd::{Herd, service};
use crate::world::{Coordinator, spec, store};
use std::time::Duration;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::record::report::{Health, Rotation, Step};
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Key, Value};
use tidegate_store::{Scope, Store};
use tokio_util::sync::CancellationToken;

/// How an upgrade is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// Every instance at version 2.
    Completed,
    /// The second instance that is upgraded never becomes healthy: every instance at version 1 again.
    RolledBack,
}

/// What came of it.
pub(super) struct Outcome {
    /// Each write that the first coordinator sent.
    pub sent: Vec<String>,
    /// How many of the points were reached.
    pub hit: usize,
    /// What happened.
    pub trace: Trace,
}

/// Runs it to its end and checks what must be so at the end, whatever happened. Each coordinator but the last has a
/// point at which it fails; where that ends it, the next one takes over.
pub(super) async fn run(ends: Ends, points: &[(usize, Fault)]) -> Outcome {
    let embedded = Embedded::in_memory();
    let end = CancellationToken::new();
    let herd = Herd::at_version_1(store(&embedded).await, 3).await;
    let onlooker = Onlooker::begin(&store(&embedded).await, end.clone());
    let herd = if ends == Ends::RolledBack { herd.break_at_2(0) } else { herd };
    tokio::spawn(herd.run(end.clone()));

    let mut wires = Vec::new();
    for point in points.iter().copied().map(Some).chain([None]) {
        let wire = Wire::over(embedded.channel(), point);
        let coordinator = Coordinator::over(wire.store().await, "one-of-them");
        wires.push(wire.clone());
        let was_cut = tokio::select! {
            biased;
            () = wire.was_cut() => true,
            () = drive(&coordinator, ends) => false,
        };
        if !was_cut {
            coordinator.stop().await;
            break;
        }
        coordinator.kill();
    }
    check_end(&store(&embedded).await, ends).await;
    assert!(onlooker.least_in_service() >= 2, "min_in_service is 2, {} served", onlooker.least_in_service());
    end.cancel();
    let hit = wires.iter().filter(|wire| wire.is_hit()).count();
    Outcome { sent: wires[0].sent(), hit, trace: onlooker.trace() }
}

/// A person starts the upgrade, unless the store knows it already, and waits for its end and a little longer, in
/// which the last reasons are cleared away.
async fn drive(coordinator: &Coordinator, ends: Ends) {
    coordinator.leads().await;
    while !is_known(coordinator) {
        if coordinator.context.led_here().is_some()
            && let Err(error) = coordinator.start_upgrade(&spec("min_in_service: 2"), "u1").await
        {
            println!("    the person who starts it reads: {error}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let phase = match ends {
        Ends::Completed => "completed",
        Ends::RolledBack => "rolled-back",
    };
    coordinator.reaches("u1", phase).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
}

fn is_known(coordinator: &Coordinator) -> bool {
    coordinator.context.mirror.view().fleet.upgrade(&"u1".parse().unwrap()).is_some()
}

async fn check_end(store: &Store, ends: Ends) {
    let version = if ends == Ends::Completed { 2 } else { 1 };
    let mut reports = 0;
    for entry in store.list(&Scope::All).await.unwrap().entries {
        match (entry.key, entry.value.unwrap()) {
            (Key::Report(_, node), Value::Report(report)) => {
                reports += 1;
                let report = report.body;
                assert_eq!(
                    (report.version.map(|v| v.get()), report.rotation, report.health, report.step),
                    (Some(version), Rotation::In, Health::Healthy, Step::Serving),
                    "{node}"
                );
            }
            (Key::Upgrade(_), Value::Upgrade(upgrade)) => match (ends, &upgrade.body.phase) {
                (Ends::Completed, Phase::Completed) | (Ends::RolledBack, Phase::RolledBack { .. }) => {}
                (_, phase) => panic!("it ended in {phase:?}"),
            },
            (key @ (Key::Active(_) | Key::Waiting(_)), _) => panic!("{key} is left over"),
            (Key::Window(of), Value::Window(window)) if of == service() => {
                let window = window.body;
                let as_it_should = match ends {
                    Ends::Completed => (window.floor.get(), window.ceiling.get()) == (2, 2),
                    Ends::RolledBack => window.is_open(),
                };
                assert!(as_it_should, "the window is {window}");
            }
            _ => {}
        }
    }
    assert_eq!(reports, 3);
}
