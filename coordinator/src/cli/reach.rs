//! How a coordinator is reached, and as whom: the options that every command has.

use super::exit::Failure;
use crate::grpc::Token;
use crate::grpc::client::{self, Client};
use crate::telemetry::Chain;
use std::path::PathBuf;

/// Options of every command that asks a coordinator.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Reach {
    /// URL of any coordinator: a follower forwards to the leader.
    #[arg(
        long,
        global = true,
        env = "TIDEGATE_COORDINATOR",
        value_name = "URL",
        default_value = "http://127.0.0.1:7400"
    )]
    pub coordinator: String,
    /// File with the token that every call must bear; of `tidegate coordinator`: that it demands.
    #[arg(long, global = true, env = "TIDEGATE_TOKEN_FILE", value_name = "PATH")]
    pub token_file: Option<PathBuf>,
    /// Certificate authority (PEM) that signed the coordinator's certificate.
    #[arg(long, global = true, env = "TIDEGATE_CA", value_name = "PATH")]
    pub ca: Option<PathBuf>,
    /// JSON instead of text: one object, or one a line where there are many.
    #[arg(long, global = true)]
    pub json: bool,
    /// Who asks, for the history. Default: the user's name.
    #[arg(long = "as", global = true, value_name = "NAME")]
    pub name: Option<String>,
}

impl Reach {
    /// Connects.
    pub async fn client(&self) -> Result<Client, Failure> {
        let token = self.token_file.as_deref().map(Token::read).transpose();
        let token = token.map_err(|error| Failure::usage(Chain(&error).to_string()))?;
        Ok(client::connect(&self.coordinator, token, self.ca.as_deref()).await?)
    }

    /// Who asks.
    pub fn who(&self) -> String {
        let named = self.name.clone().or_else(|| std::env::var("USER").ok());
        named.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
    }
}
