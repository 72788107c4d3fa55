//! `tidegate fleet …`: what is out there.

mod reconcile;
mod versions;

use super::exit::{Failure, Outcome};
use super::options::GlobalOptions;
use super::show::{self, Page};
use clap::Subcommand;
use tidegate_proto::wire::v1::{
    CordonNodeRequest, DecommissionInstanceRequest, Done, FleetHistoryRequest, FleetSpreadRequest, Instance,
    ListInstancesRequest, ReconcileStoreRequest, SetWindowRequest, UncordonNodeRequest,
};

/// Verbs on the fleet.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Count the instances at each version, and the silent ones.
    Spread {
        /// Only this service, named as in `tidegate fleet spread`. Default: every service.
        service: Option<String>,
    },
    /// Show which versions of a service run: distinct, minimum, maximum, and how many instances are silent.
    ///
    /// Exits 3 while an instance is silent or its version is not known: the minimum may then be lower.
    Versions {
        /// Service, as `tidegate fleet spread` shows it.
        service: String,
    },
    /// List instances: version, release, rotation, health, step.
    List {
        /// Only this service, named as in `tidegate fleet spread`. Default: every service.
        service: Option<String>,
        /// Include decommissioned instances.
        #[arg(long)]
        all: bool,
    },
    /// Print the audit log of the fleet: decommissions, maintenance, tokens, evidence, reconciliations.
    History,
    /// Remove a dead instance from all gates. Refused while it reports.
    Decommission {
        /// Instance as SERVICE/NODE, as `tidegate fleet list` shows it.
        instance: String,
        /// Reason for the audit log.
        #[arg(long)]
        why: String,
        /// How it was stopped or fenced. Required for an instance below the version that an upgrade requires, for one
        /// above the version that a rollback returns to, and for one that this store has not admitted.
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        stopped_how: String,
        /// How the etcd user of its agent was revoked. Required for an instance that contradicts the store and still
        /// reports. Its reports up to then are ignored.
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        how: String,
    },
    /// Put a node in maintenance: upgrades do not move it and count it as out of rotation.
    Cordon {
        /// Node, as `tidegate fleet list` shows it after the service and a slash.
        node: String,
        /// Reason for the audit log.
        #[arg(long)]
        why: String,
    },
    /// Reconcile a store that was restored from a backup, or is blank, with what its witnesses obeyed.
    ///
    /// Without --apply it shows the plan and changes nothing: every witness with its claim, what runs where, what
    /// changes for whom, and the hash of all that. With --apply it does what that plan says, if nothing that the plan was
    /// computed from has changed. It is refused while the running version of an instance is unknown or lies outside the
    /// new window, unless the instance is named with --disregard.
    Reconcile {
        /// Show the plan only (this is the default).
        #[arg(long, conflicts_with = "apply")]
        plan: bool,
        /// Hash of the plan to apply.
        #[arg(long, value_name = "HASH", requires = "why")]
        apply: Option<String>,
        /// Instance whose claim is not applied, whose version need not be known, and whose agent stays as it is; may be
        /// repeated. Give it with the plan and with --apply.
        #[arg(long, value_name = "SERVICE/NODE")]
        disregard: Vec<String>,
        /// Instance whose claim is applied although no other node and no database makes it; may be repeated. Give it with
        /// the plan and with --apply.
        #[arg(long, value_name = "SERVICE/NODE")]
        include: Vec<String>,
        /// Reason for the audit log.
        #[arg(long)]
        why: Option<String>,
    },
    /// Set the versions of a service that may be admitted, where no upgrade does so.
    ///
    /// Refused while an upgrade of the service is active or paused; while one of a schema that it shares is, unless the
    /// window becomes narrower; while the store is contradicted; below what a schema of the service has contracted, or what a
    /// compute release needs; and where an instance would be outside. A silent instance counts at its last admission.
    Window {
        /// Service, as `tidegate fleet spread` shows it.
        service: String,
        /// Lowest version that may be admitted.
        #[arg(long, value_name = "N")]
        floor: u32,
        /// Highest version that may be admitted.
        #[arg(long, value_name = "M")]
        ceiling: u32,
        /// Reason for the audit log.
        #[arg(long, required_unless_present = "dry_run", default_value = "", hide_default_value = true)]
        why: String,
        /// Check whether the window can be set, and change nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Take a node out of maintenance.
    Uncordon {
        /// Node, as `tidegate fleet list` shows it after the service and a slash.
        node: String,
        /// Note for the audit log.
        #[arg(long, default_value = "", hide_default_value = true)]
        why: String,
    },
}

impl Args {
    /// Asks and shows.
    pub(super) async fn run(self, options: &GlobalOptions) -> Result<Outcome, Failure> {
        let mut client = options.client().await?;
        let who = options.who();
        let done = match self.verb {
            Verb::Spread { service } => return spread(options, service.unwrap_or_default()).await,
            Verb::Versions { service } => return versions::show(options, service).await,
            Verb::List { service, all } => return list(options, service.unwrap_or_default(), all).await,
            Verb::History => {
                let events = client.fleet_history(FleetHistoryRequest {}).await?;
                return show::events(events.into_inner(), options.json).await;
            }
            Verb::Decommission { instance, why, stopped_how, how } => {
                let revoked_how = how;
                let asked = DecommissionInstanceRequest { instance, why, stopped_how, who, revoked_how };
                client.decommission_instance(asked).await?
            }
            Verb::Cordon { node, why } => client.cordon_node(CordonNodeRequest { node, why, who }).await?,
            Verb::Reconcile { apply: None, disregard, include, .. } => {
                return reconcile::plan(options, disregard, include).await;
            }
            Verb::Reconcile { apply: Some(hash), disregard, include, why, .. } => {
                let why = why.unwrap_or_default();
                client.reconcile_store(ReconcileStoreRequest { why, who, hash, disregard, include }).await?
            }
            Verb::Window { service, floor, ceiling, why, dry_run } => {
                let asked = SetWindowRequest { service, floor, ceiling, why, who };
                match dry_run {
                    true => client.preview_window(asked).await?,
                    false => client.set_window(asked).await?,
                }
            }
            Verb::Uncordon { node, why } => {
                client.uncordon_node(UncordonNodeRequest { node, why, who }).await?
            }
        };
        print_done(options, &done.into_inner())
    }
}

/// Shows that a command was accepted.
pub(super) fn print_done(options: &GlobalOptions, done: &Done) -> Result<Outcome, Failure> {
    if options.json {
        show::json(done)?
    } else {
        show::line(&done.what)?
    }
    Ok(Outcome::Good)
}

async fn spread(options: &GlobalOptions, service: String) -> Result<Outcome, Failure> {
    let reply = options.client().await?.fleet_spread(FleetSpreadRequest { service }).await?.into_inner();
    if options.json {
        show::json(&reply)?;
        return Ok(Outcome::Good);
    }
    let rows = reply.services.iter().map(|spread| {
        let window = show::window(spread.floor, spread.ceiling);
        vec![spread.service.clone(), show::spread(spread), spread.in_service.to_string(), window]
    });
    let mut page = Page::default();
    page.table(&["SERVICE", "VERSIONS", "IN SERVICE", "ADMITTED"], rows);
    let unreadable = reply.services.iter().flat_map(|spread| &spread.unreadable);
    page.lines(unreadable.map(|record| format!("unreadable: {record}")));
    page.lines(reply.services.iter().filter_map(|spread| spread.outside.as_ref()));
    page.print()?;
    Ok(Outcome::Good)
}

/// Rows are shown in pages, so that the first of 20,000 need not wait for the last.
const PAGE: usize = 500;

async fn list(options: &GlobalOptions, service: String, all: bool) -> Result<Outcome, Failure> {
    let mut stream =
        options.client().await?.list_instances(ListInstancesRequest { service, all }).await?.into_inner();
    let mut page = Vec::new();
    let mut first = true;
    while let Some(instance) = stream.message().await? {
        if options.json {
            show::json(&instance)?;
            continue;
        }
        page.push(row(&instance));
        if page.len() == PAGE {
            show_page(&mut page, &mut first)?;
        }
    }
    if !options.json && (first || !page.is_empty()) {
        show_page(&mut page, &mut first)?;
    }
    Ok(Outcome::Good)
}

fn show_page(page: &mut Vec<Vec<String>>, first: &mut bool) -> Result<(), Failure> {
    let mut shown = Page::default();
    shown.table(&HEADER, page.drain(..));
    if std::mem::take(first) { shown.print() } else { shown.without_header().print() }
}

/// The status that an operator gave the instance at a balancer, such as MAINT.
fn by_hand(instance: &Instance) -> Option<&str> {
    let by_hand = instance.balancers.iter().find(|balancer| balancer.by_hand)?;
    Some(&by_hand.status)
}

/// What an instance still works on, and what balancers say of it, where there is anything to say.
pub(super) fn under_way(instance: &Instance) -> Option<String> {
    let counted = instance.in_flight.map(|count| format!("{count} requests in flight"));
    let balancers = instance.balancers.iter().map(|balancer| {
        let sessions = balancer.sessions.map_or_else(String::new, |count| format!(", {count} sessions"));
        format!("{}: {}{sessions}", balancer.balancer, balancer.status)
    });
    let said: Vec<String> = counted.into_iter().chain(balancers).collect();
    (!said.is_empty()).then(|| format!("{}/{}: {}", instance.service, instance.node, said.join("; ")))
}

/// The columns of every table of instances.
pub(super) const HEADER: [&str; 7] = ["INSTANCE", "VERSION", "RELEASE", "ROTATION", "HEALTH", "STEP", "WAVE"];

/// One instance, as in every table of instances.
pub(super) fn row(instance: &Instance) -> Vec<String> {
    let rotation = match (instance.decommissioned, instance.silent, instance.cordoned) {
        (true, ..) => "decommissioned".to_owned(),
        (_, true, _) => "silent".to_owned(),
        (.., true) => format!("{} (cordoned)", instance.rotation),
        _ if instance.quarantined.is_some() => format!("{} (quarantined)", instance.rotation),
        _ => match by_hand(instance) {
            Some(word) => format!("{} ({word})", instance.rotation),
            None => instance.rotation.clone(),
        },
    };
    vec![
        format!("{}/{}", instance.service, instance.node),
        show::or_dash(instance.version),
        show::or_dash(instance.release.as_ref()),
        rotation,
        instance.health.clone(),
        show::step(instance),
        show::or_dash(instance.wave),
    ]
}
