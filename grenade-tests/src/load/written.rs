//! The load as it is written in a gate file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_proto::{ServiceVersion, Span};

use crate::load::whole::{all_whole, whole, whole_if_any};

/// The longest body that is sent slowly, in bytes: 1 GiB.
pub const MOST_BYTES: u64 = 1 << 30;
/// The most requests per second.
pub const MOST_RATE: u64 = 5_000;

/// What clients do.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Requests per second, 1 to 5000, of the steps.
    #[serde(default, deserialize_with = "whole_if_any::<_, _, 1, MOST_RATE>")]
    #[schemars(range(min = 1, max = MOST_RATE))]
    pub rate: Option<u32>,
    /// A load that another program sends, instead of the steps or beside them: a command with the places of a version's
    /// command but those of a node, with `{url}` (the balancer's), `{ledger}` (the CSV file that it writes, with the columns
    /// of requests.csv) and `{began_ms}` (the Unix time in milliseconds from which the times in it count). It runs until
    /// SIGTERM, after which it has 30 s to write the ledger and end.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// How long it runs before the upgrade: what fails then was not the upgrade. Default: 3s.
    #[serde(default = "three_seconds")]
    pub before: Span,
    /// How long it runs after the upgrade. Default: 3s.
    #[serde(default = "three_seconds")]
    pub after: Span,
    /// How long it runs in each frozen mix. Default: 5s.
    #[serde(default = "five_seconds")]
    pub mixed: Span,
    /// The part of the requests that is sent over kept connections, 0 to 1. Default: 0.5.
    #[serde(default = "half")]
    #[schemars(range(min = 0, max = 1))]
    pub keep_alive: f64,
    /// Decides every choice. Default: 1.
    #[serde(default = "one")]
    pub seed: u64,
    /// Objects that are there before the load begins, made by `database.init`.
    #[serde(default)]
    pub existing: Vec<Existing>,
    /// The requests.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// A YAML file with the list of requests, from the directory of this file, in place of `steps`: several gate files may
    /// share it.
    #[serde(default)]
    pub steps_from: Option<String>,
}

/// Objects of one kind that the load does not make itself.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Existing {
    /// Their kind, as steps call it.
    pub kind: String,
    /// The variables of each.
    pub objects: Vec<Map<String, Value>>,
    /// The version that wrote them. Default: the base's.
    #[serde(default)]
    pub written_by: Option<ServiceVersion>,
}

fn three_seconds() -> Span {
    Span::from_secs(3)
}

fn five_seconds() -> Span {
    Span::from_secs(5)
}

fn half() -> f64 {
    0.5
}

fn one() -> u64 {
    1
}

/// One kind of request. It makes an object, uses one that was made before, or ends one; an object carries variables, and
/// is in the hands of one request at a time, so that each answer has exactly one right content.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What it is called in the ledger.
    pub name: String,
    /// How often it is drawn, compared to the others. Default: 1.
    #[serde(default = "weight")]
    pub weight: u32,
    /// The kind of object that it makes.
    #[serde(default)]
    pub makes: Option<String>,
    /// The kind of object that it reads or changes.
    #[serde(default)]
    pub uses: Option<String>,
    /// The kind of object that it deletes.
    #[serde(default)]
    pub ends: Option<String>,
    /// Variables that are set before it is sent, with `{run}`, `{seq}` and the object's own; of a list, one is drawn.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// The companion that it goes to. Default: the gate's own service.
    #[serde(default)]
    pub to: Option<String>,
    /// What is sent.
    pub request: Request,
    /// What the answer must be.
    #[serde(default)]
    pub expect: Expect,
    /// Variables that are taken from the answer, each by a JSON pointer.
    #[serde(default)]
    pub keep: BTreeMap<String, String>,
}

fn weight() -> u32 {
    1
}

/// A request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Its method. Default: GET.
    #[serde(default = "get")]
    pub method: String,
    /// Its path and query, with variables.
    pub path: String,
    /// Headers, with variables.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A JSON body, with variables: one that is nothing but `{name}` keeps its type.
    #[serde(default)]
    pub json: Option<Value>,
    /// A body of so many bytes that is sent over so long a time.
    #[serde(default)]
    pub upload: Option<Upload>,
    /// The body of the answer is left unread for so long.
    #[serde(default)]
    pub slow_read: Option<Span>,
}

fn get() -> String {
    "GET".to_owned()
}

/// A slow body.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upload {
    /// Its length in bytes, at most 1 GiB.
    #[serde(deserialize_with = "whole::<_, _, 0, MOST_BYTES>")]
    #[schemars(range(min = 0, max = MOST_BYTES))]
    pub bytes: u64,
    /// From its first byte to its last.
    pub over: Span,
}

/// What an answer must be.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Its status, one of these, each 200 to 599. Default: 200 to 299.
    #[serde(default, deserialize_with = "all_whole::<_, _, 200, 599>")]
    #[schemars(inner(range(min = 200, max = 599)))]
    pub status: Vec<u16>,
    /// Values in its JSON body, by JSON pointer, with variables.
    #[serde(default)]
    pub json: BTreeMap<String, Value>,
    /// A text that its body contains, with variables.
    #[serde(default)]
    pub contains: Option<String>,
}
