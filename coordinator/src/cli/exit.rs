//! What a command's end means to a script.

use super::show;
use crate::grpc::client::Unreachable;
use crate::operation::OperationError;
use crate::telemetry::Chain;
use std::error::Error as _;
use std::io;
use std::process::ExitCode;
use tonic::{Code, Status};

/// How a command ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Done, or yes.
    Good,
    /// No.
    Negative,
    /// A gate is closed.
    Refused,
    /// The code that a verb documents for itself.
    Says(u8),
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(super) struct Failure {
    code: u8,
    pub(super) message: String,
}

impl Failure {
    /// It was tried and did not succeed.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }

    /// What was typed is wrong.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into() }
    }

    /// It is not allowed as things stand.
    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self { code: 3, message: message.into() }
    }

    /// What is needed does not answer.
    pub(super) fn away(message: impl Into<String>) -> Self {
        Self { code: 4, message: message.into() }
    }

    /// Names the coordinator that was asked, where the failure is that it does not answer and its text names none.
    pub(super) fn at(mut self, coordinator: &str) -> Self {
        if self.is_away() && !self.message.contains("://") {
            self.message.push_str(&format!(" (coordinator {coordinator})"));
        }
        self
    }

    /// The same of a command whose exit code 0 is an answer: one whose reader closed the pipe has given none.
    pub(super) fn without_answer(self) -> Self {
        Self { code: self.code.max(1), ..self }
    }

    /// Whether asking again may help: the coordinator is away, or none leads.
    pub(super) fn is_away(&self) -> bool {
        self.code == 4
    }
}

impl From<Unreachable> for Failure {
    fn from(error: Unreachable) -> Self {
        let code = match error {
            Unreachable::Connect { .. } => 4,
            Unreachable::Url(_) | Unreachable::NothingTrusted(_) | Unreachable::Unreadable { .. } => 2,
        };
        Self { code, message: Chain(&error).to_string() }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        // Only a failure of the connection has a cause here: the request may have arrived before it, whatever code the error
        // of HTTP/2 became.
        let is_broken = status.source().is_some();
        let code = match status.code() {
            _ if is_broken => 4,
            Code::InvalidArgument | Code::ResourceExhausted | Code::NotFound | Code::Unauthenticated => 2,
            Code::FailedPrecondition | Code::PermissionDenied => 3,
            // A connection that breaks during a call is reported as any of these. A coordinator itself says only the first two: it
            // cannot do it now, or the outcome is not known.
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded | Code::Internal => {
                4
            }
            _ => 1,
        };
        // What came over the wire says all; what the connection itself failed with has causes.
        let causes = status.source().map(|source| Chain(source).to_string());
        let causes = causes.filter(|causes| !status.message().contains(causes.as_str()));
        let message = status.message().to_owned();
        let message = causes.map_or(message.clone(), |causes| format!("{message}: {causes}"));
        let message = match status.code() {
            // Only the client's own time limit says so.
            Code::Cancelled | Code::DeadlineExceeded => format!(
                "the coordinator did not answer in time (--call-timeout; {message}): whether it was carried out is not known; look before you ask again"
            ),
            _ if is_broken => format!(
                "the connection to the coordinator broke ({message}): whether it was carried out is not known; look before you ask again"
            ),
            _ => message,
        };
        Self { code, message }
    }
}

impl From<OperationError> for Failure {
    fn from(error: OperationError) -> Self {
        Status::from(error).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        // The reader has closed the pipe: `tidegate … | head`.
        let code = if error.kind() == io::ErrorKind::BrokenPipe { 0 } else { 1 };
        Self { code, message: format!("could not write the output: {error}") }
    }
}

/// A failure as JSON: `{"form":"v1","error":{"kind":…,"exit_code":…,"message":…}}`.
pub(super) fn as_json(code: u8, message: &str) -> serde_json::Value {
    let kind = match code {
        2 => "invalid",
        3 => "refused",
        4 => "unavailable",
        _ => "failed",
    };
    serde_json::json!({ "form": "v1", "error": { "kind": kind, "exit_code": code, "message": message } })
}

/// Prints a failure to stderr, as text or as one line of JSON, and returns the exit code.
pub(super) fn exit(done: Result<Outcome, Failure>, json: bool) -> ExitCode {
    match done {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Negative) => ExitCode::from(1),
        Ok(Outcome::Refused) => ExitCode::from(3),
        Ok(Outcome::Says(code)) => ExitCode::from(code),
        Err(Failure { code: 0, .. }) => ExitCode::SUCCESS,
        Err(Failure { code, message }) if json => {
            show::note(as_json(code, &message).to_string());
            ExitCode::from(code)
        }
        Err(Failure { code, message }) => {
            message.lines().for_each(show::failure);
            ExitCode::from(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_as_json_names_kind_code_and_message() {
        let json = as_json(3, "contract has begun").to_string();
        assert_eq!(
            json,
            r#"{"form":"v1","error":{"kind":"refused","exit_code":3,"message":"contract has begun"}}"#
        );
    }

    #[test]
    fn broken_connection_is_an_unknown_outcome() {
        let broken = Failure::from(Status::from_error(Box::new(io::Error::other("reset"))));
        let said = "the connection to the coordinator broke (reset): whether it was carried out is not known";
        assert!(broken.is_away() && broken.message.starts_with(said), "{broken:?}");
        let own = Failure::from(Status::unavailable("no coordinator leads; nothing was changed"));
        assert_eq!(own.message, "no coordinator leads; nothing was changed");
    }

    #[test]
    fn broken_connection_is_unknown_whatever_its_http2_error() {
        // `ENHANCE_YOUR_CALM`, `INADEQUATE_SECURITY` and an error without a code of its own.
        for code in [Code::ResourceExhausted, Code::PermissionDenied, Code::Internal] {
            let mut status = Status::new(code, "h2 protocol error");
            status.set_source(std::sync::Arc::new(io::Error::other("too many pings")));
            let broken = Failure::from(status);
            assert!(broken.is_away() && broken.message.contains("is not known"), "{broken:?}");
            assert!(!Failure::from(Status::new(code, "a spec")).message.contains("is not known"), "{code:?}");
        }
        assert_eq!(Failure::from(Status::resource_exhausted("the spec is too long")).code, 2);
        assert_eq!(Failure::from(Status::permission_denied("the role is read")).code, 3);
    }

    #[test]
    fn coordinator_that_is_away_is_named_once() {
        let broken = Failure::from(Status::unavailable("transport error"));
        assert_eq!(broken.at("http://c1:7400").message, "transport error (coordinator http://c1:7400)");
        let named = "no coordinator answers at http://c1:7400";
        assert_eq!(Failure::away(named).at("http://c1:7400").message, named);
        assert_eq!(Failure::refused("paused").at("http://c1:7400").message, "paused");
    }
}
