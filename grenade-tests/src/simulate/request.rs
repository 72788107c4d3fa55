//! What people ask coordinators for: every verb, with arguments that are right, nearly right or wrong.

use super::dice::Dice;
use serde_json::Value as Json;

/// A request of one person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// `upgrade start`, with and without `--dry-run`: of a spec that must be refused.
    StartWrong(Box<Json>),
    /// `upgrade start --dry-run`.
    Preview(Box<Json>),
    /// `upgrade approve ID PHASE --accept …`.
    Approve(String, String, Vec<String>),
    /// `upgrade pause ID`.
    Pause(String),
    /// `upgrade resume ID`.
    Resume(String),
    /// `upgrade rollback ID`.
    RollBack(String),
    /// `upgrade retry ID NODE`.
    Retry(String, String),
    /// `upgrade retry ID NODE --declare-stopped`, where nothing runs there.
    DeclareStopped(String, String),
    /// `upgrade skip ID NODE`.
    Skip(String, String),
    /// `fleet cordon NODE`.
    Cordon(String),
    /// `fleet uncordon NODE`.
    Uncordon(String),
    /// `fleet decommission SERVICE/NODE`.
    Decommission(String),
    /// `fleet window SERVICE --floor --ceiling`, with and without `--dry-run`.
    Window(String, u32, u32),
    /// `fleet reconcile`, then `--apply HASH` of this plan, or of another one.
    Reconcile {
        /// Whether it is this plan's.
        right: bool,
    },
    /// `token create`, then `token revoke` of it or of another.
    Token(String, String),
    /// `task settle NODE TASK`.
    Settle(String, String),
    /// `metadata set GROUP`.
    SetMetadata(String, String),
    /// `metadata cancel GROUP`.
    CancelMetadata(String),
    /// `metadata signal GROUP INSTANCE`.
    SignalMetadata(String, String, u64),
    /// Every question that only reads.
    Look(String, String),
}

/// What a person knows when they begin.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// The upgrade.
    pub id: String,
    /// Its service.
    pub service: String,
    /// Nodes of the service.
    pub nodes: Vec<String>,
    /// Instances that operators may decommission: on nodes that are off, and, to be refused, those that report.
    pub to_decommission: Vec<String>,
    /// The spec of the upgrade.
    pub spec: Json,
    /// The version that it leaves.
    pub from: u32,
    /// Whether every agent says what is so: what one that lies claims is not applied.
    pub none_is_byzantine: bool,
}

const WRONG: [&str; 6] = ["nothing", "u99", "", "Ü 1", "u0/../u1", "-"];

const POINTS: [&str; 9] =
    ["stage", "expand", "migrate", "roll", "remove", "contract", "preflight", "completed", ""];

fn id(dice: &mut Dice, known: &Known) -> String {
    match dice.percent(80) {
        true => known.id.clone(),
        false => (*dice.pick(&WRONG).unwrap_or(&"nothing")).to_owned(),
    }
}

fn node(dice: &mut Dice, known: &Known) -> String {
    match dice.percent(80) {
        true => dice.pick(&known.nodes).cloned().unwrap_or_default(),
        false => (*dice.pick(&["nowhere", "", "n 1", "n99"]).unwrap_or(&"nowhere")).to_owned(),
    }
}

fn service(dice: &mut Dice, known: &Known) -> String {
    match dice.percent(85) {
        true => known.service.clone(),
        false => (*dice.pick(&["attic", "", "Pantry!"]).unwrap_or(&"attic")).to_owned(),
    }
}

/// A spec with one thing in it that no fleet allows.
fn wrong_spec(dice: &mut Dice, known: &Known) -> Json {
    let mut spec = known.spec.clone();
    match dice.below(8) {
        0 => spec["service"] = "attic".into(),
        1 => spec["to"] = (known.from + 2).into(),
        2 => spec["from"] = (known.from + 1).into(),
        3 => spec["max_unavailable"] = 0.into(),
        4 => spec["min_in_service"] = (known.nodes.len() + 1).into(),
        5 => spec["release"] = serde_json::json!({"tag": ""}),
        6 => spec["strategy"] = serde_json::json!({"rolling": {"batch": 0}}),
        _ => spec["speed"] = "fast".into(),
    }
    spec
}

/// One more request.
pub(super) fn request(dice: &mut Dice, known: &Known) -> Request {
    match dice.below(40) {
        0..=2 => Request::StartWrong(Box::new(wrong_spec(dice, known))),
        3 => Request::Preview(Box::new(known.spec.clone())),
        4..=7 => {
            let accepts: &[&str] = match dice.below(3) {
                0 => &[],
                1 => &["sessions"],
                _ => &["everything"],
            };
            let point = *dice.pick(&POINTS).unwrap_or(&"roll");
            let accepts = accepts.iter().map(|part| (*part).to_owned()).collect();
            Request::Approve(id(dice, known), point.to_owned(), accepts)
        }
        8..=10 => Request::Pause(id(dice, known)),
        11..=13 => Request::Resume(id(dice, known)),
        14 => Request::RollBack(id(dice, known)),
        15..=16 => Request::Retry(id(dice, known), node(dice, known)),
        17 => Request::DeclareStopped(id(dice, known), node(dice, known)),
        18..=19 => Request::Skip(id(dice, known), node(dice, known)),
        20..=21 => Request::Cordon(node(dice, known)),
        22..=23 => Request::Uncordon(node(dice, known)),
        24..=26 => Request::Decommission(match dice.percent(80) {
            true => dice.pick(&known.to_decommission).cloned().unwrap_or_default(),
            false => format!("{}/{}", service(dice, known), node(dice, known)),
        }),
        27..=28 => {
            let version = |dice: &mut Dice| u32::try_from(dice.below(6)).unwrap_or(1);
            Request::Window(service(dice, known), version(dice), version(dice))
        }
        29 => Request::Reconcile { right: known.none_is_byzantine && dice.percent(50) },
        30..=31 => {
            let role = *dice.pick(&["operate", "read", "root"]).unwrap_or(&"read");
            Request::Token(
                if dice.percent(80) { "a-token".to_owned() } else { String::new() },
                role.to_owned(),
            )
        }
        32 => Request::Settle(node(dice, known), "t1".to_owned()),
        33..=34 => {
            let body = *dice
                .pick(&[
                    r#"{"document": {"size": 1}}"#,
                    r#"{"document": {"size": 2}, "pattern": "rolling", "instances": ["n00"], "timeout": "5s"}"#,
                    r#"{"document": 3}"#,
                    "{",
                ])
                .unwrap_or(&"{");
            Request::SetMetadata("group".to_owned(), body.to_owned())
        }
        35 => Request::CancelMetadata("group".to_owned()),
        36 => Request::SignalMetadata("group".to_owned(), node(dice, known), dice.below(3)),
        _ => Request::Look(id(dice, known), service(dice, known)),
    }
}
