//! `tidegate release …`: what new computes start with.

mod look;
mod onward;
mod regions;
mod steer;

use super::exit::{Failure, Outcome};
use super::reach::Reach;
use clap::Subcommand;
use std::path::PathBuf;

/// Verbs on compute releases.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
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
  tidegate release settings 53 --pg-version 17 --role replica

A release goes out by itself, as soon as every gate is open: the floor of the storage that it requires, evidence and
approval where they are asked for. Creating one that says the same as the latest changes nothing and exits 0.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a release. It waits until every gate is open, then goes out by itself.
    // Its --version is the image's, not ours.
    #[command(disable_version_flag = true)]
    Create {
        /// The version of the image; it never falls within a branch.
        #[arg(long)]
        version: u64,
        /// The tag of the image.
        #[arg(long)]
        tag: String,
        /// Settings and the rest: a YAML or JSON file, or - for stdin. Absent = empty.
        #[arg(long, value_name = "PATH")]
        manifest: Option<PathBuf>,
        /// What another build has to say in the manifest, under this key: extensions=extensions.json. YAML or JSON.
        #[arg(long, value_name = "KEY=PATH")]
        mix_in: Vec<String>,
        /// The lowest version of a storage service that it can work with.
        #[arg(long, value_name = "SERVICE=VERSION")]
        requires: Vec<String>,
        /// The branch that it was cut from. Default: the stream's name.
        #[arg(long)]
        branch: Option<String>,
        /// A compatibility run with the storage in use must have passed.
        #[arg(long)]
        needs_evidence: bool,
        /// Try it on this share of starts first, such as 0.05.
        #[arg(long, value_name = "FRACTION")]
        canary: Option<f64>,
        /// Deploy it by itself when so many computes of the canary told of success. Absent = a person promotes it.
        #[arg(long, value_name = "N", requires = "canary")]
        promote_after: Option<u32>,
        /// How many computes of the canary may tell of failure.
        #[arg(long, value_name = "N", requires = "canary", default_value_t = 0)]
        tolerate: u32,
        /// By when the canary must have succeeded, such as 2h.
        #[arg(long, value_name = "SPAN", requires = "canary")]
        deadline: Option<String>,
        /// Pull request that it was built for, by number or branch, where the stream is grouped by that.
        #[arg(long, value_name = "NAME")]
        pull_request: Option<String>,
        /// The group that it belongs to, where the stream is grouped by name.
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
    },
    /// The history, the latest first.
    List {
        /// The most to show.
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u32,
        /// Those before this revision.
        #[arg(long, value_name = "REVISION", default_value_t = 0, hide_default_value = true)]
        before: u64,
    },
    /// One release: a revision, a tag, or what is deployed.
    Show {
        /// A revision or a tag. Absent = what is deployed.
        which: Option<String>,
    },
    /// Go back to any release that was deployed before, as a new revision with its body. Where its image was removed, it is
    /// warmed up first.
    Rollback {
        /// Its revision.
        revision: u64,
        /// Why, for the history.
        #[arg(long)]
        why: String,
        /// Go back at once, also where the image was removed: you know that it is there.
        #[arg(long)]
        no_prewarm: bool,
    },
    /// Let a release go out that waits for a person.
    Approve {
        /// Its revision.
        revision: u64,
        /// A remark, for the history.
        #[arg(long, default_value = "", hide_default_value = true)]
        note: String,
    },
    /// Give a release to a share of starts, or to all of them. With --from and --to: create in a region what
    /// is deployed in another, which is a release there like any other, with the gates and approvals of that region.
    Promote {
        /// Its revision. With --from it may be absent: what is deployed there.
        #[arg(required_unless_present = "from")]
        revision: Option<u64>,
        /// Of how many starts, such as 0.2; does not wait for prewarm either.
        #[arg(long, conflicts_with = "from")]
        fraction: Option<f64>,
        /// To all of them: it is deployed at once, also where its prewarm has not ended on every node.
        #[arg(long, conflicts_with_all = ["from", "fraction"])]
        deploy: bool,
        /// The region that it was proved in.
        #[arg(long, value_name = "REGION", requires_all = ["to", "regions"])]
        from: Option<String>,
        /// The region that it goes to.
        #[arg(long, value_name = "REGION", requires = "from")]
        to: Option<String>,
        /// A YAML file: under each region's name its `coordinator` (URL), and `token_file`, `ca`, `cert`, `key`.
        #[arg(long, env = "TIDEGATE_REGIONS", value_name = "PATH")]
        regions: Option<PathBuf>,
        /// Why, for the history.
        #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "from")]
        why: String,
    },
    /// Have a release tried again that failed; hooks that failed are run anew.
    Retry {
        /// Its revision.
        revision: u64,
        /// A remark, for the history.
        #[arg(long, default_value = "", hide_default_value = true)]
        why: String,
    },
    /// Give a compute a release of its own.
    Pin {
        /// The compute.
        compute: String,
        /// The release's revision.
        revision: u64,
        /// Why, for the history.
        #[arg(long)]
        why: String,
    },
    /// Let a compute start with what others start with.
    Unpin {
        /// The compute.
        compute: String,
        /// Why, for the history.
        #[arg(long, default_value = "", hide_default_value = true)]
        why: String,
    },
    /// The settings of a compute, each with the layer that it came from.
    Settings {
        /// A revision or a tag. Absent = what is deployed.
        which: Option<String>,
        /// PostgreSQL's major version.
        #[arg(long, value_name = "N")]
        pg_version: u32,
        /// primary or replica.
        #[arg(long, default_value = "primary")]
        role: String,
        /// Settings of the user, the project or the endpoint: NAME=VALUE.
        #[arg(long = "override", value_name = "NAME=VALUE")]
        overrides: Vec<String>,
        /// Settings that follow from the size of the compute: NAME=VALUE.
        #[arg(long = "dynamic", value_name = "NAME=VALUE")]
        dynamic: Vec<String>,
    },
    /// Which release a compute starts with.
    Start {
        /// The compute.
        compute: String,
    },
    /// Why a release does not go out: what it waits for, who can end the wait, which command helps.
    Explain {
        /// Its revision. Absent = everything that waits.
        revision: Option<u64>,
    },
    /// What differs between two releases.
    Diff {
        /// A revision.
        from: u64,
        /// Another one.
        to: u64,
    },
    /// Everything that happened to the stream, in order, with who did it.
    History,
    /// Tell the verdict of a compatibility run.
    Evidence {
        /// The compute's tag.
        compute_tag: String,
        /// The storage's tag.
        storage_tag: String,
        /// pass, fail or inconclusive.
        verdict: String,
        /// How it was found, in a line.
        #[arg(long, default_value = "", hide_default_value = true)]
        note: String,
    },
    /// The release streams, and how one is run.
    Stream {
        /// Show this one alone, whole; with --set, change it.
        name: Option<String>,
        /// Replace its settings by those of this YAML or JSON file, or - for stdin.
        #[arg(long, value_name = "PATH", requires = "name")]
        set: Option<PathBuf>,
    },
}

impl Args {
    /// Asks and shows.
    pub async fn run(self, reach: &Reach) -> Result<Outcome, Failure> {
        let stream = self.stream;
        match self.verb {
            Verb::Create {
                version,
                tag,
                manifest,
                mix_in,
                requires,
                branch,
                needs_evidence,
                canary,
                promote_after,
                tolerate,
                deadline,
                pull_request,
                group,
            } => {
                let canary =
                    canary.map(|fraction| steer::Canary { fraction, promote_after, tolerate, deadline });
                let asked = steer::Create {
                    version,
                    tag,
                    manifest,
                    mix_in,
                    requires,
                    branch,
                    needs_evidence,
                    canary,
                    pull_request,
                    group,
                };
                steer::create(reach, stream, asked).await
            }
            Verb::List { limit, before } => look::list(reach, stream, limit, before).await,
            Verb::Show { which } => look::show(reach, stream, which).await,
            Verb::Rollback { revision, why, no_prewarm } => {
                steer::roll_back(reach, stream, revision, why, no_prewarm).await
            }
            Verb::Approve { revision, note } => steer::approve(reach, stream, revision, note).await,
            Verb::Promote { revision, from: Some(from), to: Some(to), regions: Some(regions), .. } => {
                let way = onward::Way { regions: &regions, from: &from, to: &to, revision };
                onward::promote(reach, stream, way).await
            }
            Verb::Promote { fraction: None, deploy: false, .. } => Err(Failure::usage(
                "promote needs --fraction 0.2, for that share of starts, or --deploy, for all of them",
            )),
            Verb::Promote { revision, fraction, why, .. } => {
                let absent = || Failure::usage("promote needs a revision, or --from and --to");
                let revision = revision.ok_or_else(absent)?;
                steer::promote(reach, stream, revision, fraction, why).await
            }
            Verb::Retry { revision, why } => steer::retry(reach, stream, revision, why).await,
            Verb::Pin { compute, revision, why } => steer::pin(reach, stream, compute, revision, why).await,
            Verb::Unpin { compute, why } => steer::unpin(reach, stream, compute, why).await,
            Verb::Settings { which, pg_version, role, overrides, dynamic } => {
                look::settings(reach, stream, which, pg_version, role, &overrides, &dynamic).await
            }
            Verb::Start { compute } => look::start(reach, stream, compute).await,
            Verb::Explain { revision } => look::explain(reach, stream, revision).await,
            Verb::Diff { from, to } => look::diff(reach, stream, from, to).await,
            Verb::History => look::history(reach, stream).await,
            Verb::Evidence { compute_tag, storage_tag, verdict, note } => {
                steer::evidence(reach, compute_tag, storage_tag, verdict, note).await
            }
            Verb::Stream { name: Some(name), set: Some(path) } => steer::configure(reach, name, &path).await,
            Verb::Stream { name: Some(name), set: None } => look::stream(reach, name).await,
            Verb::Stream { name: None, .. } => look::streams(reach).await,
        }
    }
}
