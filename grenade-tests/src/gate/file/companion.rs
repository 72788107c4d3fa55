//! The companions of a gate: each becomes a gate of its own, that shares the rest with the gate that names it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::gate::file::command::{commands, of_service};
use crate::gate::file::schema::schema_of;
use crate::gate::file::service::{Service, service};
use crate::gate::file::spec::spec;
use crate::gate::file::{Gate, Schema};
use crate::gate::written::companion::Companion;
use crate::gate::written::upgrade::UpgradeFields;
use crate::gate::written::{Engine, GateFile};
use crate::load::findings::Findings;
use crate::load::script::Script;
use tidegate_proto::GateTag;

/// The most companions: three services have six orders.
const MOST: usize = 2;

/// A companion, checked.
#[derive(Debug)]
pub struct Settled {
    /// Its place in the file.
    field: String,
    service: Service,
    instances: u32,
    database: Option<(Engine, Vec<super::Command>)>,
    schema: Option<Schema>,
    upgrade: UpgradeFields,
}

/// The place by which the commands of the gate's own service know the balancer of a companion.
pub fn place(name: &str) -> String {
    format!("url_{}", name.replace('-', "_"))
}

/// What a gate with companions cannot have.
pub(super) fn allowed(written: &GateFile, findings: &mut Findings) {
    if written.companions.is_empty() {
        return;
    }
    let count = written.companions.len();
    if count > MOST {
        let found = format!("{count} are there; at most {MOST} are allowed, because every order is tried");
        findings.add("companions", found);
    }
    if written.procedure.is_some() {
        findings.add("companions", "are upgraded by Tidegate, and are not allowed beside `procedure`");
    }
    if written.tags.contains(&GateTag::ZeroImpact) {
        findings.add(
            "tags",
            "zero-impact compares two pools of one service, and is not allowed beside `companions`",
        );
    }
    if !written.tags.contains(&GateTag::Rolling) {
        findings.add("companions", "are upgraded in each order for the tag rolling; add it to `tags`");
    }
}

/// Checks the companions.
pub(super) fn companions(
    written: Vec<Companion>,
    (own, instances, engine): (&str, u32, Option<Engine>),
    here: &Path,
    findings: &mut Findings,
) -> Vec<Settled> {
    let mut names = BTreeMap::from([(own.to_owned(), "service.name".to_owned())]);
    let mut settled = Vec::new();
    for (n, companion) in written.into_iter().enumerate() {
        let mut inner = Findings::default();
        let field = format!("companions[{n}]");
        let name = companion.service.name.to_string();
        if let Some(other) = names.insert(name.clone(), format!("{field}.service.name")) {
            inner.add(
                "service.name",
                format!("`{name}` is the name at {other} too; each service needs its own"),
            );
        }
        settled.extend(one(companion, (&field, instances), engine, here, &mut inner));
        findings.add_within(&field, inner);
    }
    settled
}

fn one(
    written: Companion,
    (field, instances): (&str, u32),
    engine: Option<Engine>,
    here: &Path,
    findings: &mut Findings,
) -> Option<Settled> {
    let instances = written.instances.unwrap_or(instances);
    let places = of_service(&written.service, engine);
    let skips_level = written.service.skip_level;
    let service = service(written.service, here, &places, findings);
    if written.database.is_some() && engine.is_none() {
        findings.add("database", "has the engine of the gate's `database`, and there is none; add it");
    }
    let database = written
        .database
        .zip(engine)
        .map(|(database, engine)| (engine, commands("database.init", &database.init, &places, findings)));
    if written.schema.as_ref().is_some_and(|schema| schema.migrations.is_some()) {
        let allowed = "is not allowed for a companion; write the commands of the service (`expand`, `migrate`, `contract`)";
        findings.add("schema.migrations", allowed);
    }
    let schema =
        written.schema.and_then(|steps| schema_of(&steps, here, (engine, skips_level), &places, findings));
    spec(&written.upgrade, instances, findings);
    let field = field.to_owned();
    Some(Settled { field, service: service?, instances, database, schema, upgrade: written.upgrade })
}

/// A step goes to the gate's own service, or to a companion.
pub(super) fn targets(script: Option<&Script>, companions: &[Settled], findings: &mut Findings) {
    let names: Vec<&str> = companions.iter().map(|companion| companion.service.name.as_str()).collect();
    for (n, step) in script.iter().flat_map(|script| &script.steps).enumerate() {
        let Some(to) = step.to.as_deref().filter(|to| !names.contains(to)) else { continue };
        let allowed = match names.is_empty() {
            true => "the gate has no `companions`".to_owned(),
            false => format!("the companions are: {}", names.join(", ")),
        };
        findings.add(&format!("load.steps[{n}].to"), format!("`{to}` is no companion; {allowed}"));
    }
}

impl Gate {
    /// Takes the companions in, each as a gate.
    #[must_use]
    pub(super) fn beside(mut self, companions: Vec<Settled>) -> Self {
        self.companions = companions.into_iter().map(|companion| self.companion(companion)).collect();
        self
    }

    fn companion(&self, companion: Settled) -> Self {
        Self {
            name: self.name.clone(),
            here: self.here.clone(),
            origin: self.origin.within(&companion.field),
            unused: Vec::new(),
            instances: companion.instances,
            service: companion.service,
            database: companion.database,
            schema: companion.schema,
            balancer: self.balancer,
            store: self.store,
            upgrade_id: self.upgrade_id.clone(),
            upgrade: companion.upgrade,
            documented: None,
            procedure: None,
            pace: self.pace,
            script: None,
            load_command: None,
            survival: None,
            faults: None,
            arrangements: Vec::new(),
            rollback_from: Vec::new(),
            tags: self.tags.clone(),
            impact: self.impact,
            host: self.host,
            companions: Vec::new(),
            is_companion: true,
        }
    }

    /// What a node of this gate is called: beside other services, by the service.
    pub fn node(&self, number: u32) -> String {
        match self.is_companion || !self.companions.is_empty() {
            true => format!("{}-{number}", self.service.name),
            false => format!("node-{number}"),
        }
    }
}
