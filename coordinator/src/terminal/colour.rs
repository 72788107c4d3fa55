//! Whether text is coloured: one answer for stdout and one for stderr, from `--color`, the environment and the terminal.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum When {
    /// On a terminal. `NO_COLOR` turns it off, `CLICOLOR_FORCE` turns it on in a pipe.
    Auto,
    /// Also in a pipe.
    Always,
    /// Nowhere.
    Never,
}

static STDOUT: AtomicBool = AtomicBool::new(false);
static STDERR: AtomicBool = AtomicBool::new(false);

/// Decides for this process.
pub fn decide(when: When, json: bool) {
    let env = |name: &str| std::env::var_os(name);
    STDOUT.store(wanted(when, json, std::io::stdout().is_terminal(), env), Ordering::Relaxed);
    STDERR.store(wanted(when, json, std::io::stderr().is_terminal(), env), Ordering::Relaxed);
}

/// Whether stdout is coloured.
pub fn stdout() -> bool {
    STDOUT.load(Ordering::Relaxed)
}

/// Whether stderr is coloured.
pub fn stderr() -> bool {
    STDERR.load(Ordering::Relaxed)
}

fn wanted(when: When, json: bool, terminal: bool, env: impl Fn(&str) -> Option<OsString>) -> bool {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    match when {
        _ if json => false,
        When::Always => true,
        When::Never => false,
        When::Auto if set("NO_COLOR").is_some() => false,
        When::Auto if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
        When::Auto => terminal && set("TERM").is_some_and(|term| term != "dumb"),
    }
}

/// What `--color` and `--json` say in words that were not yet parsed: an error in the command line has the colour that the
/// command line asks for.
pub fn typed(words: &[String]) -> clap::ColorChoice {
    let words: Vec<&str> = words.iter().map(String::as_str).take_while(|word| *word != "--").collect();
    let value = |at: usize, word: &str| match word.strip_prefix("--color") {
        Some("") => words.get(at + 1).map(|value| (*value).to_owned()),
        Some(value) => value.strip_prefix('=').map(ToOwned::to_owned),
        None => None,
    };
    if words.contains(&"--json") {
        return clap::ColorChoice::Never;
    }
    match words.iter().enumerate().filter_map(|(at, word)| value(at, word)).next_back().as_deref() {
        Some("always") => clap::ColorChoice::Always,
        Some("never") => clap::ColorChoice::Never,
        _ => clap::ColorChoice::Auto,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_is_above_the_environment_and_json_is_above_both() {
        let with = |vars: &'static [(&str, &str)]| {
            move |name: &str| {
                vars.iter().find(|(var, _)| *var == name).map(|(_, value)| OsString::from(value))
            }
        };
        let xterm: &[(&str, &str)] = &[("TERM", "xterm")];
        let dumb: &[(&str, &str)] = &[("TERM", "dumb")];
        let off: &[(&str, &str)] = &[("TERM", "xterm"), ("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")];
        let forced: &[(&str, &str)] = &[("TERM", "xterm"), ("CLICOLOR_FORCE", "1"), ("NO_COLOR", "")];
        let not_forced: &[(&str, &str)] = &[("TERM", "xterm"), ("CLICOLOR_FORCE", "0")];
        for (when, json, terminal, vars, expected) in [
            (When::Auto, false, true, xterm, true),
            (When::Auto, false, false, xterm, false),
            (When::Auto, false, true, dumb, false),
            (When::Auto, false, true, off, false),
            (When::Auto, false, false, forced, true),
            (When::Auto, false, false, not_forced, false),
            (When::Always, false, false, off, true),
            (When::Never, false, true, forced, false),
            (When::Always, true, true, forced, false),
        ] {
            assert_eq!(
                wanted(when, json, terminal, with(vars)),
                expected,
                "{when:?} {json} {terminal} {vars:?}"
            );
        }
    }

    #[test]
    fn colour_is_read_from_words_that_were_not_parsed() {
        let of = |text: &str| typed(&text.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>());
        assert_eq!(of("upgrade list --color always"), clap::ColorChoice::Always);
        assert_eq!(of("--color=always upgrade --color never"), clap::ColorChoice::Never);
        assert_eq!(of("upgrade list --colour always"), clap::ColorChoice::Auto);
        assert_eq!(of("--color=always --json"), clap::ColorChoice::Never);
        assert_eq!(of("upgrade list -- --color always"), clap::ColorChoice::Auto);
    }
}
