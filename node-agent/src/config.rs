//! The configuration of a node, one TOML file: read as it is written (`fragment`), validated, and turned into `settings`.
//! Only this module reads configuration files and the environment.

pub mod address;
pub mod example;
pub mod fragment;
pub mod settings;
pub mod task_hook;

use std::path::{Path, PathBuf};

pub use settings::{Node, Service};

/// Why a configuration is not one. Every finding of one reading is listed.
#[derive(Debug, thiserror::Error)]
pub enum NotAConfig {
    /// The file could not be read.
    #[error("could not read the configuration {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Not TOML, an unknown field, or a value of the wrong kind: the text names line and column.
    #[error("{}:{found}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What was found, where, and what is allowed.
        found: String,
    },
    /// Each field is well formed, together they are not.
    #[error("{}", findings.iter().map(|found| format!("{}: {found}", path.display())).collect::<Vec<_>>().join("\n"))]
    Sense {
        /// The file.
        path: PathBuf,
        /// Everything that was found.
        findings: Vec<String>,
    },
}

/// The JSON Schema of the configuration.
pub fn schema() -> serde_json::Value {
    let description = "The configuration of the agent on one node, as a TOML file.";
    tidegate_proto::schema::of_file::<fragment::Node>("Tidegate agent", description)
}

/// Reads and checks the configuration at `path`. Nothing of the system is touched but the files it names as
/// holding a password.
pub fn load(path: &Path) -> Result<Node, NotAConfig> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| NotAConfig::Unreadable { path: path.to_owned(), source })?;
    parse(&text, path)
}

/// Checks the text of a configuration; `path` is for messages.
pub fn parse(text: &str, path: &Path) -> Result<Node, NotAConfig> {
    let written = written(text).map_err(|found| NotAConfig::Form { path: path.to_owned(), found })?;
    settings::settle(written).map_err(|findings| NotAConfig::Sense { path: path.to_owned(), findings })
}

/// The fields as they are written; else line and column, the field, and what is wrong with it.
fn written(text: &str) -> Result<fragment::Node, String> {
    let found = |field: &str, error: &toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let column = 1 + before.rsplit('\n').next().unwrap_or_default().chars().count();
        let line = 1 + before.matches('\n').count();
        format!("{line}:{column}: {field}{}", error.message().trim().replace('\n', "; "))
    };
    let reader = toml::Deserializer::parse(text).map_err(|error| found("", &error))?;
    serde_path_to_error::deserialize(reader).map_err(|error| {
        let field = match error.path().to_string() {
            path if path == "." => String::new(),
            path => format!("{path}: "),
        };
        found(&field, error.inner())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse(text, Path::new("agent.toml")).expect_err("it was taken").to_string()
    }

    #[test]
    fn the_example_is_a_configuration() {
        let node = parse(&example::text("node-1"), Path::new("agent.toml")).unwrap();
        assert_eq!(node.name.as_str(), "node-1");
        assert_eq!(node.services.len(), 1);
    }

    #[test]
    fn an_unknown_field_is_refused_with_its_line() {
        let text = example::text("node-1").replace("health_url", "helth_url");
        let refused = refusal(&text);
        assert!(refused.contains("agent.toml") && refused.contains("helth_url"), "{refused}");
        let line = 1 + text.lines().position(|line| line.starts_with("helth_url")).unwrap();
        assert!(refused.starts_with(&format!("agent.toml:{line}:1: ")), "{refused}");
    }

    #[test]
    fn value_of_a_wrong_kind_is_refused_with_its_field_and_place() {
        let text = example::text("node-1").replace("lease_ttl = \"10s\"", "lease_ttl = 10");
        let line = 1 + text.lines().position(|line| line.starts_with("lease_ttl")).unwrap();
        let refused = refusal(&text);
        assert!(refused.starts_with(&format!("agent.toml:{line}:13: lease_ttl: ")), "{refused}");
    }

    #[test]
    fn a_wrong_value_says_what_is_allowed() {
        for (from, to, part) in [
            ("node = \"node-1\"", "node = \"no/de\"", "is not a name"),
            ("lease_ttl = \"10s\"", "lease_ttl = \"1s\"", "at least 2s"),
            ("lease_ttl = \"10s\"", "lease_ttl = \"-1s\"", "is not a duration"),
            ("version = 1", "version = 0", "is not a service version"),
            ("state_dir = \"/", "state_dir = \"", "absolute"),
            ("http://127.0.0.1:8080/ready", "https://127.0.0.1/ready", "http://"),
            ("initial_release = \"pantry-1.0.0\"", "initial_release = \"other\"", "no artifact"),
            ("version = 1\n# sha256", "version = 1\nsha256 = \"absent\"\n# sha256", "needs a stage hook"),
        ] {
            let text = example::text("node-1");
            assert!(text.contains(from), "the example has no {from}");
            let refused = refusal(&text.replacen(from, to, 1));
            assert!(refused.contains(part), "{to}: {refused}");
        }
    }

    #[test]
    fn a_hook_for_tasks_that_makes_no_sense_is_named() {
        for (written, part) in [
            ("argv = []", "hook.pull: argv is empty"),
            ("argv = [\"x\"]\ntimeout = \"0s\"", "hook.pull: timeout is 0"),
            ("argv = [\"x\"]\ntimeout = \"25h\"", "1s to 24h is allowed"),
            ("argv = [\"x\"]\nenv = { TIDEGATE_TAG = \"y\" }", "env.TIDEGATE_TAG is for the agent to set"),
            ("argv = [\"x\"]\nenv = { \"A=B\" = \"y\" }", "is not the name of a variable"),
            ("argv = [\"x\"]\nretries = 3", "retries"),
        ] {
            let refused = refusal(&format!("{}\n[hook.pull]\n{written}\n", example::text("node-1")));
            assert!(refused.contains(part), "{written}: {refused}");
        }
        let refused = refusal(&format!("{}\n[hook.\"a b\"]\nargv = [\"x\"]\n", example::text("node-1")));
        assert!(refused.contains("is not a name"), "{refused}");
        let text = format!("{}\n[hook.pull]\nargv = [\"x\"]\n", example::text("node-1"));
        let node = parse(&text, Path::new("agent.toml")).unwrap();
        assert_eq!(node.hooks.values().next().unwrap().timeout.as_secs(), 600, "the default");
    }

    #[test]
    fn a_missing_hook_is_named() {
        let (head, rest) = example::text("node-1")
            .split_once("[service.pantry-api.driver.process]")
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        let rest = rest.split_once("[service.pantry-api.artifact").unwrap().1.to_owned();
        let hooks = "[service.pantry-api.driver.command]\nstart = [\"/bin/true\"]\n";
        let refused = refusal(&format!("{head}{hooks}[service.pantry-api.artifact{rest}"));
        assert!(refused.contains("stop"), "{refused}");
    }
}
