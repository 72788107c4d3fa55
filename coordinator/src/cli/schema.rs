//! `tidegate schema …`: one database, looked at or changed by hand, for those who run no coordinator on it. The
//! database's own lock and term hold against a coordinator that does.

mod adopt;
mod undo;

use super::exit::{Failure, Outcome};
use super::show::{self, Page};
use crate::act::schema::{BY_HAND, recorded};
use crate::telemetry::Chain;
use clap::Subcommand;
use futures::future::BoxFuture;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tidegate_migrations::{
    ContractProof, DatabaseUrl, Engine, Error, InvalidUrl, MigrationSet, Owner, Phase, PhaseProgress,
    PhaseState, SchemaIdentity, SessionKind, Sessions, Status, Term, UNRECORDED,
};
use tidegate_planner::certificate::{Sealed, joined, sessions_flaws};
use tidegate_proto::{ServiceVersion, UpgradeId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const AFTER: &str = "\
Exit codes: 0 done (check: nothing is left to do); check: 3 expand is next, 4 migrate is next, 5 contract is next;
1 failed, 2 bad input, 3 refused, 4 the database does not answer.

Under a coordinator none of this is needed: an upgrade with a schema does it by itself, under its gates.";

/// Verbs on a schema.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// Which database, which migrations.
#[derive(Debug, clap::Args)]
struct Which {
    /// The environment variable that holds the database's URL (postgres://… or sqlite:PATH).
    #[arg(long, value_name = "VARIABLE", default_value = "DATABASE_URL")]
    from_env: String,
    /// The directory of migrations.
    #[arg(long, value_name = "DIR")]
    migrations: PathBuf,
    /// Only migrations of versions above this one: what is at or below it is left as it is. Default: from the first.
    #[arg(long = "from", value_name = "VERSION")]
    from: Option<ServiceVersion>,
    /// Only migrations of versions up to this one. Default: up to the last.
    #[arg(long = "to", value_name = "VERSION")]
    to: Option<ServiceVersion>,
}

/// In whose name it is done.
#[derive(Debug, clap::Args)]
struct MadeBy {
    /// Do it in the name of this upgrade, by its ID: a rollback of it takes back what is made. For a database that lost
    /// what an active upgrade made. Default: by hand, which no rollback takes back.
    #[arg(long, value_name = "UPGRADE", value_parser = upgrade)]
    made_by: Option<UpgradeId>,
}

fn upgrade(text: &str) -> Result<UpgradeId, String> {
    match text {
        UNRECORDED => Err("no upgrade: `undo` calls an owner so that was not recorded".to_owned()),
        id => id.parse::<UpgradeId>().map_err(|error| error.to_string()),
    }
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the state of the schema and the next phase.
    #[command(after_help = AFTER)]
    Check {
        #[command(flatten)]
        which: Which,
    },
    /// Expand: add what the new version needs. The old version keeps working.
    Expand {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        owner: MadeBy,
    },
    /// Migrate: fill existing rows in batches. Continues where it stopped.
    Migrate {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        owner: MadeBy,
    },
    /// Contract: drop what only the old version needs, on a certificate. Cannot be undone.
    Contract {
        #[command(flatten)]
        which: Which,
        /// The certificate, as `tidegate upgrade certificate` printed it; of this schema and these migrations.
        #[arg(long, value_name = "FILE")]
        certificate: PathBuf,
    },
    /// Mark migrations as applied because their objects already exist. No undo removes them.
    #[command(after_help = adopt::AFTER)]
    Adopt {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        adopt: adopt::AdoptArgs,
    },
    /// Undo expand, for the migrations that --migration or --from names.
    #[command(after_help = undo::AFTER)]
    Undo {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        undo: undo::UndoArgs,
    },
}

struct Opened {
    engine: Engine,
    set: MigrationSet,
    identity: SchemaIdentity,
}

impl Args {
    /// Looks, or does it.
    pub(super) async fn run(self, who: String, as_json: bool) -> Result<Outcome, Failure> {
        match self.verb {
            Verb::Check { which } => check(&which.open().await?, as_json).await,
            Verb::Expand { which, owner } => {
                which.open().await?.owned_by(owner).run(Phase::Expand, None, as_json).await
            }
            Verb::Migrate { which, owner } => {
                which.open().await?.owned_by(owner).run(Phase::Migrate, None, as_json).await
            }
            Verb::Contract { which, certificate } => {
                let opened = which.open().await?;
                let proof = opened.proof(&certificate)?;
                opened.run(Phase::Contract, Some(proof), as_json).await
            }
            Verb::Adopt { which, adopt } => adopt.run(which, who, as_json).await,
            Verb::Undo { which, undo } => undo.run(which, as_json).await,
        }
    }
}

impl Which {
    async fn open(self) -> Result<Opened, Failure> {
        let text = std::env::var(&self.from_env).map_err(|_| {
            Failure::usage(format!(
                "the environment variable {} is not set: it names the database's URL",
                self.from_env
            ))
        })?;
        let url: DatabaseUrl = text.parse().map_err(|error| {
            Failure::usage(format!("the environment variable {}: {error}", self.from_env))
        })?;
        let all = MigrationSet::load(&self.migrations)
            .map_err(|error| Failure::usage(Chain(&error).to_string()))?;
        let from = self.from.map_or(0, ServiceVersion::get);
        let set = all.between(from, self.to.map_or(u32::MAX, ServiceVersion::get));
        let engine = Engine::connect(&url).await.map_err(failed)?;
        let identity = engine.identity().await.map_err(failed)?;
        Ok(Opened { engine, set, identity })
    }
}

impl Opened {
    /// The same, in the name of the upgrade that is given.
    fn owned_by(self, owner: MadeBy) -> Opened {
        let Some(upgrade) = owner.made_by else { return self };
        let set = self.set.owned_by(Owner::upgrade(upgrade.as_str()));
        Opened { set, ..self }
    }

    /// Only these of its own migrations; all of them where none is named.
    fn choose(&mut self, ids: &[String]) -> Result<(), Failure> {
        if let Some(unknown) = ids.iter().find(|id| !self.set.own().any(|m| m.id == **id)) {
            return Err(Failure::usage(format!(
                "no migration that --from and --to leave has the ID {unknown}"
            )));
        }
        if !ids.is_empty() {
            self.set = self.set.clone().with_own(|m| ids.contains(&m.id));
        }
        Ok(())
    }

    /// The term that the database obeys already; before any, one below every leader's (a leader's key is never
    /// created at revision 1).
    fn term(&self) -> Term {
        self.identity.term.clone().unwrap_or_else(|| Term { revision: 1, id: BY_HAND.to_owned() })
    }

    /// What the undo has left in place, and why.
    async fn left(&self) -> Result<Vec<String>, Failure> {
        let status = self.engine.status_by_history(&self.set).await.map_err(failed)?;
        Ok(status.migrations.into_iter().filter(|m| m.own).flat_map(|m| m.left).collect())
    }

    fn proof(&self, path: &Path) -> Result<Sealed, Failure> {
        let text = std::fs::read(path).map_err(|error| {
            Failure::usage(format!("could not read the certificate {}: {error}", path.display()))
        })?;
        let sealed: Sealed = serde_json::from_slice(&text)
            .map_err(|error| Failure::usage(format!("{} is no certificate: {error}", path.display())))?;
        sealed.verify().map_err(|flaw| Failure::refused(format!("the certificate is not true: {flaw}")))?;
        let ours = self.identity.id.as_ref().map(|id| id.0.as_str());
        if ours != Some(sealed.certificate.schema.as_str()) {
            return Err(Failure::refused(format!(
                "the certificate is of schema {}, and the database holds {}",
                sealed.certificate.schema,
                ours.unwrap_or("none that was ever claimed")
            )));
        }
        if self.set.digest().as_str() != format!("sha256:{}", sealed.certificate.migrations) {
            return Err(Failure::refused(format!(
                "the certificate is of migrations with digest {}, and these have {}",
                sealed.certificate.migrations,
                self.set.digest()
            )));
        }
        Ok(sealed)
    }

    async fn run(&self, phase: Phase, proof: Option<Sealed>, as_json: bool) -> Result<Outcome, Failure> {
        let (progress, latest) = watch::channel(PhaseProgress::default());
        let cancel = CancellationToken::new();
        let interrupted = cancel.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                interrupted.cancel();
            }
        });
        tokio::spawn(narrate(latest));
        let (engine, set, term) = (&self.engine, &self.set, self.term());
        let done = match (phase, proof) {
            (Phase::Expand, _) => engine.expand(set, &term, &progress, &cancel).await,
            (Phase::Migrate, _) => engine.migrate(set, &term, &progress, &cancel).await,
            (Phase::Undo, _) => engine.undo(set, &term, &progress, &cancel).await,
            (Phase::Contract, Some(sealed)) => {
                let (certificate, digest) =
                    (sealed.certificate.upgrade.to_string(), sealed.digest.to_string());
                let proof = ContractProof { certificate, digest };
                let recheck = || -> BoxFuture<'_, Result<(), String>> { Box::pin(clean(engine, &sealed)) };
                engine.contract(set, &term, &proof, &recheck, &progress, &cancel).await
            }
            (Phase::Contract, None) => return Err(Failure::refused("contract runs on a certificate only")),
        };
        let done = done.map_err(failed)?;
        let left = match phase {
            Phase::Undo => self.left().await?,
            _ => Vec::new(),
        };
        if as_json {
            let (steps, rows) = (done.steps, done.rows);
            show::json(
                &json!({ "phase": phase.as_str(), "steps": steps, "rows": rows, "left_in_place": left }),
            )?;
        } else {
            show::line(format!("{phase}: {} steps, {} rows", done.steps, done.rows))?;
            left.iter().try_for_each(|left| show::line(format!("left in place: {left}")))?;
        }
        Ok(Outcome::Good)
    }
}

/// Whether the sessions are still such as the certificate demands, on each endpoint that it names.
async fn clean(engine: &Engine, sealed: &Sealed) -> Result<(), String> {
    let certificate = &sealed.certificate;
    let mut all = BTreeSet::new();
    let mut add = |endpoint: &str, sessions| {
        let Sessions::Listed(listed) = sessions else { return };
        let others = listed.into_iter().filter(|session| session.kind != SessionKind::Engine);
        all.extend(others.map(|session| recorded(endpoint, session)));
    };
    add("--from-env", engine.sessions().await.map_err(|e| Chain(&e).to_string())?);
    // A certificate of one endpoint is of the database itself.
    for name in certificate.endpoints.iter().filter(|_| certificate.endpoints.len() > 1) {
        let failed = |why: String| format!("endpoint {name}, which the certificate names: {why}");
        let text =
            std::env::var(name).map_err(|_| failed("set this environment variable to its URL".to_owned()))?;
        let url: DatabaseUrl = text.parse().map_err(|e: InvalidUrl| failed(e.to_string()))?;
        add(name, Engine::sessions_at(&url).await.map_err(|e| failed(Chain(&e).to_string()))?);
    }
    let flaws = sessions_flaws(&certificate.required, &certificate.allowed_sessions, &all);
    joined(&flaws).map_or(Ok(()), Err)
}

async fn narrate(mut latest: watch::Receiver<PhaseProgress>) {
    let mut last = String::new();
    while latest.changed().await.is_ok() {
        let line = {
            let now = latest.borrow_and_update();
            format!("{} step {}/{}: {}", now.migration, now.step, now.steps, now.doing)
        };
        if line != last {
            show::note(format!("tidegate: {line}"));
            last = line;
        }
    }
}

async fn check(opened: &Opened, as_json: bool) -> Result<Outcome, Failure> {
    let status = opened.engine.status(&opened.set).await.map_err(failed)?;
    let next = status.next.map(Phase::as_str);
    let obstacles = opened.engine.obstacles(&opened.set).await.map_err(failed)?;
    if as_json {
        let migrations: Vec<_> = status
            .migrations
            .iter()
            .map(|m| {
                json!({
                    "id": m.id, "version": m.version, "expand": word(m.expand), "migrate": word(m.migrate),
                    "contract": word(m.contract), "undo": word(m.undo), "pending_rows": m.pending_rows, "own": m.own,
                    "left_in_place": m.left,
                })
            })
            .collect();
        let id = opened.identity.id.as_ref().map(|id| id.0.clone());
        let all = json!({ "schema": id, "next": next, "migrations": migrations, "obstacles": obstacles });
        show::json(&all)?;
    } else {
        described(&status).print()?;
        obstacles.iter().try_for_each(|what| show::line(format!("cannot begin: {what}")))?;
    }
    Ok(match status.next {
        None => Outcome::Good,
        Some(Phase::Expand) => Outcome::Says(3),
        Some(Phase::Migrate) => Outcome::Says(4),
        Some(Phase::Contract) => Outcome::Says(5),
        Some(Phase::Undo) => Outcome::Negative,
    })
}

fn described(status: &Status) -> Page {
    let rows = status.migrations.iter().map(|m| {
        vec![
            m.id.clone(),
            m.version.to_string(),
            word(m.expand).to_owned(),
            word(m.migrate).to_owned(),
            word(m.contract).to_owned(),
            show::or_dash(m.pending_rows),
        ]
    });
    let mut page = Page::default();
    page.table(&["MIGRATION", "VERSION", "EXPAND", "MIGRATE", "CONTRACT", "ROWS LEFT"], rows);
    page.line(match status.next {
        None => "nothing is left to do".to_owned(),
        Some(Phase::Undo) => "an undo has begun and must be ended first".to_owned(),
        Some(phase) => format!("next: {phase}"),
    });
    page
}

fn word(state: PhaseState) -> &'static str {
    match state {
        PhaseState::NotStarted => "-",
        PhaseState::Running => "begun",
        PhaseState::Done => "done",
    }
}

fn failed(error: Error) -> Failure {
    let message = Chain(&error).to_string();
    match error {
        Error::Unreachable { .. } => Failure::away(message),
        Error::Lint(_) => Failure::usage(message),
        Error::Authentication { .. }
        | Error::LowerTerm { .. }
        | Error::RestoredStore { .. }
        | Error::OtherSchema { .. }
        | Error::OtherTerm { .. }
        | Error::LockBusy { .. }
        | Error::Drift { .. }
        | Error::Order { .. }
        | Error::Unverified { .. }
        | Error::Present { .. }
        | Error::NotAsAdopted { .. }
        | Error::Recheck { .. } => Failure::refused(message),
        _ => Failure::failed(message),
    }
}
