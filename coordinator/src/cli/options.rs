//! How a coordinator is reached, and as whom: the options that every command has.

use super::exit::Failure;
use crate::grpc::client::{self, Client, Connection, Metadata, Releases, Trust};
use crate::guard::Token;
use crate::telemetry::Chain;
use crate::terminal::colour::When;
use std::path::PathBuf;
use std::time::Duration;
use tidegate_proto::Span;

/// Options of every command that asks a coordinator.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct GlobalOptions {
    /// URL of any coordinator: a follower forwards to the leader.
    #[arg(
        long,
        global = true,
        env = "TIDEGATE_COORDINATOR",
        value_name = "URL",
        default_value = "http://127.0.0.1:7400"
    )]
    pub coordinator: String,
    /// File that holds the API token. For `tidegate coordinator`: its own token, which has the role operate.
    #[arg(long, global = true, env = "TIDEGATE_TOKEN_FILE", value_name = "PATH")]
    pub token_file: Option<PathBuf>,
    /// Certificate authority (PEM) that signed the coordinator's certificate.
    #[arg(long, global = true, env = "TIDEGATE_CA", value_name = "PATH")]
    pub ca: Option<PathBuf>,
    /// Client certificate (PEM), for a coordinator that authenticates callers by certificate.
    #[arg(long, global = true, env = "TIDEGATE_CERT", value_name = "PATH", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Private key of the client certificate (PEM).
    #[arg(long, global = true, env = "TIDEGATE_KEY", value_name = "PATH", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Time limit for the first byte of an answer: 100ms to 1h. After that the exit code is 4.
    #[arg(long, global = true, env = "TIDEGATE_CALL_TIMEOUT", value_name = "SPAN", default_value = "60s", value_parser = call_timeout)]
    pub call_timeout: Duration,
    /// Print JSON (form v1): one object, or one object per line. Errors are JSON on stderr.
    #[arg(long, global = true)]
    pub json: bool,
    /// When to colour the output. `auto`: on a terminal, unless NO_COLOR is set; with CLICOLOR_FORCE also in a pipe. Never
    /// with --json.
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: When,
    /// Name to record in the audit log beside the token's name. Default: the user's name.
    #[arg(long = "as", global = true, value_name = "NAME")]
    pub name: Option<String>,
}

fn call_timeout(text: &str) -> Result<Duration, String> {
    let span: Span = text.parse().map_err(|e| format!("{e}"))?;
    if (100..=3_600_000).contains(&span.as_millis()) {
        Ok(span.into())
    } else {
        Err(format!("{span} is out of range: 100ms to 1h is allowed"))
    }
}

impl GlobalOptions {
    /// Connects to the operators' service.
    pub(super) async fn client(&self) -> Result<Client, Failure> {
        Ok(self.connect().await?.operator())
    }

    /// Connects to the service about compute releases.
    pub(super) async fn releases(&self) -> Result<Releases, Failure> {
        Ok(self.connect().await?.releases())
    }

    /// Connects to the service about metadata groups.
    pub(super) async fn metadata(&self) -> Result<Metadata, Failure> {
        Ok(self.connect().await?.metadata())
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let token = self.token_file.as_deref().map(Token::read).transpose();
        let token = token.map_err(|error| Failure::usage(Chain(&error).to_string()))?;
        let identity = self.cert.clone().zip(self.key.clone());
        let trust = Trust { ca: self.ca.clone(), identity };
        Ok(client::connect_within(&self.coordinator, token, &trust, self.call_timeout).await?)
    }

    /// For whom it is asked, where that is known; who asks is what the token says.
    pub(super) fn who(&self) -> String {
        let named = self.name.clone().or_else(|| std::env::var("USER").ok());
        named.unwrap_or_default()
    }
}
