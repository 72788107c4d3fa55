use super::*;
use tidegate_proto::wire::v1::{Failure, PhaseTime, Spread};

fn instance(n: u32, wave: u32, version: u32, rotation: &str, step: &str) -> Instance {
    Instance {
        node: format!("n{n}"),
        version: Some(version),
        rotation: rotation.to_owned(),
        step: step.to_owned(),
        wave: Some(wave),
        in_service: rotation == "in",
        ..Instance::default()
    }
}

/// The third of four waves, in which one instance has failed.
fn roll() -> (UpgradeSummary, UpgradeStatusReply, Reasons) {
    let text = ToOwned::to_owned;
    let upgrade = UpgradeSummary {
        id: text("pantry-2"),
        service: text("pantry-api"),
        from: 1,
        to: 2,
        release: text("v2.0.1"),
        phase: text("roll"),
        wave: Some(3),
        waves: 4,
        done: 4,
        instances: 9,
        ..UpgradeSummary::default()
    };
    let mut instances: Vec<Instance> =
        (1..=4).map(|n| instance(n, n.min(3) - n / 3, 2, "in", "serving")).collect();
    instances.push(instance(5, 3, 1, "leaving", "draining"));
    let because = Some("replacing: the program ended with status 1".to_owned());
    instances.push(Instance { because, ..instance(6, 3, 1, "out", "failed") });
    instances.extend((7..=9).map(|n| instance(n, 4, 1, "in", "serving")));
    let time = |phase: &str| PhaseTime { phase: phase.to_owned(), ms: 1500 };
    let status = UpgradeStatusReply {
        instances,
        timetable: ["preflight", "stage", "expand", "migrate"].map(time).to_vec(),
        schema: Some("pantry".to_owned()),
        spread: Some(Spread { by_version: [(1, 5), (2, 4)].into(), ..Spread::default() }),
        failed: vec![Failure {
            node: text("n6"),
            wave: 3,
            reason: text("replacing: the program ended with status 1"),
        }],
        ..UpgradeStatusReply::default()
    };
    let failed = Reason {
        kind: text("failed"),
        blocked_on: text(
            "n6 failed in wave 3 (replacing: the program ended with status 1), and max_failures is 0",
        ),
        owner: text("an operator"),
        next_step: Some(text("tidegate upgrade retry pantry-2 n6")),
        timeout: None,
        since: Some(1_795_424_401_042),
    };
    let draining = Reason {
        kind: text("draining"),
        blocked_on: text("n5 leaves rotation"),
        owner: text("the agents"),
        timeout: Some(text("30 s for each instance")),
        ..Reason::default()
    };
    (upgrade, status, Reasons { reasons: vec![failed, draining], more: 1 })
}

fn rendered(frame: &Frame, (width, height): (usize, usize), colour: bool) -> String {
    let lines = lines(frame, width, height);
    assert!(lines.len() <= height, "{} lines", lines.len());
    let text: Vec<String> = lines.iter().map(|line| line.text(width, colour)).collect();
    // An escape character is shown as it is read in a diff.
    text.join("\n").replace('\x1b', "^")
}

fn frame<'a>((upgrade, status, reasons): &'a (UpgradeSummary, UpgradeStatusReply, Reasons)) -> Frame<'a> {
    Frame {
        upgrade,
        status,
        reasons,
        event: Some("2026-11-23T09:00:01.042Z  roll -> drain n5: the budget allows it (coordinator)"),
        over: None,
        in_phase: Some(Duration::from_secs(192)),
        left: Some(Duration::from_secs(130)),
        away: None,
    }
}

#[test]
fn roll_at_80_columns() {
    insta::assert_snapshot!(rendered(&frame(&roll()), (80, 24), false));
}

#[test]
fn roll_at_80_columns_in_colour() {
    insta::assert_snapshot!(rendered(&frame(&roll()), (80, 24), true));
}

#[test]
fn roll_at_40_columns() {
    insta::assert_snapshot!(rendered(&frame(&roll()), (40, 12), false));
}

#[test]
fn roll_at_40_columns_in_colour() {
    insta::assert_snapshot!(rendered(&frame(&roll()), (40, 12), true));
}

#[test]
fn completed_upgrade_shows_no_reasons_and_no_time_left() {
    let (upgrade, status, reasons) = roll();
    let upgrade =
        UpgradeSummary { phase: "completed".to_owned(), over: true, wave: None, done: 9, ..upgrade };
    let over = Over { phase: "completed".to_owned(), because: None };
    let known =
        (upgrade, UpgradeStatusReply { failed: Vec::new(), instances: Vec::new(), ..status }, reasons);
    let frame = Frame { over: Some(&over), in_phase: None, left: None, ..frame(&known) };
    insta::assert_snapshot!(rendered(&frame, (80, 24), false));
}

#[test]
fn paused_rollback_shows_phases_left_and_lost_connection() {
    let (upgrade, status, reasons) = roll();
    let upgrade = UpgradeSummary { phase: "rolling-back".to_owned(), paused: true, wave: None, ..upgrade };
    let because = Some("paused by ann: p99 doubled".to_owned());
    let known = (upgrade, UpgradeStatusReply { because, ..status }, reasons);
    let away = Some(Duration::from_secs(12));
    insta::assert_snapshot!(rendered(&Frame { away, left: None, ..frame(&known) }, (80, 24), false));
}

#[test]
fn migrate_after_the_roll_is_shown_after_it() {
    let (upgrade, status, reasons) = roll();
    let time = |phase: &str| PhaseTime { phase: phase.to_owned(), ms: 1 };
    let timetable = |phases: &[&str]| phases.iter().map(|phase| time(phase)).collect::<Vec<_>>();
    let last = ["preflight", "stage", "expand", "roll", "migrate", "remove", "contract", "completed"];
    for (now, left, after) in [
        ("roll", &["preflight", "stage", "expand"][..], true),
        ("migrate", &["preflight", "stage", "expand", "roll"], true),
        ("remove", &["preflight", "stage", "expand", "roll", "migrate"], true),
        ("migrate", &["preflight", "stage", "expand"], false),
        ("roll", &["preflight", "stage", "expand", "migrate"], false),
        ("remove", &["preflight", "stage", "expand", "migrate", "roll"], false),
    ] {
        let upgrade = UpgradeSummary { phase: now.to_owned(), ..upgrade.clone() };
        let known =
            (upgrade, UpgradeStatusReply { timetable: timetable(left), ..status.clone() }, reasons.clone());
        assert_eq!(order(&frame(&known)) == last, after, "{now} after {left:?}");
    }
}

#[test]
fn picture_fits_every_size() {
    let known = roll();
    for width in 1..100 {
        for height in 1..30 {
            let lines = lines(&frame(&known), width, height);
            assert!(lines.len() <= height, "{width}x{height}");
        }
    }
}

#[test]
fn rolled_back_upgrade_shows_why_in_three_lines_and_no_count() {
    let (upgrade, status, reasons) = roll();
    let phase = "rolled-back".to_owned();
    let upgrade = UpgradeSummary { phase: phase.clone(), over: true, wave: None, done: 0, ..upgrade };
    let because = "n6 failed in wave 3, last answers: ".to_owned() + &"503 disabled by file; ".repeat(20);
    let over = Over { phase, because: Some(because) };
    let known =
        (upgrade, UpgradeStatusReply { failed: Vec::new(), instances: Vec::new(), ..status }, reasons);
    let frame = Frame { over: Some(&over), in_phase: None, left: None, ..frame(&known) };
    insta::assert_snapshot!(rendered(&frame, (80, 24), false));
}
