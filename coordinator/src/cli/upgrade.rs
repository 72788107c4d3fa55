//! `tidegate upgrade …`.

mod follow;
mod look;
mod start;
mod steer;
mod wait;
mod watch;

use super::exit::{Failure, Outcome};
use super::reach::Reach;
use clap::Subcommand;
use std::path::PathBuf;
use tidegate_proto::Span;

/// Verbs on upgrades.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start an upgrade from a spec (`tidegate spec new` prints one to begin with).
    Start {
        /// The spec: a YAML file, or - for stdin.
        spec: PathBuf,
        /// Show what preflight finds and who would be in which wave; change nothing. Exits 3 when a finding blocks.
        #[arg(long)]
        dry_run: bool,
        /// Stay and watch until it is over; exits 0 only when it completed.
        #[arg(long, conflicts_with = "dry_run")]
        wait: bool,
        /// What to call it. Default: made from service, version and time.
        #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
        id: String,
    },
    /// Which upgrades there are.
    List {
        /// Only those of this service.
        service: Option<String>,
        /// Only those that are not over.
        #[arg(long)]
        active: bool,
    },
    /// Where an upgrade stands, instance by instance.
    Status {
        /// Which.
        id: String,
        /// The most instances to show.
        #[arg(long, value_name = "N", default_value_t = 1000)]
        instances: u32,
    },
    /// Follow an upgrade until it is over; exits 0 only when it completed.
    Watch {
        /// Which.
        id: String,
    },
    /// Wait until an upgrade needs an approval, is paused, or is over: for scripts.
    #[command(
        after_help = "Exit codes: 0 it is so (--for end: it completed); 1 it is over without having been so \
        (--for end: it did not complete), or --timeout has passed; 4 no coordinator answered for a minute."
    )]
    Wait {
        /// Upgrade ID.
        id: String,
        /// Condition.
        #[arg(long = "for", value_enum, value_name = "CONDITION", default_value = "end")]
        what: wait::For,
        /// Longest wait, as in 10m. Default: none.
        #[arg(long, value_name = "DURATION")]
        timeout: Option<Span>,
    },
    /// Why it does not move: what it waits for, who can end the wait, which command helps.
    Explain {
        /// Which.
        id: String,
    },
    /// Let a phase begin that waits for a person.
    Approve {
        /// Which.
        id: String,
        /// The phase: stage, expand, migrate, roll, remove or contract.
        phase: String,
        /// A remark, for the history.
        #[arg(long, default_value = "", hide_default_value = true)]
        note: String,
        /// What contract accepts without proof: `sessions`, where the database cannot list them; `session:NAME`, a
        /// session of this name, also in remove and contract after the approval. May be given several times.
        #[arg(long = "accept", value_name = "PART")]
        accepts: Vec<String>,
    },
    /// Hold an upgrade where it stands: nothing new begins.
    Pause {
        /// Which.
        id: String,
        /// Why, for the history.
        #[arg(long)]
        why: String,
    },
    /// Let a paused upgrade go on.
    Resume {
        /// Which.
        id: String,
        /// A remark, for the history.
        #[arg(long, default_value = "", hide_default_value = true)]
        why: String,
    },
    /// Turn an upgrade back, from where it stands. Not possible once contract has begun.
    Rollback {
        /// Which.
        id: String,
        /// Why, for the history.
        #[arg(long)]
        why: String,
    },
    /// Excuse an instance from its wave; never from remove or contract.
    Skip {
        /// Which upgrade.
        id: String,
        /// Whose instance.
        node: String,
        /// Why, for the history.
        #[arg(long)]
        why: String,
    },
    /// Have an instance that failed tried once more.
    Retry {
        /// Which upgrade.
        id: String,
        /// Whose instance.
        node: String,
        /// A remark, for the history; required with --declare-stopped.
        #[arg(long, default_value = "", hide_default_value = true)]
        why: String,
        /// Declare that the service on this node has stopped, where its drain fails because requests in flight cannot be
        /// counted. The agent then waits for no count, unless it sees that the service still answers or works on requests.
        /// The drain's other evidence and the confirmed stop are still required.
        #[arg(long)]
        declare_stopped: bool,
    },
    /// Everything that happened, in order.
    History {
        /// Which.
        id: String,
    },
    /// Print the certificate on which its contract ran (`tidegate certificate verify` checks it).
    Certificate {
        /// Which.
        id: String,
    },
}

impl Args {
    /// Asks and shows.
    pub async fn run(self, reach: &Reach) -> Result<Outcome, Failure> {
        match self.verb {
            Verb::Start { spec, dry_run: true, id, .. } => start::foresee(reach, &spec, id).await,
            Verb::Start { spec, wait, id, .. } => start::start(reach, &spec, id, wait).await,
            Verb::List { service, active } => look::list(reach, service.unwrap_or_default(), active).await,
            Verb::Status { id, instances } => look::status(reach, id, instances).await,
            Verb::Watch { id } => watch::watch(reach, id).await,
            Verb::Wait { id, what, timeout } => wait::wait(reach, id, what, timeout).await,
            Verb::Explain { id } => look::explain(reach, id).await,
            Verb::Approve { id, phase, note, accepts } => {
                steer::approve(reach, id, phase, note, accepts).await
            }
            Verb::Pause { id, why } => steer::pause(reach, id, why).await,
            Verb::Resume { id, why } => steer::resume(reach, id, why).await,
            Verb::Rollback { id, why } => steer::roll_back(reach, id, why).await,
            Verb::Skip { id, node, why } => steer::skip(reach, id, node, why).await,
            Verb::Retry { id, node, why, declare_stopped } => {
                steer::retry(reach, id, node, why, declare_stopped).await
            }
            Verb::History { id } => look::history(reach, id).await,
            Verb::Certificate { id } => look::certificate(reach, id).await,
        }
    }
}
