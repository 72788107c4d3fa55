//! The configuration of a node, one TOML file: read as it is written (`written`, `fragment`), validated, and turned into
//! `settings`.
//! Only this module reads configuration files and the environment.

pub mod address;
pub mod example;
mod findings;
pub mod fragment;
pub mod settings;
pub mod task_hook;
mod written;

use std::path::{Path, PathBuf};
use tidegate_proto::Chain;
use tidegate_proto::form::Finding;

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
    /// Not TOML, not of the form of a configuration, or of that form and senseless.
    #[error("{}", lines(path, findings).collect::<Vec<_>>().join("\n"))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Everything that was found.
        findings: Vec<Finding>,
    },
}

impl NotAConfig {
    /// What is wrong with the file, with causes: one line for each finding, `file:line:column: …`.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::Unreadable { .. } => vec![Chain(self).to_string()],
            Self::Wrong { path, findings } => lines(path, findings).collect(),
        }
    }
}

fn lines(path: &Path, findings: &[Finding]) -> impl Iterator<Item = String> {
    findings.iter().map(|finding| finding.in_file(path.display()))
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
    written::read(text).map_err(|findings| NotAConfig::Wrong { path: path.to_owned(), findings })
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
        let named = |found: &str| found.starts_with(&format!("agent.toml:{line}:1: "));
        assert!(refused.lines().any(named), "{refused}");
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
    fn every_fault_is_listed_with_its_place() {
        let text = example::text("node-1")
            .replace("lease_ttl = \"10s\"", "lease_ttl = \"1s\"")
            .replace("prefix = \"/tidegate\"", "prefxi = \"/tidegate\"")
            .replace("debounce = 2", "debounce = \"two\"")
            .replace("disable_file = \"/var", "disable_file = \"var")
            .replace("source = ", "# source = ")
            .replace("initial_release = \"pantry-1.0.0\"", "initial_release = \"pantry-2.0.0\"");
        let place = |begin: &str, value: bool| {
            let (line, text) = text.lines().enumerate().find(|(_, line)| line.starts_with(begin)).unwrap();
            let column = if value { text.find("= ").unwrap() + 3 } else { 1 };
            format!("agent.toml:{}:{column}: ", line + 1)
        };
        let refused = parse(&text, Path::new("agent.toml")).unwrap_err().lines();
        let expected = [
            (place("lease_ttl", true), "lease_ttl is 1s: at least 2s"),
            (place("prefxi", false), "store.prefxi: unknown field `prefxi`"),
            (place("disable_file", true), "service.pantry-api.disable_file: \"var"),
            (place("debounce", true), "service.pantry-api.debounce: invalid type: string \"two\""),
            (place("[service.pantry-api.artifact", false), "1.0.0.source: missing field `source`"),
        ];
        assert_eq!(refused.len(), expected.len(), "{refused:#?}");
        for (found, (place, what)) in refused.iter().zip(&expected) {
            assert!(found.starts_with(place) && found.contains(what), "{place}{what}: {found}");
        }
        // What several fields say together is checked once each of them is well formed.
        let text =
            example::text("node-1").replace("initial_release = \"pantry-1", "initial_release = \"pantry-2");
        let refused = refusal(&text);
        assert!(refused.contains("initial_release pantry-2.0.0 has no artifact"), "{refused}");
    }

    #[test]
    fn name_that_is_none_is_listed_beside_other_faults() {
        let head = example::text("node-1");
        let text = format!("{head}\n[hook.\"a b\"]\nargv = [\"x\"]\n\n[hook.pull]\nargv = 5\n");
        let refused = parse(&text, Path::new("agent.toml")).unwrap_err().lines();
        let line = head.lines().count() + 2;
        let expected = format!("agent.toml:{line}:1: hook.a b: hook \"a b\" is not a name");
        assert!(refused[0].starts_with(&expected), "{refused:#?}");
        assert!(
            refused[1].starts_with(&format!("agent.toml:{}:8: hook.pull.argv: ", line + 4)),
            "{refused:#?}"
        );
        assert_eq!(refused.len(), 2, "{refused:#?}");
    }

    #[test]
    fn example_of_required_fields_is_a_configuration() {
        let required = example::of_required();
        let written: fragment::Node =
            serde_json::from_str(&required.to_string().replace("\"*\"", "\"name\"")).unwrap();
        assert!(settings::settle(written).is_err_and(|found| {
            found.about_written(&[]).iter().all(|flaw| flaw.path == ["store", "tls", "ca"])
        }));
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
