//! The operator: starts the upgrade with the commands that a person would type, and asks the coordinator how it goes.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use tidegate_proto::wire::v1;
use tidegate_proto::wire::v1::operator_client::OperatorClient;
use tonic::transport::{Channel, Endpoint};

use crate::world::executed::Executions;
use crate::world::wait::wait_for;
use crate::world::{Spawn, World, coordinator, program};

/// How long one question may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a command may take.
const COMMAND: Duration = Duration::from_secs(30);
/// How long six agents may take to stage, start and report on a busy machine.
const FLEET: Duration = Duration::from_secs(120);

/// Asks one coordinator.
#[derive(Debug, Clone)]
pub struct Operator {
    client: OperatorClient<Channel>,
    url: String,
    service: String,
    upgrade: String,
    executed: Executions,
}

impl Operator {
    /// Connects, and waits until a coordinator leads; for a service and the name of its upgrade.
    ///
    /// # Errors
    /// When no coordinator answers or leads.
    pub async fn of(grpc: SocketAddr, service: &str, upgrade: &str) -> anyhow::Result<Self> {
        let url = format!("http://{grpc}");
        let endpoint = Endpoint::from_shared(url.clone())?.timeout(ANSWER).tcp_nodelay(true);
        let channel = endpoint.connect().await.context("could not connect to the coordinator")?;
        let (service, upgrade) = (service.to_owned(), upgrade.to_owned());
        let (client, executed) = (OperatorClient::new(channel), Executions::default());
        let operator = Self { client, url, service, upgrade, executed };
        wait_for("a leader", COMMAND, || async {
            let reply = operator.client.clone().leader(v1::LeaderRequest {}).await;
            let reply = reply.map_err(|status| status.message().to_owned())?.into_inner();
            if reply.here {
                Ok(())
            } else {
                Err(reply.trouble.unwrap_or_else(|| "no coordinator leads".to_owned()))
            }
        })
        .await?;
        Ok(operator)
    }

    /// The same, for another upgrade.
    #[must_use]
    pub fn called(&self, upgrade: &str) -> Self {
        Self { upgrade: upgrade.to_owned(), ..self.clone() }
    }

    /// The URL that commands are given.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What it has executed: commands of `tidegate`, without the options that every command has.
    pub fn executed(&self) -> &Executions {
        &self.executed
    }

    /// The upgrade that it speaks of.
    pub fn upgrade(&self) -> &str {
        &self.upgrade
    }

    /// Every instance, by node.
    ///
    /// # Errors
    /// When the coordinator does not answer.
    pub async fn instances(&self) -> Result<Vec<v1::Instance>, tonic::Status> {
        let request = v1::ListInstancesRequest { service: self.service.clone(), all: false };
        let mut stream = self.client.clone().list_instances(request).await?.into_inner();
        let mut instances = Vec::new();
        while let Some(instance) = stream.message().await? {
            instances.push(instance);
        }
        Ok(instances)
    }

    /// Waits until so many instances are at a version, in rotation and healthy.
    ///
    /// # Errors
    /// When they are not in time; it names those that are not.
    pub async fn fleet_at(&self, count: u32, version: u32) -> anyhow::Result<()> {
        wait_for(&format!("{count} instances at version {version} in rotation"), FLEET, || async {
            let seen = self.instances().await.map_err(|status| status.message().to_owned())?;
            let good = |i: &&v1::Instance| i.in_service && i.version == Some(version) && i.step == "serving";
            if seen.iter().filter(good).count() == count as usize {
                return Ok(());
            }
            let lagging: Vec<String> = seen
                .iter()
                .filter(|instance| !good(instance))
                .map(|i| {
                    format!("{} {} {} {}", i.node, i.step, i.rotation, i.because.as_deref().unwrap_or(""))
                })
                .collect();
            Err(format!("{} instances; not in service: {}", seen.len(), lagging.join(", ")))
        })
        .await?;
        Ok(())
    }

    /// The upgrade's status.
    ///
    /// # Errors
    /// When the coordinator does not answer.
    pub async fn status(&self) -> Result<v1::UpgradeStatusReply, tonic::Status> {
        let request = v1::UpgradeStatusRequest { id: self.upgrade.clone(), max_instances: 0 };
        Ok(self.client.clone().upgrade_status(request).await?.into_inner())
    }

    /// `tidegate upgrade start`.
    ///
    /// # Errors
    /// When it is refused, with the command's own words.
    pub async fn start(&self, world: &World, spec: &Path) -> anyhow::Result<()> {
        self.start_as(world, spec, &self.upgrade).await
    }

    /// The same, under another name.
    ///
    /// # Errors
    /// As [`Operator::start`].
    pub async fn start_as(&self, world: &World, spec: &Path, id: &str) -> anyhow::Result<()> {
        let spec = spec.display().to_string();
        self.command(world, "upgrade-start", &["upgrade", "start", &spec, "--id", id]).await.map(|_| ())
    }

    /// `tidegate upgrade approve … contract --accept sessions`: a database that cannot list its sessions says so, and a
    /// person must have read it.
    ///
    /// # Errors
    /// When it is refused, with the command's own words.
    pub async fn accept(&self, world: &World) -> anyhow::Result<()> {
        let note = "nothing else has the file open";
        let arguments =
            ["upgrade", "approve", &self.upgrade, "contract", "--accept", "sessions", "--note", note];
        self.command(world, "upgrade-approve", &arguments).await.map(|_| ())
    }

    /// `tidegate upgrade approve … PHASE`.
    ///
    /// # Errors
    /// When it is refused, with the command's own words.
    pub async fn approve(&self, world: &World, phase: &str, note: &str) -> anyhow::Result<()> {
        let arguments = ["upgrade", "approve", &self.upgrade, phase, "--note", note];
        self.command(world, "upgrade-approve", &arguments).await.map(|_| ())
    }

    /// `tidegate upgrade pause`.
    ///
    /// # Errors
    /// When it is refused, with the command's own words.
    pub async fn pause(&self, world: &World, why: &str) -> anyhow::Result<()> {
        let arguments = ["upgrade", "pause", &self.upgrade, "--why", why];
        self.command(world, "upgrade-pause", &arguments).await.map(|_| ())
    }

    /// `tidegate upgrade resume`.
    ///
    /// # Errors
    /// When it is refused, with the command's own words.
    pub async fn resume(&self, world: &World, why: &str) -> anyhow::Result<()> {
        let arguments = ["upgrade", "resume", &self.upgrade, "--why", why];
        self.command(world, "upgrade-resume", &arguments).await.map(|_| ())
    }

    /// `tidegate upgrade rollback`.
    ///
    /// # Errors
    /// When it is refused, with the command's own words.
    pub async fn roll_back(&self, world: &World, why: &str) -> anyhow::Result<()> {
        let arguments = ["upgrade", "rollback", &self.upgrade, "--why", why];
        self.command(world, "upgrade-rollback", &arguments).await.map(|_| ())
    }

    /// `tidegate upgrade certificate > FILE`, then `tidegate certificate verify FILE`, which recomputes it without a store.
    /// Answers its digest.
    ///
    /// # Errors
    /// When there is none, or it is not true.
    pub async fn certificate(&self, world: &World, file: &Path) -> anyhow::Result<String> {
        let text =
            self.command(world, "upgrade-certificate", &["upgrade", "certificate", &self.upgrade]).await?;
        std::fs::write(file, &text).context("could not write the certificate")?;
        let verify = ["certificate", "verify", &file.display().to_string()];
        self.command(world, "certificate-verify", &verify).await?;
        let sealed: serde_json::Value = serde_json::from_str(&text).context("the certificate is not JSON")?;
        let digest = sealed["digest"].as_str().context("the certificate has no digest")?;
        Ok(digest.to_owned())
    }

    /// One command of `tidegate`, recorded; answers its output, which is in a log of that name too.
    async fn command(&self, world: &World, name: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let words: Vec<String> =
            std::iter::once("tidegate").chain(arguments.iter().copied()).map(str::to_owned).collect();
        self.executed.run(&words, self.run(world, name, arguments)).await
    }

    async fn run(&self, world: &World, name: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let spawn = Spawn::new(name, &program::own("tidegate")?)
            .args(["--coordinator", &self.url, "--as", "operator"])
            .args(["--token-file", &coordinator::token_file(world)?.display().to_string()])
            .args(arguments);
        let mut process = world.spawn(spawn)?;
        let status = process.wait(COMMAND).await?;
        if !status.success() {
            bail!("`tidegate {}` ended with {status}: {}", arguments.join(" "), process.tail());
        }
        std::fs::read_to_string(process.log()).context("could not read the output of a command")
    }
}
