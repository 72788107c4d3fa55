//! `tidegate task …`: hooks that were ordered on nodes.

use super::exit::{Failure, Outcome};
use super::fleet::print_done;
use super::options::GlobalOptions;
use super::show::{self, Page};
use clap::Subcommand;
use tidegate_proto::record::task::Ended;
use tidegate_proto::wire::v1::{ListTasksRequest, SettleTaskRequest, Task};
use tidegate_proto::{NodeId, TaskId};

const AFTER: &str = "\
A task is a hook that a node's agent runs once: what warms a compute release up before it goes out (`prewarm`), or removes
its image (`removal`). Its states:
  waiting     no agent has claimed it yet
  claimed     its agent runs it, or did when it was last heard
  unknown     it was begun, and its agent cannot find out how it ended: a person settles it
  succeeded, failed

Examples:
  tidegate task list
  tidegate task show node-7 prewarm-1f0c9a3b77e2-53-0
  tidegate task settle node-7 prewarm-1f0c9a3b77e2-53-0 --outcome failed --why \"the machine was replaced\"

What failed is tried again by `tidegate release retry`.";

/// Verbs on tasks.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List tasks that wait, run, or whose outcome is still needed.
    List {
        /// Only tasks of this node.
        #[arg(long)]
        node: Option<NodeId>,
    },
    /// Show one task, with the last lines of its hook's output.
    Show {
        /// Node, as `tidegate task list` shows it.
        node: NodeId,
        /// Task ID, as `tidegate task list` shows it.
        task: TaskId,
    },
    /// Declare how the process of a claimed task ended. The task is not run again.
    Settle {
        /// Node, as `tidegate task list` shows it.
        node: NodeId,
        /// Task ID, as `tidegate task list` shows it.
        task: TaskId,
        /// Outcome: succeeded or failed.
        #[arg(long)]
        outcome: Ended,
        /// How you know, for the audit log.
        #[arg(long)]
        why: String,
    },
}

impl Args {
    /// Asks and shows.
    pub(super) async fn run(self, options: &GlobalOptions) -> Result<Outcome, Failure> {
        match self.verb {
            Verb::List { node } => list(options, node).await,
            Verb::Show { node, task } => show_one(options, &node, &task).await,
            Verb::Settle { node, task, outcome, why } => {
                let asked = SettleTaskRequest {
                    node: node.to_string(),
                    task: task.to_string(),
                    outcome: outcome.to_string(),
                    why,
                    who: options.who(),
                };
                print_done(options, &options.client().await?.settle_task(asked).await?.into_inner())
            }
        }
    }
}

async fn ask(options: &GlobalOptions, node: String, task: String) -> Result<Vec<Task>, Failure> {
    let mut stream = options.client().await?.list_tasks(ListTasksRequest { node, task }).await?.into_inner();
    let mut tasks = Vec::new();
    while let Some(task) = stream.message().await? {
        tasks.push(task);
    }
    Ok(tasks)
}

async fn list(options: &GlobalOptions, node: Option<NodeId>) -> Result<Outcome, Failure> {
    let tasks = ask(options, node.map(|node| node.to_string()).unwrap_or_default(), String::new()).await?;
    if options.json {
        tasks.iter().try_for_each(show::json)?;
        return Ok(Outcome::Good);
    }
    let rows = tasks.iter().map(|task| {
        let release = format!("{}/{} ({})", task.stream, task.revision, task.tag);
        let because = show::or_dash(task.why.as_ref());
        vec![task.node.clone(), task.id.clone(), task.hook.clone(), release, task.state.clone(), because]
    });
    show::table(&["NODE", "TASK", "HOOK", "RELEASE", "STATE", "BECAUSE"], rows)?;
    Ok(Outcome::Good)
}

async fn show_one(options: &GlobalOptions, node: &NodeId, id: &TaskId) -> Result<Outcome, Failure> {
    for task in ask(options, node.to_string(), id.to_string()).await? {
        if options.json {
            show::json(&task)?;
            continue;
        }
        let state = match &task.why {
            Some(why) => format!("{}: {why}", task.state),
            None => task.state.clone(),
        };
        let mut page = Page::default();
        page.lines([
            format!("task     {} on {}", task.id, task.node),
            format!("hook     {}", task.hook),
            format!("release  revision {} of {} ({})", task.revision, task.stream, task.tag),
            format!("ordered  {}", show::time(task.ordered_at)),
            format!("state    {state}"),
        ]);
        page.lines(task.reported_at.map(|at| format!("reported {}", show::time(at))));
        page.lines(task.claimed_by.as_ref().map(|nonce| format!("agent    {nonce}")));
        page.lines(task.settled.as_ref().map(|word| {
            format!("settled  {} by {}, {}: {}", word.outcome, word.who, show::time(word.at), word.why)
        }));
        if !task.output.is_empty() {
            page.line("output");
            page.lines(task.output.lines().map(|line| format!("  {line}")));
        }
        page.print()?;
    }
    Ok(Outcome::Good)
}
