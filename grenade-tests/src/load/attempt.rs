//! One request from its instant to its outcome.

use std::net::SocketAddr;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::Instant;

use crate::load::answer::{check_image, check_page};
use crate::load::facts::{Facts, Idle};
use crate::load::plan::{ANSWER_LIMIT, SEND_LIMIT};
use crate::load::step::{PAGE, Step};
use crate::load::wire::{self, Answer, NoAnswer};

/// Why a request counts as failed.
#[derive(Debug, Error)]
pub enum Failure {
    /// The load itself was late.
    #[error("not sent within 1 s of its instant")]
    NotSent,
    /// No answer in time.
    #[error("no answer in 10 s")]
    Silence,
    /// No whole answer.
    #[error("{}", match .0 { NoAnswer::Connect(_) => "not connected", _ => "reset" })]
    Reset(#[source] NoAnswer),
    /// A status that was not asked for.
    #[error("status {0}")]
    Status(u16, String),
    /// An answer that contradicts what is known.
    #[error("wrong content")]
    Content(String),
}

impl Failure {
    /// More than the kind: what was said.
    pub fn detail(&self) -> String {
        match self {
            Self::Reset(cause) => cause.to_string(),
            Self::Status(_, said) | Self::Content(said) => said.clone(),
            Self::NotSent | Self::Silence => String::new(),
        }
    }
}

/// What became of one request.
#[derive(Debug)]
pub struct Outcome {
    /// Its place in the order.
    pub seq: u64,
    /// What it did.
    pub kind: &'static str,
    /// When it was due.
    pub scheduled: Instant,
    /// When it was sent.
    pub sent: Instant,
    /// When its outcome was known.
    pub done: Instant,
    /// How long it takes without any fault of the service.
    pub own_length: Duration,
    /// The status of its answer, where there was one.
    pub status: Option<u16>,
    /// Which version answered.
    pub version: Option<u32>,
    /// Which node answered.
    pub node: String,
    /// Bytes of the answer.
    pub bytes: usize,
    /// Whether it read, through one version, what another one wrote.
    pub across: bool,
    /// `None` if all was well.
    pub failure: Option<Failure>,
}

/// Carries out one step; what it proved goes back to `idle`.
pub async fn attempt(seq: u64, scheduled: Instant, step: Step, target: SocketAddr, idle: &Idle) -> Outcome {
    let sent = Instant::now();
    let (kind, own_length) = (step.kind(), step.own_length());
    let answered = if sent.duration_since(scheduled) > SEND_LIMIT {
        Err(Failure::NotSent)
    } else {
        match tokio::time::timeout(ANSWER_LIMIT + own_length, ask(&step, target)).await {
            Err(_) => Err(Failure::Silence),
            Ok(Err(none)) => Err(Failure::Reset(none)),
            Ok(Ok(answer)) => Ok(answer),
        }
    };
    let done = Instant::now();
    let mut outcome = Outcome {
        seq,
        kind,
        scheduled,
        sent,
        done,
        own_length,
        status: None,
        version: None,
        node: String::new(),
        bytes: 0,
        across: false,
        failure: None,
    };
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
            outcome.across = outcome.failure.is_none() && crossed(&step, &answer);
            if outcome.failure.is_none() {
                put_back(step, answer.version, idle);
            }
            outcome.status = Some(answer.status);
            outcome.version = answer.version;
            outcome.node = answer.node;
            outcome.bytes = answer.body.len();
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

fn crossed(step: &Step, answer: &Answer) -> bool {
    matches!(step, Step::Read { known, .. } if known.written_by != answer.version)
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
