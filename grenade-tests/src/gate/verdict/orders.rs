//! Whether several services can be upgraded in each order.

use std::fmt::Write;

use crate::gate::drive::Ended;
use crate::gate::late::Wrong;
use crate::gate::orders::{Ordered, Stage};
use crate::gate::verdict::{Check, On, Word, excused, objects, unfailed};
use crate::gate::written::HostBounds;
use crate::load::entry::Entry;

/// Fewer requests to a service in a state show nothing of it.
const ENOUGH: usize = 10;

/// What was seen in each order.
pub fn in_each_order(orders: &[Ordered], bounds: &HostBounds) -> Vec<Check> {
    let checks = |ordered: &Ordered| {
        let order: Vec<&str> = ordered.stages.iter().map(|stage| stage.service.as_str()).collect();
        let order = order.join(" before ");
        let overloaded = ordered.host.overloaded(bounds);
        let overloaded = overloaded.as_deref();
        let on = On { host: &ordered.host, bounds };
        let mut requests = unfailed(&format!("{order}: every request"), &ordered.entries, on);
        if let Some(first) = first_failed(&ordered.entries) {
            // Writing to a string cannot fail.
            let _ = write!(requests.found, "; {}", around(ordered, first));
        }
        [
            excused(&format!("{order}: each upgrade completes"), completed(ordered), overloaded),
            requests,
            states(&format!("{order}: each service is sent requests in each state"), ordered),
            objects(&format!("{order}: what was stored is there at the end"), &ordered.sweep, overloaded),
        ]
    };
    orders.iter().flat_map(checks).collect()
}

fn first_failed(entries: &[Entry]) -> Option<&Entry> {
    let failed = entries.iter().filter(|entry| entry.is_failed());
    failed.min_by(|a, b| a.scheduled_ms.total_cmp(&b.scheduled_ms))
}

fn completed(ordered: &Ordered) -> Result<String, Wrong> {
    let mut found = Vec::new();
    // A process that ended by itself is not slow.
    let wrong = |what| Err(Wrong { what, of_time: ordered.deaths.is_empty() });
    for Stage { service, from, to, upgraded } in &ordered.stages {
        match upgraded {
            None => return wrong(format!("{}; {service} was not upgraded then", found.join(", "))),
            Some((ended, _)) if ended.word != "completed" => {
                let because = ended.because.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                return wrong(format!(
                    "the upgrade of {service} from {from} to {to} ended {}{because}",
                    ended.word
                ));
            }
            Some((Ended { contract: Some(Wrong { what, of_time }), .. }, _)) => {
                let what = format!("the upgrade of {service} from {from} to {to}: {what}");
                return Err(Wrong { what, of_time: *of_time });
            }
            Some((_, (began, over))) => {
                found.push(format!("{service} from {from} to {to} in {:.1} s", (over - began) / 1e3));
            }
        }
    }
    Ok(found.join(", "))
}

/// The service that a request was for, and the versions of all services at that time.
fn around(ordered: &Ordered, entry: &Entry) -> String {
    let service = ordered.nodes.get(&entry.node).map_or("an unknown service", String::as_str);
    let at: Vec<String> = ordered.stages.iter().map(|stage| stage.at(entry.scheduled_ms)).collect();
    format!("it went to {service}, with {}", at.join(" and "))
}

impl Stage {
    /// At which version the service is, so many milliseconds after the load's start.
    fn at(&self, ms: f64) -> String {
        let Self { service, from, to, upgraded } = self;
        match upgraded {
            Some((_, (began, over))) if (*began..*over).contains(&ms) => {
                format!("{service} being upgraded from version {from} to {to}")
            }
            Some((_, (_, over))) if ms >= *over => format!("{service} at version {to}"),
            _ => format!("{service} at version {from}"),
        }
    }
}

/// Between two upgrades some services are at the target and others at the base: requests must have passed through that.
fn states(check: &str, ordered: &Ordered) -> Check {
    let mut found = Vec::new();
    let mut verdict = Word::Pass;
    for (before, after) in ordered.stages.iter().zip(ordered.stages.iter().skip(1)) {
        let (Some((_, (_, from))), Some((_, (to, _)))) = (&before.upgraded, &after.upgraded) else {
            return Check::new(check, Word::Inconclusive, format!("{} was not upgraded", after.service));
        };
        let within = |entry: &&Entry| (*from..=*to).contains(&entry.sent_ms) && entry.done_ms <= *to;
        let counts = ordered.stages.iter().map(|stage| {
            let own = |entry: &&Entry| ordered.nodes.get(&entry.node) == Some(&stage.service);
            (stage, ordered.entries.iter().filter(within).filter(own).count())
        });
        for (stage, count) in counts {
            if count < ENOUGH {
                verdict = Word::Inconclusive;
            }
            found.push(format!("{count} to {}", stage.at(*from)));
        }
    }
    if verdict != Word::Pass {
        found.push(format!(
            "at least {ENOUGH} are needed: raise `load.rate` or `load.mixed`, or the weight of steps"
        ));
    }
    Check::new(check, verdict, found.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::gate::deaths::Death;
    use crate::gate::host::HostSeen;
    use crate::load::entry::good;
    use crate::load::sweep::Sweep;

    fn stage(service: &str, span_ms: (f64, f64)) -> Stage {
        let ended = Ended { word: "completed".to_owned(), ..Ended::default() };
        Stage { service: service.to_owned(), from: 1, to: 2, upgraded: Some((ended, span_ms)) }
    }

    /// Ten requests a second to each of two services for ten seconds.
    fn ordered() -> Ordered {
        let entry =
            |seq: u64| good(seq, if seq.is_multiple_of(2) { "a-1" } else { "b-1" }, seq as f64 * 50.0, 1.0);
        let nodes = [("a-1", "a"), ("b-1", "b")].map(|(node, service)| (node.to_owned(), service.to_owned()));
        Ordered {
            stages: vec![stage("a", (2_000.0, 4_000.0)), stage("b", (6_000.0, 8_000.0))],
            nodes: BTreeMap::from(nodes),
            entries: (0..200).map(entry).collect(),
            sweep: Sweep { read: 9, ..Sweep::default() },
            deaths: Vec::new(),
            host: HostSeen::default(),
        }
    }

    fn judged(ordered: Ordered) -> Vec<Check> {
        in_each_order(&[ordered], &HostBounds::default())
    }

    #[test]
    fn order_without_a_failure_passes_and_counts_its_states() {
        let checks = judged(ordered());
        assert!(checks.iter().all(|check| check.verdict == Word::Pass), "{checks:#?}");
        assert!(
            checks[0].check.starts_with("a before b: ")
                && checks[0].found == "a from 1 to 2 in 2.0 s, b from 1 to 2 in 2.0 s"
        );
        assert_eq!(checks[2].found, "20 to a at version 2, 20 to b at version 1");
    }

    #[test]
    fn failed_request_names_service_instance_and_all_versions() {
        let mut order = ordered();
        order.entries[101].outcome = crate::load::entry::Judged::Failed;
        order.entries[101].reason = "wrong content: /name is absent".to_owned();
        let checks = judged(order);
        assert_eq!(checks[1].verdict, Word::Fail);
        for part in [
            "read 101 at 5.050 s, b-1 at version 1: wrong content",
            "it went to b, with a at version 2 and b at version 1",
        ] {
            assert!(checks[1].found.contains(part), "{checks:#?}");
        }
    }

    #[test]
    fn upgrade_that_does_not_complete_fails_and_names_what_was_left() {
        let mut order = ordered();
        order.stages[1].upgraded = None;
        let checks = judged(order);
        assert_eq!((checks[0].verdict, checks[2].verdict), (Word::Fail, Word::Inconclusive));
        assert!(checks[0].found.ends_with("; b was not upgraded then"), "{checks:#?}");
    }

    #[test]
    fn contract_that_exits_with_1_fails_and_names_its_service() {
        let mut order = ordered();
        if let Some((ended, _)) = &mut order.stages[0].upgraded {
            ended.contract = Some(Wrong::of_service("`drop` ended with exit status: 1".to_owned()));
        }
        order.host.mean.cpu_pressure = Some(99.0);
        let check = judged(order).remove(0);
        assert_eq!(check.verdict, Word::Fail, "{check:?}");
        assert_eq!(check.found, "the upgrade of a from 1 to 2: `drop` ended with exit status: 1");
    }

    #[test]
    fn incomplete_upgrade_on_overloaded_machine_is_inconclusive() {
        let mut order = ordered();
        order.stages[1].upgraded = None;
        order.host.mean.cpu_pressure = Some(99.0);
        let died = Death {
            node: "b-1".to_owned(),
            version: Some(2),
            at_ms: Some(1.0),
            how: "exited with code 3".to_owned(),
            log: String::new(),
        };
        let with_death = Ordered { deaths: vec![died], ..ordered() };
        let with_death = Ordered {
            stages: vec![Stage { upgraded: None, ..stage("b", (0.0, 1.0)) }],
            host: order.host,
            ..with_death
        };
        let check = judged(order).remove(0);
        assert_eq!(check.verdict, Word::Inconclusive, "{check:?}");
        assert!(check.found.contains("processes waited for a core 99 %"), "{check:?}");
        assert_eq!(judged(with_death)[0].verdict, Word::Fail, "a process that ends is not slow");
    }

    #[test]
    fn state_without_requests_to_a_service_is_inconclusive() {
        let mut order = ordered();
        order.entries.retain(|entry| entry.node == "a-1" || entry.sent_ms < 4_000.0);
        let checks = judged(order);
        assert_eq!(checks[2].verdict, Word::Inconclusive);
        assert!(checks[2].found.contains("0 to b at version 1"), "{checks:#?}");
    }
}
