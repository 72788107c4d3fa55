//! The command line. Only translates: asks a coordinator, shows what it answers. Data goes to stdout, everything else
//! to stderr; exit codes are documented in `--help` and nowhere else decided than in `exit`.

mod certificate;
mod completion;
mod coordinator;
mod document;
mod exit;
mod fleet;
mod man;
mod metadata;
mod options;
mod release;
mod schema;
mod show;
mod spec;
mod table;
mod task;
mod token;
mod upgrade;

use crate::terminal::colour;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use exit::{Failure, Outcome};
use options::GlobalOptions;
use std::process::ExitCode;

/// Upgrades a fleet of stateful services in waves. No step runs before the versions that instances report allow it.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, propagate_version = true, max_term_width = 110, after_help = AFTER)]
pub struct Cli {
    #[command(flatten)]
    options: GlobalOptions,
    #[command(subcommand)]
    verb: Verb,
}

const AFTER: &str = "\
Examples:
  tidegate coordinator --store embedded:/var/lib/tidegate   run a coordinator, with its own store
  tidegate spec new > pantry.yaml                           a commented example spec
  tidegate upgrade start pantry.yaml --dry-run              preview: waves and findings
  tidegate upgrade start pantry.yaml --wait                 start it and watch it
  tidegate upgrade explain ID                               what it is waiting on
  tidegate fleet spread                                     instances at each version

Exit codes:
  0  done, or the answer is yes
  1  failed, or the answer is no (a watched upgrade did not complete, a certificate is not true)
  2  the command line, a spec, a name or a token is wrong; nothing was changed
  3  refused: a gate is closed, or the state or your role does not allow it; nothing was changed
  4  no coordinator could be reached or answered in time, none leads, or the outcome is not known
`upgrade start --dry-run` exits 3 when a finding blocks. `schema check` exits as glance-manage
does: 0 nothing is left to do, 3 expand is next, 4 migrate is next, 5 contract is next.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a coordinator, the daemon that plans and executes upgrades.
    Coordinator(Box<coordinator::Args>),
    /// Start, watch, explain, control and roll back upgrades.
    Upgrade(upgrade::Args),
    /// List instances and their versions; cordon, decommission, reconcile.
    Fleet(fleet::Args),
    /// Create, deploy, try out, pin and roll back compute releases.
    Release(Box<release::Args>),
    /// Update a document that instances share, in batches.
    Metadata(metadata::Args),
    /// Inspect a schema, or migrate it without a coordinator.
    Schema(schema::Args),
    /// Verify the certificate of a contract phase.
    Certificate(certificate::Args),
    /// List hook tasks on nodes; settle a task whose outcome is unknown.
    Task(task::Args),
    /// Create, list and revoke API tokens.
    Token(token::Args),
    /// Print an example spec.
    Spec(spec::Args),
    /// Print a shell completion script.
    Completion(completion::Args),
    /// Write a man page for each command.
    Man(man::Args),
}

impl Cli {
    /// Reads the command line. The usage line of an error leaves out what the environment sets: it was not typed, and
    /// need not be.
    pub fn read() -> Self {
        let words: Vec<String> =
            std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let command = with_short_help(Self::command()).color(colour::typed(&words));
        let read = command.try_get_matches().and_then(|matches| Self::from_arg_matches(&matches));
        read.unwrap_or_else(|mut error| {
            if error.get(ContextKind::Usage).is_some() {
                let usage = usage(words.iter().skip(1).cloned());
                error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
            }
            if error.use_stderr() && words.iter().any(|arg| arg == "--json") {
                show::note(exit::as_json(2, finding(&error.to_string())).to_string());
                std::process::exit(2);
            }
            error.exit()
        })
    }

    /// Does what was asked.
    pub fn run(self) -> ExitCode {
        let options = &self.options;
        colour::decide(options.color, options.json);
        let done = match self.verb {
            Verb::Coordinator(args) => return args.run(options),
            Verb::Upgrade(args) => asking(args.run(options)),
            Verb::Fleet(args) => asking(args.run(options)),
            Verb::Release(args) => asking(args.run(options)),
            Verb::Metadata(args) => asking(args.run(options)),
            Verb::Schema(args) => asking(args.run(options.who(), options.json)),
            Verb::Certificate(args) => args.run(options.json),
            Verb::Task(args) => asking(args.run(options)),
            Verb::Token(args) => asking(args.run(options)),
            Verb::Spec(args) => args.run(),
            Verb::Completion(args) => args.run(),
            Verb::Man(args) => args.run(),
        };
        exit::exit(done.map_err(|failure| failure.at(&options.coordinator)), options.json)
    }
}

/// The same with one form of help, the short one: a blank line between options makes a page of each command. What a
/// command says in further paragraphs follows its options.
fn with_short_help(command: Command) -> Command {
    fn paragraphs_last(command: Command) -> Command {
        let long = command.get_long_about().map(ToString::to_string).unwrap_or_default();
        let command = match long.split_once("\n\n") {
            Some((_, more)) => command.after_help(more.to_owned()),
            None => command,
        };
        command.mut_subcommands(paragraphs_last)
    }
    let help = Arg::new("help").short('h').long("help").help("Print help").action(ArgAction::HelpShort);
    let help = help.help_heading(None::<&str>).global(true);
    paragraphs_last(command).disable_help_flag(true).arg(help)
}

/// What an error about a command line says, without the usage that follows it for people.
fn finding(error: &str) -> &str {
    let error = error.strip_prefix("error: ").unwrap_or(error);
    error.split("\n\nUsage:").next().unwrap_or(error).trim_end()
}

/// The usage line of the verb that these words name.
fn usage(words: impl Iterator<Item = String>) -> StyledStr {
    let mut command = Cli::command();
    command.build();
    let mut verb = &mut command;
    for word in words.filter(|word| !word.starts_with('-')) {
        if verb.find_subcommand(&word).is_some() {
            verb = verb.find_subcommand_mut(&word).expect("it was found");
        }
    }
    verb.render_usage()
}

/// Runs a command that asks a coordinator.
fn asking(command: impl Future<Output = Result<Outcome, Failure>>) -> Result<Outcome, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| Failure::failed(format!("could not start: {e}")))?.block_on(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_is_short_and_further_paragraphs_follow_the_options() {
        for (words, part) in [
            ("fleet window", "Refused while an upgrade of the service"),
            ("upgrade watch", "On a terminal it draws a frame"),
            ("metadata set", "[possible values: rolling, canary,"),
        ] {
            for flag in ["-h", "--help"] {
                let words = ["tidegate"].into_iter().chain(words.split(' ')).chain([flag]);
                let shown =
                    with_short_help(Cli::command()).try_get_matches_from(words).unwrap_err().to_string();
                assert!(shown.contains(part), "{shown}");
                let lines = shown.lines().count();
                assert!(lines < 50, "{lines} lines:\n{shown}");
            }
        }
    }

    #[test]
    fn json_error_has_the_finding_without_prefix_and_usage() {
        let error =
            Cli::command().try_get_matches_from(["tidegate", "upgrade", "pause"]).unwrap_err().to_string();
        let found = finding(&error);
        assert!(found.starts_with("the following required arguments were not provided"), "{found}");
        assert!(!found.contains("Usage"), "{found}");
    }

    #[test]
    fn global_options_are_last_and_every_value_is_explained() {
        let mut command = Cli::command();
        command.build();
        let (mut commands, mut leaves, mut terse) = (vec![&command], 0, Vec::new());
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands().filter(|verb| verb.get_name() != "help"));
            if command.has_subcommands() {
                continue;
            }
            leaves += 1;
            let name = command.get_bin_name().unwrap_or_default();
            for arg in command.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                if arg.is_positional() && help.split(' ').count() < 4 {
                    terse.push(format!("{name} {}: {help:?}", arg.get_id()));
                }
                assert!(!help.is_empty(), "{name} {}", arg.get_id());
            }
            let headings = command.get_arguments().filter_map(clap::Arg::get_help_heading);
            assert_eq!(headings.last(), Some("Global options"), "{name}");
        }
        assert!(leaves > 40, "{leaves}");
        assert!(terse.is_empty(), "{terse:#?}");
    }
}
