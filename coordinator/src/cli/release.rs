//! `tidegate release …`: what new computes start with.

mod across;
mod look;
mod matrix;
mod regions;
mod steer;

use super::document::document;
use super::exit::{Failure, Outcome};
use super::options::GlobalOptions;
use super::show;
use clap::Subcommand;
use std::path::PathBuf;
use tidegate_proto::wire::v1::{
    ApproveReleaseRequest, ConfigureStreamRequest, PinComputeRequest, PromoteReleaseRequest,
    RecordEvidenceRequest, RetryReleaseRequest, RollBackReleaseRequest, StreamHistoryRequest,
    UnpinComputeRequest,
};

/// Verbs on compute releases.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    /// Release stream; any but the default is made by `tidegate release stream STREAM --set FILE`.
    #[arg(long, short, global = true, value_name = "STREAM", default_value = "compute")]
    stream: String,
    #[command(subcommand)]
    verb: Verb,
}

const AFTER: &str = "\
Examples:
  tidegate release create --version 9057 --tag release-9057 --manifest compute/manifest.yaml --requires pageserver=8100
  tidegate release explain 53           what holds it, who can end that
  tidegate release promote --from preprod --to eu-1 --regions regions.yaml
  tidegate release rollback 52 --why \"p99 of starts doubled\"
  tidegate release matrix               which tags were tested together, what waits for which pair
  tidegate release settings 53 --pg-version 17 --role replica

A release goes out by itself, as soon as every gate is open: the floor of the storage that it requires, evidence and
approval where they are asked for. Creating one that says the same as the latest changes nothing and exits 0. After a
rollback the latest is the one that went back: what was left goes out again when it is created once more.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a release. It is deployed as soon as every gate is open.
    // Its --version is the image's, not ours.
    #[command(disable_version_flag = true)]
    Create(Box<steer::Create>),
    /// List releases, newest first.
    List {
        /// Maximum number of rows.
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u32,
        /// Only releases before this revision.
        #[arg(long, value_name = "REVISION", default_value_t = 0, hide_default_value = true)]
        before: u64,
    },
    /// Show one release.
    Show {
        /// Revision or tag, as `tidegate release list` shows them. Default: the deployed release.
        which: Option<String>,
    },
    /// Roll back to a release that was deployed before, as a new revision with the same content. If its image was removed, it
    /// is warmed up first.
    Rollback {
        /// Revision, as `tidegate release list` shows it.
        revision: u64,
        /// Reason for the audit log.
        #[arg(long)]
        why: String,
        /// Do not warm up the image first, even if it was removed from the nodes.
        #[arg(long)]
        no_prewarm: bool,
    },
    /// Approve a release that waits for an approval.
    Approve {
        /// Revision, as `tidegate release list` shows it.
        revision: u64,
        /// Note for the audit log.
        #[arg(long, default_value = "", hide_default_value = true)]
        note: String,
    },
    /// Promote a release to a share of starts, or deploy it. With --from and --to: create in a region the release that
    /// another region has deployed. It passes the gates and approvals of the new region.
    Promote {
        /// Revision. With --from the default is the revision that is deployed in that region.
        #[arg(required_unless_present = "from")]
        revision: Option<u64>,
        /// Share of starts, for example 0.2. Does not wait for prewarm.
        #[arg(long, conflicts_with = "from")]
        fraction: Option<f64>,
        /// Deploy at once, even if prewarm has not ended on every node.
        #[arg(long, conflicts_with_all = ["from", "fraction"])]
        deploy: bool,
        /// Region to copy from.
        #[arg(long, value_name = "REGION", requires_all = ["to", "regions"])]
        from: Option<String>,
        /// Region to copy to.
        #[arg(long, value_name = "REGION", requires = "from")]
        to: Option<String>,
        /// A YAML file: under each region's name its `coordinator` (URL), and `token_file`, `ca`, `cert`, `key`.
        #[arg(long, env = "TIDEGATE_REGIONS", value_name = "PATH")]
        regions: Option<PathBuf>,
        /// Reason for the audit log.
        #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "from")]
        why: String,
    },
    /// Retry a failed release, with its failed hooks.
    Retry {
        /// Revision, as `tidegate release list` shows it.
        revision: u64,
        /// Note for the audit log.
        #[arg(long, default_value = "", hide_default_value = true)]
        why: String,
    },
    /// Pin a compute to a release.
    Pin {
        /// Compute ID, as the control plane names the compute.
        compute: String,
        /// Revision, as `tidegate release list` shows it.
        revision: u64,
        /// Reason for the audit log.
        #[arg(long)]
        why: String,
    },
    /// Remove the pin of a compute.
    Unpin {
        /// Compute ID, as the control plane names the compute.
        compute: String,
        /// Reason for the audit log.
        #[arg(long, default_value = "", hide_default_value = true)]
        why: String,
    },
    /// Show the settings of a compute, each with its source layer.
    Settings {
        /// Revision or tag, as `tidegate release list` shows them. Default: the deployed release.
        which: Option<String>,
        /// Major version of PostgreSQL.
        #[arg(long, value_name = "N")]
        pg_version: u32,
        /// Role: primary or replica.
        #[arg(long, default_value = "primary")]
        role: String,
        /// Settings of the user, the project or the endpoint: NAME=VALUE.
        #[arg(long = "override", value_name = "NAME=VALUE")]
        overrides: Vec<String>,
        /// Settings that follow from the size of the compute: NAME=VALUE.
        #[arg(long = "dynamic", value_name = "NAME=VALUE")]
        dynamic: Vec<String>,
    },
    /// Show the release that a compute starts with.
    Start {
        /// Compute ID, as the control plane names the compute.
        compute: String,
    },
    /// Explain what a release is waiting on, who can act, and the next command.
    Explain {
        /// Revision. Default: every waiting release.
        revision: Option<u64>,
    },
    /// Compare two releases.
    Diff {
        /// First revision, as `tidegate release list` shows it.
        from: u64,
        /// Second revision, as `tidegate release list` shows it.
        to: u64,
    },
    /// Print the audit log of the stream.
    History,
    /// Record the verdict of a compatibility run.
    Evidence {
        /// Tag of the compute release.
        compute_tag: String,
        /// Tag of the storage release.
        storage_tag: String,
        /// Verdict: pass, fail or inconclusive.
        verdict: String,
        /// One line of detail.
        #[arg(long, default_value = "", hide_default_value = true)]
        note: String,
        /// SHA-256 of the run's log.
        #[arg(long, value_name = "SHA256", default_value = "", hide_default_value = true)]
        log_sha256: String,
    },
    /// List the evidence of compatibility runs, and which releases wait for which pair of tags.
    Matrix {
        /// Only this compute tag.
        compute_tag: Option<String>,
    },
    /// List release streams; show or replace the settings of one.
    Stream {
        /// Stream to show, or with --set to change, named as in the list. Default: list all streams.
        name: Option<String>,
        /// Replace the settings by those in this YAML or JSON file, or - for stdin.
        #[arg(long, value_name = "PATH", requires = "name")]
        set: Option<PathBuf>,
    },
}

impl Args {
    /// Asks and shows.
    pub(super) async fn run(self, options: &GlobalOptions) -> Result<Outcome, Failure> {
        let (stream, who) = (self.stream, options.who());
        let reply = match self.verb {
            Verb::Create(asked) => return steer::create(options, stream, &asked).await,
            Verb::List { limit, before } => return look::list(options, stream, limit, before).await,
            Verb::Show { which } => return look::show(options, stream, which).await,
            Verb::Promote { revision, from: Some(from), to: Some(to), regions: Some(regions), .. } => {
                let way = across::Way { regions: &regions, from: &from, to: &to, revision };
                return across::promote(options, stream, way).await;
            }
            Verb::Settings { which, pg_version, role, overrides, dynamic } => {
                return look::settings(options, stream, which, pg_version, role, &overrides, &dynamic).await;
            }
            Verb::Start { compute } => return look::start(options, stream, compute).await,
            Verb::Explain { revision } => return look::explain(options, stream, revision).await,
            Verb::Diff { from, to } => return look::diff(options, stream, from, to).await,
            Verb::History => {
                let events =
                    options.releases().await?.stream_history(StreamHistoryRequest { stream }).await?;
                return show::events(events.into_inner(), options.json).await;
            }
            Verb::Matrix { compute_tag } => {
                return matrix::list(options, compute_tag.unwrap_or_default()).await;
            }
            Verb::Stream { name: Some(name), set: None } => return look::stream(options, name).await,
            Verb::Stream { name: None, .. } => return look::streams(options).await,
            Verb::Stream { name: Some(stream), set: Some(path) } => {
                let settings = document(&path, tidegate_planner::document::read)?.to_string();
                let asked = ConfigureStreamRequest { stream, settings, who, why: String::new() };
                options.releases().await?.configure_stream(asked).await?
            }
            Verb::Rollback { revision, why, no_prewarm } => {
                let prewarm = Some(!no_prewarm);
                let asked = RollBackReleaseRequest { stream, revision, who, why, prewarm };
                options.releases().await?.roll_back_release(asked).await?
            }
            Verb::Approve { revision, note } => {
                let asked = ApproveReleaseRequest { stream, revision, who, note };
                options.releases().await?.approve_release(asked).await?
            }
            Verb::Promote { fraction: None, deploy: false, .. } => {
                let what =
                    "promote needs --fraction 0.2, for that share of starts, or --deploy, for all of them";
                return Err(Failure::usage(what));
            }
            Verb::Promote { revision, fraction, why, .. } => {
                let absent = || Failure::usage("promote needs a revision, or --from and --to");
                let (revision, deploy) = (revision.ok_or_else(absent)?, fraction.is_none());
                let asked = PromoteReleaseRequest { stream, revision, fraction, who, why, deploy };
                options.releases().await?.promote_release(asked).await?
            }
            Verb::Retry { revision, why } => {
                let asked = RetryReleaseRequest { stream, revision, who, why };
                options.releases().await?.retry_release(asked).await?
            }
            Verb::Pin { compute, revision, why } => {
                let asked = PinComputeRequest { stream, compute, revision, who, why };
                options.releases().await?.pin_compute(asked).await?
            }
            Verb::Unpin { compute, why } => {
                let asked = UnpinComputeRequest { stream, compute, who, why };
                options.releases().await?.unpin_compute(asked).await?
            }
            Verb::Evidence { compute_tag, storage_tag, verdict, note, log_sha256 } => {
                let asked =
                    RecordEvidenceRequest { compute_tag, storage_tag, verdict, note, who, log_sha256 };
                options.releases().await?.record_evidence(asked).await?
            }
        };
        steer::print_reply(options, reply.get_ref())
    }
}
