//! `tidegate upgrade …`.

mod follow;
mod frame;
mod gates;
mod live;
mod look;
mod start;
mod wait;
mod watch;
mod watched;

use super::exit::{Failure, Outcome};
use super::fleet::print_done;
use super::options::GlobalOptions;
use super::show;
use clap::Subcommand;
use std::path::PathBuf;
use tidegate_proto::Span;
use tidegate_proto::wire::v1::{
    ApproveUpgradeRequest, PauseUpgradeRequest, ResumeUpgradeRequest, RetryInstanceRequest,
    RollBackUpgradeRequest, SkipInstanceRequest, UpgradeHistoryRequest,
};

/// Verbs on upgrades.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start an upgrade from a spec (`tidegate spec new` prints one to begin with).
    Start {
        /// Spec: a YAML file, or - for stdin.
        spec: PathBuf,
        /// Preview: print preflight findings and waves, and change nothing. Exits 3 when a finding blocks.
        #[arg(long)]
        dry_run: bool,
        /// Watch until the upgrade ends. Exits 0 only when it completed.
        #[arg(long, conflicts_with = "dry_run")]
        wait: bool,
        /// Upgrade ID. Default: made from service, version and time.
        #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
        id: String,
    },
    /// List upgrades.
    List {
        /// Only upgrades of this service, named as in `tidegate fleet spread`.
        service: Option<String>,
        /// Only upgrades that have not ended.
        #[arg(long)]
        active: bool,
    },
    /// Show the phase and each instance of an upgrade.
    Status {
        /// Upgrade ID, as `tidegate upgrade list` shows it.
        id: String,
        /// Maximum number of instances to show.
        #[arg(long, value_name = "N", default_value_t = 1000)]
        instances: u32,
    },
    /// Watch an upgrade until it ends. Exits 0 only when it completed.
    ///
    /// On a terminal it draws a frame, which stays when the upgrade ends. In a pipe, with --json, and where TERM is
    /// "dumb" it prints a line for each change.
    Watch {
        /// Upgrade ID, as `tidegate upgrade list` shows it.
        id: String,
    },
    /// Wait until an upgrade needs an approval, is paused, or has ended. For scripts.
    #[command(
        after_help = "Exit codes: 0 it is so (--for end: it completed); 1 it is over without having been so \
        (--for end: it did not complete), or --timeout has passed; 4 no coordinator answered for a minute."
    )]
    Wait {
        /// Upgrade ID, as `tidegate upgrade list` shows it.
        id: String,
        /// Condition to wait for.
        #[arg(long = "for", value_enum, value_name = "CONDITION", default_value = "end")]
        what: wait::For,
        /// Time limit, for example 10m. Default: none.
        #[arg(long, value_name = "DURATION")]
        timeout: Option<Span>,
    },
    /// Explain what an upgrade is waiting on, who can act, and the next command.
    Explain {
        /// Upgrade ID, as `tidegate upgrade list` shows it.
        id: String,
    },
    /// Approve a phase.
    Approve {
        /// Upgrade ID, as `tidegate upgrade list` shows it.
        id: String,
        /// Phase: stage, expand, migrate, roll, remove or contract.
        phase: String,
        /// Note for the audit log.
        #[arg(long, default_value = "", hide_default_value = true)]
        note: String,
        /// What contract accepts without proof: `sessions`, where the database cannot list them; `session:NAME`, a
        /// session of this name, also in remove and contract after the approval. May be given several times.
        #[arg(long = "accept", value_name = "PART")]
        accepts: Vec<String>,
    },
    /// Pause an upgrade: no new step begins.
    Pause {
        /// Upgrade ID, as `tidegate upgrade list` shows it.
        id: String,
        /// Reason for the audit log.
        #[arg(long)]
        why: String,
    },
    /// Resume a paused upgrade.
    Resume {
        /// Upgrade ID, as `tidegate upgrade list` shows it.
        id: String,
        /// Note for the audit log.
        #[arg(long, default_value = "", hide_default_value = true)]
        why: String,
    },
    /// Roll an upgrade back. Not possible after contract has begun.
    Rollback {
        /// Upgrade ID, as `tidegate upgrade list` shows it.
        id: String,
        /// Reason for the audit log.
        #[arg(long)]
        why: String,
    },
    /// Skip an instance in its wave. It still blocks remove and contract.
    Skip {
        /// Upgrade ID, as `tidegate upgrade list` shows it.
        id: String,
        /// Node of the instance, as `tidegate upgrade status ID` shows it after the service and a slash.
        node: String,
        /// Reason for the audit log.
        #[arg(long)]
        why: String,
    },
    /// Retry a failed instance.
    Retry {
        /// Upgrade ID, as `tidegate upgrade list` shows it.
        id: String,
        /// Node of the instance, as `tidegate upgrade status ID` shows it after the service and a slash.
        node: String,
        /// Note for the audit log; required with --declare-stopped.
        #[arg(long, default_value = "", hide_default_value = true)]
        why: String,
        /// Declare that the service on this node has stopped, where its drain fails because requests in flight cannot be
        /// counted. The agent then waits for no count, unless it sees that the service still answers or works on requests.
        /// The drain's other evidence and the confirmed stop are still required.
        #[arg(long)]
        declare_stopped: bool,
    },
    /// List the recorded verdicts of gate jobs, which the `requires_gate` of a spec waits for (`grenade record`).
    Gates {
        /// Only of this service, named as in `tidegate fleet spread`.
        service: Option<String>,
    },
    /// Print the audit log of an upgrade.
    History {
        /// Upgrade ID, as `tidegate upgrade list` shows it.
        id: String,
    },
    /// Print the certificate of the contract phase (`tidegate certificate verify` checks it).
    Certificate {
        /// Upgrade ID, as `tidegate upgrade list` shows it.
        id: String,
    },
}

impl Args {
    /// Asks and shows.
    pub(super) async fn run(self, options: &GlobalOptions) -> Result<Outcome, Failure> {
        let who = options.who();
        let done = match self.verb {
            Verb::Start { spec, dry_run: true, id, .. } => return start::preview(options, &spec, id).await,
            Verb::Start { spec, wait, id, .. } => return start::start(options, &spec, id, wait).await,
            Verb::List { service, active } => {
                return look::list(options, service.unwrap_or_default(), active).await;
            }
            Verb::Status { id, instances } => return look::status(options, id, instances).await,
            Verb::Watch { id } => return watch::watch(options, id).await,
            Verb::Wait { id, what, timeout } => return wait::wait(options, id, what, timeout).await,
            Verb::Explain { id } => return look::explain(options, id).await,
            Verb::Gates { service } => return gates::list(options, service.unwrap_or_default()).await,
            Verb::Certificate { id } => return look::certificate(options, id).await,
            Verb::History { id } => {
                let events = options.client().await?.upgrade_history(UpgradeHistoryRequest { id }).await?;
                return show::events(events.into_inner(), options.json).await;
            }
            Verb::Approve { id, phase, note, accepts } => {
                let asked = ApproveUpgradeRequest { id, phase, note, who, accepts };
                options.client().await?.approve_upgrade(asked).await?
            }
            Verb::Pause { id, why } => {
                options.client().await?.pause_upgrade(PauseUpgradeRequest { id, why, who }).await?
            }
            Verb::Resume { id, why } => {
                options.client().await?.resume_upgrade(ResumeUpgradeRequest { id, why, who }).await?
            }
            Verb::Rollback { id, why } => {
                options.client().await?.roll_back_upgrade(RollBackUpgradeRequest { id, why, who }).await?
            }
            Verb::Skip { id, node, why } => {
                options.client().await?.skip_instance(SkipInstanceRequest { id, node, why, who }).await?
            }
            Verb::Retry { id, node, why, declare_stopped } => {
                let asked = RetryInstanceRequest { id, node, why, who, declare_stopped };
                options.client().await?.retry_instance(asked).await?
            }
        };
        print_done(options, done.get_ref())
    }
}
