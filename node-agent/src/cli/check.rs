//! `tidegate-agent check`: tries whether this node can do what its configuration asks for. Nothing is changed.

mod findings;
mod other;
mod program;
mod service;

use crate::config::Service;
use crate::config::settings::{MetadataGroup, Node};
use crate::drain::disable_file::DisableFileHandle;
use crate::durable::Made;
use crate::machine::Machine;
use crate::place::others_who_write;
use findings::{Findings, parent};
use program::cannot_begin;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// Tries everything, prints every finding; exit code 2 where one keeps the agent from its work. `config`: the file that
/// `node` was read from.
pub(super) async fn check(node: &Node, config: &Path) -> anyhow::Result<ExitCode> {
    let mut findings = Findings::default();
    for (field, directory) in [("state_dir", &node.state_dir), ("runtime_dir", &node.runtime_dir)] {
        if let Err(why) = writable(directory) {
            findings.blocking.push(format!("{field} {}: {why}", directory.display()));
        }
    }
    if let Err(error) = tidegate_store::Store::connect(&node.store, node.prefix.clone()).await {
        findings.notes.push(format!("store: {}", tidegate_proto::Chain(&error)));
    }
    for service in node.services.values() {
        findings.blocking.extend(cannot_disable_one(node, service));
        service::look_at(node, config, service, &mut findings).await;
    }
    for group in node.metadata.values() {
        documents(group, &mut findings);
    }
    for (name, hook) in &node.hooks {
        if let Some(why) = cannot_begin(&hook.argv) {
            findings.blocking.push(format!("hook {name}: its program {why}"));
        }
    }
    findings.notes.extend(open_to_others(node));
    if !node.services.is_empty() {
        let untried = "whether disable_file makes health_url answer 503, and the balancers see it, is not tried here: each drain \
            measures it before anything is stopped";
        findings.notes.push(untried.to_owned());
    }
    let mut text = String::new();
    for finding in &findings.blocking {
        writeln!(text, "error: {finding}")?;
    }
    for note in &findings.notes {
        writeln!(text, "note:  {note}")?;
    }
    let is_able = findings.blocking.is_empty();
    if is_able {
        let count = node.services.len();
        writeln!(text, "node {}: {count} services, nothing keeps the agent from its work", node.name)?;
    }
    super::print(&text)?;
    Ok(if is_able { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Directories that the agent writes to and that other users may write to as well.
pub(super) fn open_to_others(node: &Node) -> Vec<String> {
    let of_agent = [("state_dir", &node.state_dir), ("runtime_dir", &node.runtime_dir)];
    let of_agent = of_agent.into_iter().map(|(field, directory)| (field.to_owned(), directory.as_path()));
    let of_services = node
        .services
        .values()
        .map(|service| (format!("service {}: disable_file", service.name), parent(&service.disable_file)));
    let of_groups =
        node.metadata.values().map(|group| (format!("metadata {}: file", group.name), parent(&group.file)));
    let each = of_agent.chain(of_services).chain(of_groups);
    each.filter_map(|(field, directory)| {
        let others = others_who_write(directory)?;
        let directory = directory.display();
        Some(format!(
            "{field}: {others} can write to {directory}: they can replace what the agent puts there"
        ))
    })
    .collect()
}

/// What keeps the agent from taking an instance out of rotation, and so also from hiding what is refused: without that it
/// does not begin.
pub(super) fn cannot_disable(node: &Node) -> Vec<String> {
    node.services.values().filter_map(|service| cannot_disable_one(node, service)).collect()
}

fn cannot_disable_one(node: &Node, service: &Service) -> Option<String> {
    let directory = service.disable_file.parent().unwrap_or(Path::new("/"));
    // Those that the agent makes itself when it begins.
    let made = directory == node.state_dir
        || directory == node.runtime_dir
        || directory == node.state_dir.join(service.name.as_str());
    let tried = match made {
        true => writable(directory),
        false => DisableFileHandle::new(
            &Machine::shared(),
            &service.disable_file,
            node.name.clone(),
            String::new(),
        )
        .try_directory()
        .map_err(|e| e.to_string()),
    };
    let (name, path) = (&service.name, service.disable_file.display());
    tried.err().map(|why| {
        format!(
            "service {name}: the directory of disable_file {path} cannot be written ({why}): nothing could be taken out \
             of rotation; make it, or name a directory that the agent may write"
        )
    })
}

/// The file of a metadata group can be written, and its hook is there.
fn documents(group: &MetadataGroup, findings: &mut Findings) {
    let (name, file) = (&group.name, group.file.display());
    let directory = group.file.parent().unwrap_or(Path::new("/"));
    if !directory.is_dir() {
        findings.blocking.push(format!("metadata {name}: the directory of {file} is not there"));
    } else if let Err(why) = writable(directory) {
        findings.blocking.push(format!("metadata {name}: {file}: {why}"));
    }
    if let Some(why) = group.hook.as_deref().and_then(cannot_begin) {
        findings.blocking.push(format!("metadata {name}: the hook {why}"));
    }
}

fn writable(directory: &Path) -> Result<(), String> {
    let existing = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    if !existing.is_dir() {
        return Err(format!("{} is not a directory", existing.display()));
    }
    let trial = Made::begin(&existing.join("tidegate-trial"), 0o600);
    trial.map(drop).map_err(|e| format!("{} cannot be written: {e}", existing.display()))
}
