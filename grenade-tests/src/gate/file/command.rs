//! Commands of a gate file, with the places that each may have.

use serde_json::Value;

use crate::gate::written::{self, Engine};
use crate::load::findings::Findings;
use crate::load::template::{Template, known};

/// The places of a command that runs for the whole service.
const OF_SERVICE: [&str; 7] =
    ["database", "database_file", "here", "bin", "work", "base_source", "target_source"];
/// Those of the placeholders of a service that a command of this service may have, over a database of this engine.
pub fn of_service(service: &written::Service, engine: Option<Engine>) -> Vec<&'static str> {
    let has = |place: &&str| match *place {
        "database_file" => !matches!(engine, Some(Engine::Postgres | Engine::MariaDb)),
        "base_source" => service.base.has_source(),
        "target_source" => service.target.has_source(),
        _ => true,
    };
    OF_SERVICE.into_iter().filter(has).collect()
}

/// The further place of a command that runs beside a fleet.
pub const OF_FLEET: &str = "url";
/// The further places of the command that sends a load: each of them must be in it.
pub const OF_LOAD: [&str; 3] = [OF_FLEET, "ledger", "began_ms"];
/// The further places of a version's command.
pub const OF_NODE: [&str; 6] = ["port", "address", "node", "node_dir", "disable_file", "source"];

/// Program and arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Its field in the gate file, such as `database.init[0]`; of a companion below that.
    field: String,
    words: Vec<Template>,
}

impl Command {
    /// Whether both run the same, wherever they stand in the file.
    pub fn has_words_of(&self, other: &Self) -> bool {
        self.words == other.words
    }

    /// Its words, with each variable as `value` has it.
    ///
    /// # Errors
    /// The first name that has no value.
    pub fn words(&self, value: &dyn Fn(&str) -> Option<Value>) -> Result<Vec<String>, String> {
        self.words.iter().map(|word| word.fill(value)).collect()
    }

    /// Its field in the gate file.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The program, where every place in its name has a `value`.
    pub fn program(&self, value: &dyn Fn(&str) -> Option<Value>) -> Option<String> {
        self.words.first()?.fill(value).ok()
    }

    /// Whether it has one of these places.
    pub fn reads(&self, places: &[&str]) -> bool {
        self.words.iter().flat_map(Template::variables).any(|place| places.contains(&place))
    }

    /// As a line of a shell script.
    pub fn shell(&self) -> String {
        self.words.iter().map(Template::shell_word).collect::<Vec<_>>().join(" ")
    }
}

/// Several.
pub fn commands(
    field: &str,
    written: &[Vec<String>],
    places: &[&str],
    findings: &mut Findings,
) -> Vec<Command> {
    let one = |(n, words): (usize, &Vec<String>)| command(&format!("{field}[{n}]"), words, places, findings);
    written.iter().enumerate().filter_map(one).collect()
}

/// One; `places` is what it may read.
pub fn command(field: &str, words: &[String], places: &[&str], findings: &mut Findings) -> Option<Command> {
    if words.is_empty() {
        findings.add(field, "is empty; a program with its arguments is allowed");
        return None;
    }
    let parsed: Result<Vec<_>, String> = words.iter().map(|word| Template::parse(word)).collect();
    let parsed = findings.good(field, parsed)?;
    known(field, parsed.iter().flat_map(Template::variables), places, findings);
    Some(Command { field: field.to_owned(), words: parsed })
}
