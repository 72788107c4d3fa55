//! `tidegate metadata …`: documents that instances share.

use super::document::document;
use super::exit::{Failure, Outcome};
use super::options::GlobalOptions;
use super::show::{self, Page};
use crate::operation::metadata::view;
use clap::{Subcommand, ValueEnum};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::wire::v1::{
    CancelMetadataRequest, ExplainGroupRequest, GroupHistoryRequest, InstanceMetadataRequest,
    ListGroupsRequest, MetadataReply, ReportMetadataRequest, SetMetadataRequest, ShowGroupRequest,
};

/// Verbs on metadata groups.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

const AFTER: &str = "\
Examples:
  tidegate metadata set edge edge.yaml --service pantry-api            to all at once
  tidegate metadata set edge edge.yaml --pattern rolling --timeout 2m  one after the other
  tidegate metadata set edge edge.yaml --pattern canary --tolerate 2% --expect timeout
  tidegate metadata explain edge                                       what it is waiting on
  tidegate metadata cancel edge --why \"wrong file\"                     the former document again

Rolling and canary: a batch is exposed, each of its instances signals success or failure, then the next batch is exposed.
When more fail than is tolerated, all are returned to the former document.";

/// How a document is exposed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Pattern {
    /// Batches of equal size (--batch, default 1 instance).
    Rolling,
    /// Growing batches (--steps, default 1, 1%, 5%, 20%, rest).
    Canary,
    /// All instances at once.
    Immediate,
}

#[derive(Debug, clap::Args)]
struct Set {
    /// Metadata group, as `tidegate metadata list` shows it. The first document creates the group.
    group: String,
    /// Document: a YAML or JSON file that holds an object, or - for stdin.
    document: PathBuf,
    /// Strategy.
    #[arg(long, value_enum, default_value = "immediate")]
    pattern: Pattern,
    /// With rolling: batch size, for example 2 or 10%. Default: 1.
    #[arg(long, value_name = "AMOUNT")]
    batch: Option<String>,
    /// With canary: batch sizes, for example 1,10%,rest.
    #[arg(long, value_name = "AMOUNT,…", value_delimiter = ',')]
    steps: Vec<String>,
    /// Time limit for the instances of a batch to report. Default: 5m.
    #[arg(long, value_name = "SPAN")]
    timeout: Option<String>,
    /// Minimum soak time of a batch. Default: 0s.
    #[arg(long, value_name = "SPAN")]
    pause: Option<String>,
    /// Number of instances that may fail, for example 1 or 2%. Default: 0.
    #[arg(long, value_name = "AMOUNT")]
    tolerate: Option<String>,
    /// Kind of failure that does not count, for example timeout. May be repeated.
    #[arg(long = "expect", value_name = "KIND")]
    expected: Vec<String>,
    /// Members: the instances of this service. Default: unchanged.
    #[arg(long, value_name = "SERVICE", conflicts_with = "instances")]
    service: Option<String>,
    /// Member: this instance. May be repeated.
    #[arg(long = "instance", value_name = "NAME")]
    instances: Vec<String>,
    /// Reason for the audit log.
    #[arg(long, default_value = "", hide_default_value = true)]
    why: String,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Set the document of a group.
    Set(Box<Set>),
    /// List groups.
    List,
    /// Show a group, or the document that one of its instances gets.
    Show {
        /// Metadata group, as `tidegate metadata list` shows it.
        group: String,
        /// Node of the instance whose document to show. Default: show the group.
        instance: Option<String>,
    },
    /// Cancel an update: every instance gets the former document again.
    Cancel {
        /// Metadata group, as `tidegate metadata list` shows it.
        group: String,
        /// Reason for the audit log.
        #[arg(long)]
        why: String,
    },
    /// Report success or failure of an update on behalf of an instance.
    Signal {
        /// Metadata group, as `tidegate metadata list` shows it.
        group: String,
        /// Node of the instance, as `tidegate metadata explain GROUP` shows it.
        instance: String,
        /// Report success.
        #[arg(long, required_unless_present = "failure", conflicts_with = "failure")]
        success: bool,
        /// Report a failure of this kind.
        #[arg(long, value_name = "KIND")]
        failure: Option<String>,
        /// One line of detail.
        #[arg(long, default_value = "", hide_default_value = true)]
        why: String,
    },
    /// Explain what an update is waiting on.
    Explain {
        /// Metadata group, as `tidegate metadata list` shows it.
        group: String,
    },
    /// Print the audit log of a group.
    History {
        /// Metadata group, as `tidegate metadata list` shows it.
        group: String,
    },
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text)
        .map_err(|e| Failure::failed(format!("the coordinator's answer cannot be read: {e}")))
}

/// A number as a number, all else as it was typed: the coordinator says what is wrong with it.
fn amount(text: &str) -> Json {
    text.parse::<u64>().map_or_else(|_| Json::from(text), Json::from)
}

fn body(asked: &Set) -> Result<Json, Failure> {
    let mut body = json!({
        "document": document(&asked.document, tidegate_planner::document::read)?,
        "pattern": asked.pattern.to_possible_value().map(|value| value.get_name().to_owned()),
    });
    let many = |texts: &[String], read: fn(&str) -> Json| {
        (!texts.is_empty()).then(|| texts.iter().map(|text| read(text)).collect::<Json>())
    };
    let optional = [
        ("batch", asked.batch.as_deref().map(amount)),
        ("steps", many(&asked.steps, amount)),
        ("timeout", asked.timeout.clone().map(Json::from)),
        ("pause", asked.pause.clone().map(Json::from)),
        ("tolerate", asked.tolerate.as_deref().map(amount)),
        ("expected", many(&asked.expected, |text| Json::from(text))),
        ("service", asked.service.clone().map(Json::from)),
        ("instances", many(&asked.instances, |text| Json::from(text))),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    Ok(body)
}

impl Args {
    /// Asks and shows.
    pub(super) async fn run(self, options: &GlobalOptions) -> Result<Outcome, Failure> {
        match self.verb {
            Verb::Set(asked) => set(options, *asked).await,
            Verb::List => list(options).await,
            Verb::Show { group, instance: None } => show_group(options, group).await,
            Verb::Show { group, instance: Some(instance) } => served(options, group, instance).await,
            Verb::Cancel { group, why } => {
                let message = CancelMetadataRequest { group, who: options.who(), why };
                print_reply(options, options.metadata().await?.cancel_metadata(message).await?.get_ref())
            }
            Verb::Signal { group, instance, success, failure, why } => {
                let failure = failure.unwrap_or_default();
                let who = options.who();
                let message =
                    ReportMetadataRequest { group, instance, generation: 0, success, failure, why, who };
                print_reply(options, options.metadata().await?.report_metadata(message).await?.get_ref())
            }
            Verb::Explain { group } => explain(options, group).await,
            Verb::History { group } => {
                let events = options.metadata().await?.group_history(GroupHistoryRequest { group }).await?;
                show::events(events.into_inner(), options.json).await
            }
        }
    }
}

fn print_reply(options: &GlobalOptions, reply: &MetadataReply) -> Result<Outcome, Failure> {
    if options.json {
        show::json(reply)?
    } else {
        show::line(&reply.what)?
    }
    Ok(Outcome::Good)
}

async fn set(options: &GlobalOptions, asked: Set) -> Result<Outcome, Failure> {
    let body = body(&asked)?.to_string();
    let message = SetMetadataRequest { group: asked.group, body, who: options.who(), why: asked.why };
    print_reply(options, options.metadata().await?.set_metadata(message).await?.get_ref())
}

async fn list(options: &GlobalOptions) -> Result<Outcome, Failure> {
    let reply = options.metadata().await?.list_groups(ListGroupsRequest {}).await?.into_inner();
    let groups: Vec<view::Group> = read(&reply.json)?;
    if options.json {
        groups.iter().try_for_each(show::json)?;
        return Ok(Outcome::Good);
    }
    let rows = groups.iter().map(|group| {
        vec![
            group.group.to_string(),
            members(group),
            show::or_dash(group.current),
            group.update.as_ref().map_or_else(|| "-".to_owned(), batch_text),
            group.last.as_ref().map_or_else(
                || "-".to_owned(),
                |last| format!("{} {}", last.generation, last.outcome.word()),
            ),
        ]
    });
    show::table(&["GROUP", "MEMBERS", "CURRENT", "UPDATE", "LAST"], rows)?;
    Ok(Outcome::Good)
}

fn members(group: &view::Group) -> String {
    match &group.service {
        Some(service) => format!("{} of {service}", group.members),
        None => format!("{} named", group.members),
    }
}

/// Where an update stands: `7 at batch 2/5`.
fn batch_text(update: &view::Update) -> String {
    format!("{} at batch {}/{}", update.generation, update.batch, update.batches)
}

async fn show_group(options: &GlobalOptions, group: String) -> Result<Outcome, Failure> {
    let reply = options.metadata().await?.show_group(ShowGroupRequest { group }).await?.into_inner();
    if options.json {
        show::line(&reply.json)?;
        return Ok(Outcome::Good);
    }
    let group: view::Group = read(&reply.json)?;
    let mut lines = vec![
        ("group", group.group.to_string()),
        ("members", members(&group)),
        ("current", show::or_dash(group.current.map(|generation| format!("generation {generation}")))),
    ];
    if let Some(update) = &group.update {
        lines.push((
            "update",
            format!("generation {}, asked for by {} at {}", batch_text(update), update.by, update.at),
        ));
        lines.push((
            "signals",
            format!(
                "{} of success, {} of failure, {} of expected failure, {} pending; {} of {} exposed",
                update.succeeded,
                update.failed.len(),
                update.expected_failures,
                update.open,
                update.exposed,
                update.drawn
            ),
        ));
        for (node, failure) in &update.failed {
            lines.push(("failed", format!("{node}: {} {}", failure.kind, failure.why)));
        }
    }
    if let Some(last) = &group.last {
        lines.push((
            "last",
            format!("generation {} {} by {} at {}", last.generation, last.outcome.word(), last.who, last.at),
        ));
        lines.push(("because", last.because.clone()));
    }
    let mut page = Page::default();
    page.lines(lines.iter().map(|(word, value)| format!("{word:<9} {value}")));
    page.print()?;
    Ok(Outcome::Good)
}

async fn served(options: &GlobalOptions, group: String, instance: String) -> Result<Outcome, Failure> {
    let message = InstanceMetadataRequest { group, instance };
    let reply = options.metadata().await?.instance_metadata(message).await?.into_inner();
    if options.json {
        show::line(&reply.json)?;
        return Ok(Outcome::Good);
    }
    let served: view::Served = read(&reply.json)?;
    let mut page = Page::default();
    page.document("", &served.metadata);
    page.print()?;
    let asked = if served.exposed { ", which is being exposed" } else { "" };
    show::note(format!("{} is served generation {}{asked}", served.instance, served.generation));
    Ok(Outcome::Good)
}

async fn explain(options: &GlobalOptions, group: String) -> Result<Outcome, Failure> {
    let message = ExplainGroupRequest { group: group.clone() };
    let reply = options.metadata().await?.explain_group(message).await?.into_inner();
    if options.json {
        show::line(&reply.json)?;
        return Ok(Outcome::Good);
    }
    let reasons: Vec<WaitingFor> = read(&reply.json)?;
    if reasons.is_empty() {
        show::line(format!("no update of {group} waits"))?;
        return Ok(Outcome::Good);
    }
    let reasons: Vec<_> = reasons.into_iter().map(Into::into).collect();
    let mut page = Page::default();
    show::reasons(&mut page, &reasons, 0);
    page.print()?;
    Ok(Outcome::Good)
}
