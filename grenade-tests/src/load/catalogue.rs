//! The requests of the sample service: its catalogue is created, read, listed, updated, shared and uploaded to, and each
//! answer has exactly one right content.

use std::net::SocketAddr;

use http::Method;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::load::answer::{check_image, check_page};
use crate::load::facts::{Facts, Idle};
use crate::load::mix::{Due, Mix};
use crate::load::outcome::{Failure, Outcome};
use crate::load::plan::{ANSWER_LIMIT, LoadPlan, SEND_LIMIT};
use crate::load::step::{PAGE, Step};
use crate::load::wire::{self, Answer, NoAnswer};

/// The sample service's mix.
#[derive(Debug)]
pub struct Catalogue {
    plan: LoadPlan,
    idle: Idle,
    run: String,
}

impl Catalogue {
    /// By this plan, with images of its own.
    pub fn new(plan: LoadPlan) -> Self {
        Self { plan, idle: Idle::default(), run: uuid::Uuid::new_v4().simple().to_string() }
    }
}

impl Mix for Catalogue {
    type Step = Step;

    fn draw(&self, seq: u64, dice: &mut StdRng) -> Step {
        Step::draw(seq, &self.run, &self.plan, &self.idle, dice)
    }

    async fn attempt(&self, due: Due, step: Step) -> Outcome {
        attempt(due, step, self.plan.target, &self.idle).await
    }
}

/// Carries out one step; what it proved goes back to `idle`.
pub async fn attempt(due: Due, step: Step, target: SocketAddr, idle: &Idle) -> Outcome {
    let own_length = step.own_length();
    let mut outcome = Outcome::begun(due, step.kind(), own_length);
    let answered = if outcome.sent.duration_since(due.at) > SEND_LIMIT {
        Err(Failure::NotSent)
    } else {
        match tokio::time::timeout(ANSWER_LIMIT + own_length, ask(&step, target)).await {
            Err(_) => Err(Failure::Silence),
            Ok(Err(none)) => Err(Failure::Reset(none)),
            Ok(Ok(answer)) => Ok(answer),
        }
    };
    outcome.done = Instant::now();
    match answered {
        Err(failure) => {
            // A read leaves everything as it was, and what was never sent did nothing either.
            if let Step::Read { known, seeded: false } = step {
                idle.put(known);
            }
            outcome.failure = Some(failure);
        }
        Ok(answer) => {
            outcome.failure = judge(&step, &answer).err();
            outcome.first = Some(answer.first);
            outcome.status = Some(answer.status);
            outcome.version = answer.version;
            outcome.bytes = answer.body.len();
            if let Step::Read { known, .. } = &step {
                outcome.written_by = known.written_by;
            }
            if outcome.failure.is_none() {
                put_back(step, answer.version, idle);
            }
            outcome.node = answer.node;
        }
    }
    outcome
}

async fn ask(step: &Step, target: SocketAddr) -> Result<Answer, NoAnswer> {
    let (method, path, body) = match step {
        Step::Create { after } => {
            let wish = json!({"id": after.id, "name": after.name, "public": after.public});
            (Method::POST, "/images".to_owned(), wire::json(&wish))
        }
        Step::Read { known, .. } => (Method::GET, format!("/images/{}", known.id), wire::nothing()),
        Step::List { after, .. } => {
            let marker = Facts::seeded(*after).id;
            (Method::GET, format!("/images?limit={PAGE}&marker={marker}"), wire::nothing())
        }
        Step::Update { after } => {
            let wish = json!({"name": after.name, "public": after.public});
            (Method::PUT, format!("/images/{}", after.id), wire::json(&wish))
        }
        Step::Share { after } => (Method::PUT, format!("/images/{}/members/load", after.id), wire::nothing()),
        Step::Upload { after, file } => {
            (Method::PUT, format!("/images/{}/file", after.id), wire::slowly(file))
        }
    };
    wire::send(target, method, &path, body).await
}

fn judge(step: &Step, answer: &Answer) -> Result<(), Failure> {
    let right = if matches!(step, Step::Create { .. }) { 201 } else { 200 };
    if answer.status != right {
        let said: String = String::from_utf8_lossy(&answer.body).chars().take(200).collect();
        return Err(Failure::Status(answer.status, said));
    }
    let body: Value = serde_json::from_slice(&answer.body)
        .map_err(|e| Failure::Content(format!("the answer is not JSON: {e}")))?;
    let by = answer.version;
    match step {
        Step::List { after, rows } => check_page(&body, *after, *rows, PAGE, by),
        Step::Read { known, .. } => check_image(&body, known, by),
        Step::Create { after }
        | Step::Update { after }
        | Step::Share { after }
        | Step::Upload { after, .. } => check_image(&body, &Facts { written_by: by, ..after.clone() }, by),
    }
    .map_err(Failure::Content)
}

fn put_back(step: Step, by: Option<u32>, idle: &Idle) {
    match step {
        Step::Read { known, seeded: false } => idle.put(known),
        Step::Create { after }
        | Step::Update { after }
        | Step::Share { after }
        | Step::Upload { after, .. } => {
            idle.put(Facts { written_by: by, ..after });
        }
        Step::Read { seeded: true, .. } | Step::List { .. } => {}
    }
}
