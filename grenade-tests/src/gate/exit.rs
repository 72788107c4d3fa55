//! How a verb of `grenade` ends: what it prints, and its exit code.

use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

use tidegate_proto::printable::to_stderr;

/// The result is not known.
pub const INCONCLUSIVE: u8 = 2;
/// The gate file or the command line is wrong.
pub const BAD_INPUT: u8 = 3;
/// It could not be run to a verdict.
pub const NOT_RUN: u8 = 4;
/// What a shell gives to a program that Ctrl-C has ended.
pub const INTERRUPTED: u8 = 130;

/// What an inconclusive verdict counts as, where that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OnInconclusive {
    /// Exit with 1.
    Fail,
    /// Exit with 0.
    Pass,
}

/// A length of time as it is typed.
///
/// # Errors
/// What is allowed.
pub fn span(text: &str) -> Result<Duration, String> {
    let span: tidegate_proto::Span = text.parse().map_err(|e| format!("{e}"))?;
    match span.as_millis() {
        0 => Err("nothing can be done in no time".to_owned()),
        ms => Ok(Duration::from_millis(ms)),
    }
}

/// Writes a line about what is no data to standard error. Where that is closed or full, the line is lost.
pub fn say(text: impl Display) {
    to_stderr(format_args!("grenade: {text}"));
}

/// Writes to standard output. A reader that closed its end is no error.
pub fn print(text: &str) -> ExitCode {
    use std::io::{ErrorKind, Write};
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("could not write to standard output: {error}"));
            ExitCode::from(NOT_RUN)
        }
    }
}
