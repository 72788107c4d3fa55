//! The program: what is asked for, the run, and what came of it.

use anyhow::{Context, ensure};
use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::arguments::Arguments;
use super::isolate;
use super::plan::Plan;
use super::run::{Run, Sums};
use crate::world::interrupt::Interrupt;

/// Runs what was asked for.
pub fn main(arguments: &Arguments) -> ExitCode {
    let done = match arguments.print_plan {
        true => print_plan(arguments),
        false if isolate::is_inside() => inside(arguments),
        false => outside(arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("tidegate-nemesis: could not run: {error:#}");
        ExitCode::from(2)
    })
}

fn print_plan(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let plan = arguments.drawn(arguments.seed_or_any())?;
    println!("{}", serde_json::to_string_pretty(&plan)?);
    Ok(ExitCode::SUCCESS)
}

/// Chooses the seed and the directory, and runs this program in namespaces of its own.
fn outside(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let seed = arguments.seed_or_any();
    let plan = arguments.plan.as_ref();
    let is_pipe = plan.is_some_and(|path| path.metadata().is_ok_and(|found| found.file_type().is_fifo()));
    // A wrong plan is refused before anything is made. What is in a pipe can be read once: inside.
    if !is_pipe {
        arguments.drawn(seed)?;
    }
    isolate::is_possible()?;
    let (directory, is_ours) = match &arguments.directory {
        Some(directory) => (directory.clone(), false),
        None => {
            let made = tempfile::Builder::new().prefix("tidegate-nemesis-").tempdir();
            (made.context("could not make a directory")?.keep(), true)
        }
    };
    let mut words: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    if arguments.seed.is_none() {
        words.extend(["--seed".into(), seed.to_string().into()]);
    }
    if is_ours {
        words.extend(["--directory".into(), directory.clone().into()]);
    }
    let code = isolate::run_inside(&words)?;
    if is_ours && code == ExitCode::SUCCESS {
        std::fs::remove_dir_all(&directory).context("could not remove the logs of a good run")?;
    }
    Ok(code)
}

fn inside(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let plan = arguments.drawn(arguments.seed_or_any())?;
    let directory: PathBuf = arguments.directory.clone().context("the program inside has no directory")?;
    std::fs::create_dir_all(&directory).context("could not make the directory")?;
    let is_empty = std::fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_none());
    ensure!(is_empty, "{} is not empty: a run begins in a directory of its own", directory.display());
    // PostgreSQL runs as another user, and reads what is in it.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&directory, open).context("could not open the directory")?;
    println!("{plan}logs: {}", directory.display());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = Interrupt::listen()?;
        tokio::select! {
            done = play(arguments, &plan, &directory) => done,
            error = interrupt.interrupted() => Err(error.into()),
        }
    })
}

async fn play(arguments: &Arguments, plan: &Plan, directory: &std::path::Path) -> anyhow::Result<ExitCode> {
    let mut run = Run::begin(directory, arguments.log).await?;
    if let Err(error) = run.play(plan, Duration::from_secs(arguments.minutes * 60)).await {
        println!("{}\n{}", run.testbed.log.last_lines().join("\n"), run.testbed.logs());
        return Err(error);
    }
    summary(&run, plan);
    if run.broken.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("\nseed {} FAILED; its log:", plan.seed);
    println!("{}", run.testbed.log.last_lines().join("\n"));
    println!("\nbroken:");
    run.broken.iter().for_each(|broken| println!("  {broken}"));
    println!("logs: {}", directory.display());
    Ok(ExitCode::FAILURE)
}

fn summary(run: &Run, plan: &Plan) {
    println!("\nupgrades:");
    run.ended.iter().for_each(|ended| println!("  {ended}"));
    println!("\nfaults that came:");
    for (kind, count) in &run.faults.fired {
        println!("  {count:>4} {kind}");
    }
    let planned = plan.upgrades.iter().take(run.ended.len()).flat_map(|upgrade| &upgrade.faults);
    let planned: BTreeSet<String> = planned.map(|fault| fault.what.kind()).collect();
    let never: Vec<&String> = planned.iter().filter(|kind| !run.faults.fired.contains_key(*kind)).collect();
    println!("planned and never came: {never:?}");
    let Sums { sent, strict, explained, not_sent } = &run.requests;
    println!("requests: {sent} sent, {strict} of these while no fault explains a failure");
    println!("requests: {explained} failed, explained by faults; {not_sent} not sent in time (machine busy)");
    println!("recovery after kill -9 of the leader, undisturbed, in ms: {:?}", run.faults.recoveries);
    println!("revisions of the store: {}; breaches: {}", run.auditor.revisions(), run.broken.len());
}
