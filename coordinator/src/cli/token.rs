//! `tidegate token …`: API tokens.

use super::exit::{Failure, Outcome};
use super::fleet::print_done;
use super::options::GlobalOptions;
use super::show;
use clap::Subcommand;
use tidegate_proto::record::token::{CommonName, Role};
use tidegate_proto::wire::v1::{CreateTokenRequest, ListTokensRequest, RevokeTokenRequest, Token};
use tidegate_proto::{PrincipalName, Span, TokenId};

const AFTER: &str = "\
Roles, each with what the ones before it may do:
  read      look at everything
  release   create and roll back compute releases, and what belongs to them
  operate   everything: upgrades, the fleet, tokens

Examples:
  tidegate token create --name ci --role release --expires 90d > ci.token
  tidegate token create --name board --role read --certificate board.example.org
  tidegate token list
  tidegate token revoke 1f0c9a3b77e2 --why \"the runner was replaced\"

A token is shown once, when it is made; the store keeps its sha256. A principal may have several, so that one can be
replaced without a gap. Without a token, a caller on the coordinator's own machine has the role read.";

/// Verbs on tokens.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create an API token. Prints the token once, to stdout; everything else goes to stderr.
    Create {
        /// Principal: the name in the audit log.
        #[arg(id = "principal", long = "name", value_name = "NAME")]
        name: PrincipalName,
        /// Role: read, release or operate.
        #[arg(long)]
        role: Role,
        /// Lifetime, for example 90d. Default: until it is revoked.
        #[arg(long, value_name = "SPAN")]
        expires: Option<Span>,
        /// Create no token: admit the client certificate with this common name, signed by --tls-client-ca.
        #[arg(long, value_name = "COMMON_NAME")]
        certificate: Option<CommonName>,
        /// Note for the audit log.
        #[arg(long, default_value = "", hide_default_value = true)]
        why: String,
    },
    /// List tokens. Digests are shortened.
    List {
        /// Include revoked and expired tokens.
        #[arg(long)]
        all: bool,
    },
    /// Revoke a token.
    Revoke {
        /// Token ID, as `tidegate token list` shows it.
        id: TokenId,
        /// Reason for the audit log.
        #[arg(long)]
        why: String,
    },
}

impl Args {
    /// Asks and shows.
    pub(super) async fn run(self, options: &GlobalOptions) -> Result<Outcome, Failure> {
        let who = options.who();
        match self.verb {
            Verb::Create { name, role, expires, certificate, why } => {
                let text = |value: Option<String>| value.unwrap_or_default();
                let asked = CreateTokenRequest {
                    name: name.to_string(),
                    role: role.to_string(),
                    certificate: text(certificate.map(|name| name.to_string())),
                    expires: text(expires.map(|span| span.to_string())),
                    why,
                    who,
                };
                create(options, asked).await
            }
            Verb::List { all } => list(options, all).await,
            Verb::Revoke { id, why } => {
                let asked = RevokeTokenRequest { id: id.to_string(), why, who };
                print_done(options, &options.client().await?.revoke_token(asked).await?.into_inner())
            }
        }
    }
}

async fn create(options: &GlobalOptions, asked: CreateTokenRequest) -> Result<Outcome, Failure> {
    let mut client = options.client().await?;
    let made = client.create_token(asked.clone()).await?.into_inner();
    if options.json {
        return show::json(&made).map(|()| Outcome::Good).map_err(Failure::without_answer);
    }
    let until = made.expires.map_or("it is revoked".to_owned(), show::time);
    let CreateTokenRequest { name, role, certificate, .. } = asked;
    if made.token.is_empty() {
        let how = format!("by the certificate of {certificate} (token {})", made.id);
        show::note(format!("{name} may {role}, until {until}, {how}"));
    } else {
        // First of all the token, which cannot be shown again; where that fails, the ID is what it is revoked by.
        let shown = show::raw(&made.token);
        let how = format!("(token {}); the token is shown once and kept nowhere", made.id);
        show::note(format!("{name} may {role}, until {until} {how}"));
        shown.map_err(Failure::without_answer)?;
    }
    Ok(Outcome::Good)
}

async fn list(options: &GlobalOptions, all: bool) -> Result<Outcome, Failure> {
    let mut stream = options.client().await?.list_tokens(ListTokensRequest { all }).await?.into_inner();
    let mut rows = Vec::new();
    while let Some(token) = stream.message().await? {
        if options.json {
            show::json(&token)?;
        } else {
            rows.push(row(&token));
        }
    }
    if !options.json {
        show::table(&["TOKEN", "NAME", "ROLE", "KNOWN BY", "MADE", "BY", "EXPIRES"], rows)?;
    }
    Ok(Outcome::Good)
}

fn row(token: &Token) -> Vec<String> {
    let known_by = match (&token.certificate, &token.digest) {
        (Some(subject), _) => format!("certificate {subject}"),
        (None, Some(digest)) => format!("sha256 {digest}…"),
        (None, None) => "-".to_owned(),
    };
    let expires = match (&token.revoked, token.expires) {
        (Some(revoked), _) => format!("revoked by {}: {}", revoked.by, revoked.why),
        (None, Some(at)) if token.expired => format!("expired {}", show::time(at)),
        (None, at) => show::or_dash(at.map(show::time)),
    };
    let (id, name, role) = (token.id.clone(), token.name.clone(), token.role.clone());
    vec![id, name, role, known_by, show::time(token.at), token.by.clone(), expires]
}
