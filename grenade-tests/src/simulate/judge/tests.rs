//! The judge by itself.

use super::*;
use crate::simulate::slot::{Behaviour, Running};
use tidegate_proto::{Digest, Release, ServiceVersion};

const PLACE: At = (0, 0);
const NONE: [u8; 0] = [];

fn facts(instances: u64, min_in_service: u64) -> Facts {
    let service = ServiceFacts { instances, min_in_service, drain_deadline: 5_000, ..Default::default() };
    Facts { services: vec![service], ..Facts::default() }
}

fn rules(facts: &Facts) -> Vec<u8> {
    facts.breaches.iter().map(|breach| breach.rule).collect()
}

fn runs(version: u32) -> Slot {
    let is = Behaviour::good(version, 0);
    let running = Running { tag: format!("pantry-{version}"), is, since: 0, pid: 1, put_back: false };
    Slot { running: Some(running), ..Slot::default() }
}

fn out(since: u64, cause: Cause) -> Slot {
    Slot { out: Some((since, cause)), ..runs(1) }
}

#[test]
fn instance_taken_out_beyond_the_budget_breaks_rule_4() {
    let slots: BTreeMap<At, Slot> =
        [(PLACE, out(100, Cause::Order)), ((0, 1), out(90, Cause::Order)), ((0, 2), runs(1))].into();
    let mut allowed = facts(3, 1);
    allowed.taken_out(100, PLACE, &slots, "pantry/n0");
    assert_eq!(rules(&allowed), NONE);
    let mut judged = facts(3, 2);
    judged.taken_out(100, PLACE, &slots, "pantry/n0");
    assert_eq!(rules(&judged), [4]);
}

/// The judge of a store that has lost the upgrade by which two of three instances are drained: the one that it has leaves
/// two in service, and drains for a minute.
fn with_orders_of_a_lost_upgrade() -> (Facts, BTreeMap<At, Slot>) {
    let mut judged = facts(3, 2);
    judged.limits = vec![Limits { service: 0, min_in_service: 1, drain_deadline: 5_000 }];
    for at in [PLACE, (0, 1)] {
        judged.directs(at, &Disposition::Drain, 100);
        judged.orders(at, &Disposition::Drain, Some(0));
    }
    judged.services[0].drain_deadline = 60_000;
    let drained = out(101, Cause::Order);
    (judged, [(PLACE, drained.clone()), ((0, 1), drained), ((0, 2), runs(1))].into())
}

#[test]
fn order_is_judged_by_the_capacity_of_its_own_upgrade() {
    let (mut judged, slots) = with_orders_of_a_lost_upgrade();
    // Its copy has a directive of this instance, which was not written again.
    judged.directs(PLACE, &Disposition::Serve { returning: false }, 101);
    judged.taken_out(101, PLACE, &slots, "pantry/n0");
    assert_eq!(rules(&judged), NONE);
    let (mut fewer, mut slots) = with_orders_of_a_lost_upgrade();
    slots.insert((0, 2), out(101, Cause::Order));
    fewer.taken_out(101, PLACE, &slots, "pantry/n0");
    assert_eq!(rules(&fewer), [4], "its own upgrade leaves one in service");
    let ends: [fn(&mut Facts); 2] = [
        |judged| judged.orders(PLACE, &Disposition::Serve { returning: true }, Some(0)),
        |judged| judged.stopped(PLACE),
    ];
    for ends in ends {
        let (mut later, slots) = with_orders_of_a_lost_upgrade();
        ends(&mut later);
        later.taken_out(101, PLACE, &slots, "pantry/n0");
        assert_eq!(rules(&later), [4], "the order is over");
    }
}

#[test]
fn drain_lasts_as_long_as_its_own_upgrade_allows() {
    let (mut judged, _) = with_orders_of_a_lost_upgrade();
    judged.stopped_at_work(5_101, PLACE, Some(101), false, "pantry/n0");
    assert_eq!(rules(&judged), NONE);
    judged.stopped_at_work(5_100, PLACE, Some(101), false, "pantry/n0");
    judged.stopped_at_work(5_101, (0, 2), Some(101), false, "pantry/n2");
    assert_eq!(rules(&judged), [6, 6], "too early, and without an order of that upgrade");
}

#[test]
fn outage_counts_once_it_must_be_known() {
    for (since, broken) in [(59_000, vec![]), (10_000, vec![4])] {
        let other = out(since, Cause::Misfortune("nothing runs"));
        let slots: BTreeMap<At, Slot> =
            [(PLACE, out(60_000, Cause::Order)), ((0, 1), other), ((0, 2), runs(1))].into();
        let mut judged = facts(3, 2);
        judged.directs(PLACE, &Disposition::Drain, 59_990);
        judged.taken_out(60_000, PLACE, &slots, "pantry/n0");
        assert_eq!(rules(&judged), broken, "out since {since}");
    }
}

#[test]
fn one_that_recovers_is_drained_as_unhealthy_only_at_once() {
    let cases = [(10_000, 62_500, vec![]), (10_000, 63_000, vec![4]), (59_000, 61_000, vec![4])];
    for (since, ordered_at, broken) in cases {
        let out_before = Some((since, Cause::Misfortune("nothing runs")));
        let place = Slot { came_at: 60_000, out_before, ..out(63_100, Cause::Order) };
        let mut judged = facts(2, 2);
        judged.directs(PLACE, &Disposition::Drain, ordered_at);
        judged.taken_out(63_100, PLACE, &[(PLACE, place), ((0, 1), runs(1))].into(), "pantry/n0");
        assert_eq!(rules(&judged), broken, "out from {since}, ordered at {ordered_at}");
    }
}

#[test]
fn let_in_is_not_taken_back_at_the_deadline() {
    let serve = Disposition::Serve { returning: true };
    let judged = |disposition: &Disposition, out_at: u64| {
        let place = Slot { came_at: 60_000, ..out(out_at, Cause::Order) };
        let slots: BTreeMap<At, Slot> = [(PLACE, place), ((0, 1), runs(1))].into();
        let mut judged = facts(2, 2);
        judged.directs(PLACE, disposition, 60_000);
        judged.taken_out(out_at, PLACE, &slots, "pantry/n0");
        rules(&judged)
    };
    assert_eq!(judged(&serve, 60_600), NONE, "it was shown before its readiness could be known");
    assert_eq!(judged(&serve, 90_060), [4], "it was not verified, and stays in rotation");
    assert_eq!(judged(&Disposition::Drain, 60_600), [4], "it was ordered out as it came in");
}

#[test]
fn retry_of_what_runs_may_let_it_in_at_once() {
    let replace = |number: i64| {
        let tag = format!("pantry-{number}").parse().unwrap();
        let version = ServiceVersion::new(number).unwrap();
        Disposition::Replace { release: Release { tag, sha256: Digest::ABSENT, version } }
    };
    let judged = |orders: &[Disposition], (came_at, out_at): (u64, u64)| {
        let place = Slot { came_at, ..out(out_at, Cause::Order) };
        let slots: BTreeMap<At, Slot> = [(PLACE, place), ((0, 1), runs(1))].into();
        let mut judged = facts(2, 2);
        orders.iter().for_each(|order| judged.directs(PLACE, order, 60_000));
        judged.taken_out(out_at, PLACE, &slots, "pantry/n0");
        rules(&judged)
    };
    assert_eq!(judged(&[replace(1)], (60_000, 90_065)), NONE, "it was not verified in its time");
    assert_eq!(judged(&[replace(1)], (60_000, 105_000)), [4], "that time was over long before");
    assert_eq!(judged(&[replace(1)], (59_999, 90_065)), [4], "it came in before the order");
    assert_eq!(judged(&[replace(2)], (60_000, 90_065)), [4], "the ordered release was never started");
    assert_eq!(judged(&[replace(1), Disposition::Drain], (60_000, 60_600)), [4], "it was ordered out");
}

#[test]
fn what_its_agent_took_back_counts_once_it_must_be_known() {
    for (later, broken) in [(1_000, vec![]), (20_000, vec![4])] {
        let back = Slot { came_at: 20_000, ..out(50_000, Cause::Order) };
        let mut slots: BTreeMap<At, Slot> = [(PLACE, back), ((0, 1), runs(1)), ((0, 2), runs(1))].into();
        let mut judged = facts(3, 2);
        judged.directs(PLACE, &Disposition::Stop, 10_000);
        judged.taken_out(50_000, PLACE, &slots, "pantry/n0");
        let now = 50_000 + later;
        slots.insert((0, 1), out(now, Cause::Order));
        judged.directs((0, 1), &Disposition::Drain, now - 5);
        judged.taken_out(now, (0, 1), &slots, "pantry/n1");
        assert_eq!(rules(&judged), broken, "ordered {later} ms later");
    }
}

#[test]
fn agent_alone_refuses_what_comes_in_outside_the_window() {
    let judged = |version: u32, (came_at, out_at): (u64, u64), ordered: bool| {
        let place = Slot { came_at, out: Some((out_at, Cause::Order)), ..runs(version) };
        let slots: BTreeMap<At, Slot> =
            [(PLACE, place), ((0, 1), out(10, Cause::Order)), ((0, 2), runs(1))].into();
        let mut judged = facts(3, 2);
        judged.services[0].windows = vec![(0, 1, 2), (20_000, 1, 1)];
        if ordered {
            judged.directs(PLACE, &Disposition::Drain, 19_000);
        }
        judged.taken_out(out_at, PLACE, &slots, "pantry/n0");
        rules(&judged)
    };
    assert_eq!(judged(2, (30_000, 31_300), false), NONE);
    assert_eq!(judged(1, (30_000, 31_300), false), [4], "the window admits it");
    assert_eq!(judged(2, (30_000, 35_000), false), [4], "in rotation it stays until it is drained");
    assert_eq!(judged(2, (19_900, 20_500), false), [4], "it was there before the window");
    assert_eq!(judged(2, (30_000, 31_300), true), [4], "an order takes it out");
}

#[test]
fn agent_alone_refuses_what_recovered_before_the_window() {
    let judged = |cause: Cause, out_at: u64| {
        let (out_before, out) = (Some((15_000, cause)), Some((out_at, Cause::Order)));
        let place = Slot { came_at: 19_900, out_before, out, ..runs(2) };
        let other = Slot { out: Some((10, Cause::Order)), ..runs(1) };
        let slots: BTreeMap<At, Slot> = [(PLACE, place), ((0, 1), other), ((0, 2), runs(1))].into();
        let mut judged = facts(3, 2);
        judged.services[0].windows = vec![(0, 1, 2), (20_000, 1, 1)];
        judged.taken_out(out_at, PLACE, &slots, "pantry/n0");
        rules(&judged)
    };
    let failed = || Cause::Misfortune("its health");
    assert_eq!(judged(failed(), 20_500), NONE, "its agent may still know it as out");
    assert_eq!(judged(failed(), 19_900 + SEEN), [4], "its agent has seen it in rotation");
    assert_eq!(judged(Cause::Order, 20_500), [4], "its agent let it in");
}

#[test]
fn version_below_what_is_contracted_may_be_disabled_at_once() {
    let slots: BTreeMap<At, Slot> = [(PLACE, out(100, Cause::Order))].into();
    let mut judged = facts(1, 1);
    judged.services[0].contracted = 2;
    judged.taken_out(100, PLACE, &slots, "pantry/n0");
    assert_eq!(rules(&judged), NONE);
}

#[test]
fn version_outside_the_window_that_comes_in_breaks_rule_2() {
    let mut judged = facts(1, 0);
    judged.services[0].windows = vec![(0, 1, 2), (10_000, 2, 2)];
    judged.came_in(12_000, PLACE, (1, None), "pantry/n0");
    assert_eq!(rules(&judged), NONE, "it was admitted a moment ago");
    judged.services[0].windows.push((30_000, 2, 2));
    judged.came_in(60_000, PLACE, (2, None), "pantry/n0");
    assert_eq!(rules(&judged), NONE);
    judged.person_removed_file(60_000, PLACE);
    judged.came_in(60_001, PLACE, (1, None), "pantry/n0");
    assert_eq!(rules(&judged), NONE, "its agent cannot have seen that yet");
    judged.came_in(60_000 + SEEN, PLACE, (1, None), "pantry/n0");
    assert_eq!(rules(&judged), [2]);
}

#[test]
fn version_comes_in_outside_the_window_while_its_agent_lies() {
    let judged = |node: usize, until: u64| {
        let mut judged = facts(1, 0);
        judged.services[0].windows = vec![(0, 2, 2)];
        judged.byzantine.insert(node, until);
        judged.came_in(60_000, PLACE, (1, None), "pantry/n0");
        rules(&judged)
    };
    assert_eq!(judged(0, u64::MAX), NONE, "no agent refuses it");
    assert_eq!(judged(0, 60_001 - SEEN), NONE, "its agent cannot have seen that yet");
    assert_eq!(judged(0, 60_000 - SEEN), [2], "its agent has been back for long enough");
    assert_eq!(judged(1, u64::MAX), [2], "another agent lies");
}

#[test]
fn before_the_first_window_every_version_may_run() {
    let mut judged = facts(1, 0);
    assert_eq!(judged.services[0].admitted(), 1..=u32::MAX);
    judged.services[0].windows = vec![(0, 1, 2), (10_000, 2, 2)];
    assert_eq!(judged.services[0].admitted(), 2..=2, "the last one counts");
}

#[test]
fn blank_store_binds_only_who_has_acknowledged_a_window() {
    let mut judged = facts(1, 0);
    judged.services[0].windows = vec![(0, 2, 2)];
    judged.services[0].has_no_window = true;
    judged.came_in(60_000, PLACE, (3, None), "pantry/n0");
    assert_eq!((rules(&judged), judged.unbound.contains(&PLACE)), (vec![], true));
    judged.bound.insert(PLACE);
    judged.starts_without_journal((0, 1));
    judged.came_in(61_000, PLACE, (3, None), "pantry/n0");
    assert_eq!(rules(&judged), [2]);
}

#[test]
fn lost_window_does_not_bind_what_a_person_shows() {
    let mut judged = facts(1, 0);
    judged.services[0].windows = vec![(0, 2, 2)];
    judged.services[0].has_no_window = true;
    judged.shown_again(60_000, PLACE);
    judged.came_in(60_000, PLACE, (3, None), "pantry/n0");
    assert_eq!((rules(&judged), judged.unbound.contains(&PLACE)), (vec![], true));
}

#[test]
fn lost_journal_binds_to_no_window_of_a_lost_store() {
    let mut judged = facts(1, 0);
    judged.services[0].windows = vec![(0, 2, 2)];
    judged.bound.insert(PLACE);
    judged.starts_without_journal(PLACE);
    judged.came_in(60_000, PLACE, (3, None), "pantry/n0");
    assert_eq!(rules(&judged), [2], "the store has the window");
    judged.services[0].has_no_window = true;
    judged.came_in(61_000, PLACE, (3, None), "pantry/n0");
    assert_eq!((rules(&judged), judged.unbound.contains(&PLACE)), (vec![2], true));
}

#[test]
fn instance_admitted_after_a_rollback_is_late() {
    let mut judged = facts(1, 0);
    judged.services[0].windows = vec![(10_000, 1, u32::MAX)];
    judged.silent.admitted(PLACE, 0);
    judged.services[0].undone = Some((2, judged.silent.counted()));
    judged.came_in(12_000, PLACE, (2, None), "pantry/n0");
    assert!(judged.late.is_empty(), "it was admitted before the end");
    judged.silent.decommissioned(PLACE);
    judged.silent.admitted(PLACE, 0);
    judged.came_in(12_000, PLACE, (1, None), "pantry/n0");
    assert!(judged.late.is_empty(), "version 1 does not use the form");
    judged.came_in(12_000, PLACE, (2, None), "pantry/n0");
    assert!(judged.late.contains(&PLACE));
    judged.services[0].windows.push((13_000, 1, 1));
    judged.came_in(60_000, PLACE, (2, None), "pantry/n0");
    assert_eq!(rules(&judged), [2], "a window that does not admit it still counts");
}

#[test]
fn instance_that_no_store_knows_is_late_once_its_form_goes() {
    let mut judged = facts(1, 0);
    assert!(!judged.is_late(PLACE, 2, 0), "nothing is undone");
    for is_over in [false, true] {
        judged.services[0].undoing = Some((2, is_over));
        assert!(judged.is_late(PLACE, 2, 0) && !judged.is_late(PLACE, 1, 0));
    }
    judged.silent.admitted(PLACE, 0);
    assert!(!judged.is_late(PLACE, 2, 0), "the rollback has to move it");
    judged.silent.begin_again();
    assert!(!judged.is_late(PLACE, 2, 0), "a store knew of it");
}

#[test]
fn upgrade_ended_in_preflight_was_never_staged() {
    use PhaseName::{Failed, Preflight, RolledBack, RollingBack, Stage};
    let is_staged = |phases: &[PhaseName]| {
        let mut judged = facts(1, 0);
        phases.iter().for_each(|phase| judged.enters("u0", *phase, 5_000));
        judged.staged.contains("u0")
    };
    assert!(!is_staged(&[Preflight, RollingBack, Failed]));
    assert!(is_staged(&[Preflight, Stage, RollingBack, RolledBack]));
    assert!(!is_staged(&[Preflight, Stage, Preflight]), "its store was restored");
}

#[test]
fn drain_is_judged_by_the_next_look_at_the_form() {
    let found = |has, replaced_at| {
        let mut judged = facts(1, 0);
        judged.services[0].lacks_since = Some(5_000);
        judged.services[0].drained_on_lack = vec![(40_000, "pantry/n0 was drained".to_owned())];
        judged.looked_at_form(0, (has, 41_000), replaced_at);
        judged.looked_at_form(0, (false, 46_000), None);
        (rules(&judged), judged.services[0].lacks_since)
    };
    assert_eq!(found(true, None), (vec![], Some(46_000)), "the form came between two looks");
    assert_eq!(found(true, Some(30_000)), (vec![], Some(46_000)), "with another database");
    assert_eq!(found(true, Some(40_500)), (vec![1], Some(46_000)), "it came after the drain");
    assert_eq!(found(false, None), (vec![1], Some(5_000)));
}

#[test]
fn stop_at_work_breaks_rule_6() {
    let mut judged = facts(1, 0);
    judged.stopped_at_work(6_000, PLACE, Some(1_000), false, "pantry/n0");
    assert_eq!(rules(&judged), NONE, "the deadline has passed");
    judged.stopped_at_work(3_000, PLACE, Some(1_000), false, "pantry/n0");
    judged.stopped_at_work(6_000, PLACE, Some(1_000), true, "pantry/n0");
    assert_eq!(rules(&judged), [6, 6]);
}

#[test]
fn drain_beside_a_persons_file_counts_from_its_order() {
    let since = |hidden_at, file_at, ordered: &[(Disposition, u64)]| {
        let mut judged = facts(1, 0);
        ordered.iter().for_each(|(disposition, at)| judged.directs(PLACE, disposition, *at));
        judged.drained_since(PLACE, &Slot { hidden_at, file_at, ..runs(1) })
    };
    let (drain, stop, serve) =
        (Disposition::Drain, Disposition::Stop, Disposition::Serve { returning: true });
    let ordered = [(drain.clone(), 2_000), (stop, 7_000)];
    assert_eq!(since(None, Some(1_000), &ordered), Some(2_000), "the file was there before the order");
    assert_eq!(since(None, Some(3_000), &ordered), Some(3_000), "it came later");
    assert_eq!(since(Some(1_000), Some(1_000), &ordered), Some(1_000), "its agent put the file");
    assert_eq!(since(None, None, &ordered), None, "no file is there");
    assert_eq!(since(None, Some(1_000), &[]), None, "no order takes it out");
    let again = [(drain.clone(), 2_000), (serve, 3_000), (drain, 4_000)];
    assert_eq!(since(None, Some(1_000), &again), Some(4_000), "the former order was taken back");
}

#[test]
fn order_that_a_stop_has_carried_out_counts_no_more() {
    let mut judged = facts(1, 0);
    judged.directs(PLACE, &Disposition::Drain, 2_000);
    judged.stopped(PLACE);
    let hidden = Slot { file_at: Some(1_000), ..runs(1) };
    assert_eq!(judged.drained_since(PLACE, &hidden), None);
    judged.directs(PLACE, &Disposition::Stop, 9_000);
    assert_eq!(judged.drained_since(PLACE, &hidden), Some(9_000));
}

#[test]
fn drain_that_fails_at_its_deadline_is_never_late() {
    let mut judged = facts(1, 0);
    judged.services[0].drain_deadline = u64::MAX;
    judged.stopped_at_work(60_000, PLACE, Some(1_000), false, "pantry/n0");
    assert_eq!(rules(&judged), [6]);
}
