//! How `grenade` reaches a coordinator, and as whom: the options and variables of `tidegate`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tidegate_coordinator::grpc::client::{Connection, Trust, Unreachable, connect_within};
use tidegate_coordinator::guard::Token;
use tidegate_proto::{Chain, Digest, Span};
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::gate::exit::{BAD_INPUT, NOT_RUN, say};

/// How long a coordinator may be away while a verdict is recorded: a leader that dies is replaced within seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Options of every verb that asks a coordinator.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Coordinator")]
pub struct Reach {
    /// URL of any coordinator: a follower forwards to the leader
    #[arg(
        long,
        visible_alias = "url",
        env = "TIDEGATE_COORDINATOR",
        value_name = "URL",
        default_value = "http://127.0.0.1:7400"
    )]
    coordinator: String,
    /// File that holds the API token
    #[arg(long, env = "TIDEGATE_TOKEN_FILE", value_name = "PATH")]
    token_file: Option<PathBuf>,
    /// Certificate authority (PEM) that signed the coordinator's certificate
    #[arg(long, env = "TIDEGATE_CA", value_name = "PATH")]
    ca: Option<PathBuf>,
    /// Client certificate (PEM), for a coordinator that authenticates callers by certificate
    #[arg(long, env = "TIDEGATE_CERT", value_name = "PATH", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the client certificate (PEM)
    #[arg(long, env = "TIDEGATE_KEY", value_name = "PATH", requires = "cert")]
    key: Option<PathBuf>,
    /// Time limit for the first byte of an answer
    #[arg(long, env = "TIDEGATE_CALL_TIMEOUT", value_name = "TIME", default_value = "60s", value_parser = super::exit::span)]
    call_timeout: Duration,
    /// Name to record in the audit log beside the token's name. Default: the user's name
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

/// Why a verb did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Unasked {
    /// What was typed is wrong.
    #[error("{0}")]
    Usage(String),
    /// The coordinator cannot be asked, or refuses.
    #[error("{0}")]
    Away(String),
}

impl Unasked {
    /// Prints it; returns the code to exit with.
    pub fn exit(&self) -> ExitCode {
        self.to_string().lines().for_each(say);
        ExitCode::from(match self {
            Self::Usage(_) => BAD_INPUT,
            Self::Away(_) => NOT_RUN,
        })
    }
}

impl From<Unreachable> for Unasked {
    fn from(error: Unreachable) -> Self {
        let message = Chain(&error).to_string();
        match error {
            Unreachable::Connect { .. } => Self::Away(message),
            Unreachable::Url(_) | Unreachable::NothingTrusted(_) | Unreachable::Unreadable { .. } => {
                Self::Usage(message)
            }
        }
    }
}

impl Reach {
    /// The coordinator's URL.
    pub fn url(&self) -> &str {
        &self.coordinator
    }

    /// For whom it is asked; who asks is what the token says.
    pub fn who(&self) -> String {
        self.name.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_default()
    }

    /// A connection.
    ///
    /// # Errors
    /// When an option is wrong, or no coordinator answers.
    pub async fn connect(&self) -> Result<Connection, Unasked> {
        let token = self.token_file.as_deref().map(Token::read).transpose();
        let token = token.map_err(|error| Unasked::Usage(Chain(&error).to_string()))?;
        let identity = self.cert.clone().zip(self.key.clone());
        let trust = Trust { ca: self.ca.clone(), identity };
        Ok(connect_within(&self.coordinator, token, &trust, self.call_timeout).await?)
    }

    /// What a coordinator's refusal means here.
    pub fn refused(&self, status: &Status) -> Unasked {
        Unasked::Away(format!("the coordinator at {} answered: {}", self.coordinator, status.message()))
    }

    /// Asks until there is an answer, for as long as a change of the leader may take. What is recorded twice is the same.
    ///
    /// # Errors
    /// The last failure.
    pub async fn insist<T>(&self, ask: impl AsyncFn(Connection) -> Result<T, Status>) -> Result<T, Unasked> {
        let end = Instant::now() + PATIENCE;
        let mut waits = false;
        loop {
            let failed = match self.connect().await {
                Err(error @ Unasked::Usage(_)) => return Err(error),
                Err(away) => away,
                Ok(connection) => match ask(connection).await {
                    Ok(answer) => return Ok(answer),
                    Err(status) if !is_passing(&status) => return Err(self.refused(&status)),
                    Err(status) => self.refused(&status),
                },
            };
            if Instant::now() + PAUSE > end {
                return Err(failed);
            }
            if !waits {
                waits = true;
                say(format_args!("{failed}; asking again for {PATIENCE:?}"));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Whether asking again may help.
fn is_passing(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded | Code::Internal
    )
}

/// The sha256 of a file, read piece by piece.
///
/// # Errors
/// When it cannot be read.
pub fn digest_of(path: &Path) -> std::io::Result<Digest> {
    let mut hasher = Sha256::new();
    std::io::copy(&mut std::fs::File::open(path)?, &mut hasher)?;
    Ok(Digest::from_bytes(hasher.finalize().into()))
}

/// What is kept in the history: one line of at most 500 bytes, without control characters.
pub fn note(text: &str) -> String {
    const MOST: usize = 500;
    let plain: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let end = (0..=MOST.min(plain.len())).rev().find(|end| plain.is_char_boundary(*end)).unwrap_or(0);
    plain[..end].to_owned()
}

/// A span as people read it: seconds with one digit.
pub fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

/// A limit as it was typed.
pub fn limit(most: Duration) -> Span {
    Span::from_millis(u64::try_from(most.as_millis()).unwrap_or(u64::MAX))
}
