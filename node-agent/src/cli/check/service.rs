//! Checks one service: its addresses, probe, hooks and balancers. Nothing is taken out of rotation: whether the
//! disable-file makes the health URL answer 503 is measured by each drain, before anything is stopped.

use super::findings::Findings;
use super::other;
use super::program::cannot_begin;
use crate::config::Service;
use crate::config::address::Url;
use crate::config::fragment::Balancer;
use crate::config::settings::{Driver, Hooks, InFlight, Node, Probe};
use crate::drain::balancer::{self, ServerStatus};
use crate::drain::disable_file;
use crate::drain::in_flight;
use crate::host::NoAnswer;
use crate::machine::Machine;
use crate::replace::driver;
use crate::report::probe::{self, NoVersion};
use crate::report::readiness;
use crate::{fetch, quote};
use bytes::Bytes;
use http::StatusCode;
use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

type Answer = Result<(StatusCode, Bytes), NoAnswer>;

/// Looks at everything that the agent will ask of it.
pub(super) async fn look_at(node: &Node, config: &Path, service: &Service, findings: &mut Findings) {
    artifacts(service, findings);
    hooks(service, findings);
    let limit = service.timeout;
    let (ready, health) = tokio::join!(
        fetch::get(&Machine, &service.ready_url, limit),
        fetch::get(&Machine, &service.health_url, limit)
    );
    addresses(service, &ready, &health, findings);
    disable_file(node, service, &health, findings);
    if let Some(whose) = other::whose(node, config, service) {
        let path = service.disable_file.display();
        findings.wrong(service, format!("disable_file {path} {whose}: give each instance its own"));
    }
    version(service, ready.is_ok(), findings).await;
    status(node, service, ready.is_ok(), findings).await;
    counter(service, matches!(ready, Ok((StatusCode::OK, _))), findings).await;
    for one in &service.balancers {
        match balancer::ask(&Machine, one, limit).await {
            Ok(word) => server(service, one, &word, findings),
            Err(why) => findings.wrong(service, format!("balancer {one}: {why}")),
        }
    }
    if service.balancers.is_empty() && service.in_flight.is_none() {
        findings.note(
            service,
            "neither balancers nor in_flight are configured, so it is not known when it is idle: each drain lasts until its deadline",
        );
    }
    if service.balancers.is_empty() {
        findings.note(
            service,
            format!(
                "no balancer can be asked: a drain waits for the longer of the upgrade's drain.settle and check.interval × check.fall, {} s here; slower checks still send requests after that",
                service.fall_time().as_secs_f64()
            ),
        );
    }
}

/// Where a stage hook brings the code, no source is read.
fn artifacts(service: &Service, findings: &mut Findings) {
    if matches!(&service.driver, Some(Driver::Command(Hooks { stage: Some(_), .. }))) {
        return;
    }
    for (tag, artifact) in &service.artifacts {
        let source = artifact.source.as_path();
        if !source.is_file() {
            let shown = source.display();
            findings.wrong(service, format!("the artifact of release {tag} is not there: {shown}"));
        }
    }
}

fn hooks(service: &Service, findings: &mut Findings) {
    let hooks = match &service.driver {
        Some(Driver::Command(hooks)) => hooks,
        Some(Driver::Process(process)) => {
            if let Some(why) = cannot_begin(&process.argv) {
                findings.wrong(service, format!("driver.process: its program {why}"));
            }
            return;
        }
        None => return,
    };
    let named = [
        ("stage", hooks.stage.as_ref()),
        ("stop", Some(&hooks.stop)),
        ("start", Some(&hooks.start)),
        ("remove", hooks.remove.as_ref()),
        ("status", hooks.status.as_ref()),
    ];
    for (hook, argv) in named {
        if let Some(why) = argv.and_then(|argv| cannot_begin(argv)) {
            findings.wrong(service, format!("the {hook} hook {why}"));
        }
    }
}

fn addresses(service: &Service, ready: &Answer, health: &Answer, findings: &mut Findings) {
    let bad = "not ready";
    address(service, ("ready_url", &service.ready_url), ready, health.is_ok(), bad, findings);
    // The agent's own health check is served only while the agent runs.
    let served_here = service.healthcheck.is_some();
    if !(served_here && health.is_err()) {
        let bad = "out of rotation";
        address(service, ("health_url", &service.health_url), health, ready.is_ok(), bad, findings);
    }
    if readiness::is_judged_by_health_url(service) {
        findings.note(service, readiness::ASSUMPTION);
    }
}

fn address(
    service: &Service,
    (field, url): (&str, &Url),
    answer: &Answer,
    other_answers: bool,
    bad: &str,
    findings: &mut Findings,
) {
    let words = quote::answer(answer);
    match answer {
        Ok((StatusCode::OK, _)) => {}
        Ok((status, _)) if status.is_server_error() => {
            findings.note(service, format!("{field} {url} answers {words}: {bad} now"));
        }
        Ok(_) => findings.wrong(
            service,
            format!(
                "{field} {url} answers {words}: 200 is expected, or 503 while it is {bad}; is the path right?"
            ),
        ),
        Err(NoAnswer::Refused { .. }) if other_answers => findings.wrong(
            service,
            format!(
                "nothing listens at {field} {url}, and the service answers elsewhere: is the address right?"
            ),
        ),
        Err(error) => findings.note(service, error.to_string()),
    }
}

/// A file that is there says whose it is, and whether the service looks at it.
fn disable_file(node: &Node, service: &Service, health: &Answer, findings: &mut Findings) {
    let path = service.disable_file.display();
    let Some(owner) = disable_file::owner(&service.disable_file) else {
        return out_by_another_file(service, health, findings);
    };
    if let Some(other) = owner.filter(|other| *other != node.name) {
        let why =
            format!("disable_file {path} was put by the agent of {other}: it belongs to another instance");
        return findings.wrong(service, why);
    }
    match health {
        Ok((StatusCode::OK, _)) => findings.wrong(
            service,
            format!(
                "disable_file {path} is there, and health_url {} answers 200: the service does not look at that file",
                service.health_url
            ),
        ),
        _ => findings.note(service, format!("disable_file {path} is there: it is out of rotation")),
    }
}

/// A health URL that says that a file disables it, while the file that is configured is not there.
fn out_by_another_file(service: &Service, health: &Answer, findings: &mut Findings) {
    if let Ok((StatusCode::SERVICE_UNAVAILABLE, body)) = health
        && readiness::says_by_file(body)
    {
        let (url, path, words) = (&service.health_url, service.disable_file.display(), quote::answer(health));
        findings.wrong(
            service,
            format!(
                "health_url {url} answers {words}, and disable_file {path} is not there: the service looks at another file"
            ),
        );
    }
}

async fn version(service: &Service, answers: bool, findings: &mut Findings) {
    if let Probe::Command(argv) = &service.probe
        && let Some(why) = cannot_begin(argv)
    {
        return findings.wrong(service, format!("the probe {why}"));
    }
    match probe::try_once(&Machine::shared(), &service.probe, service.timeout).await {
        Ok(version) => findings.note(service, format!("runs at version {version}")),
        Err(NoVersion::Late) => findings.wrong(
            service,
            format!(
                "its probe does not answer within {} ms: the whole node would fall silent",
                service.timeout.as_millis()
            ),
        ),
        Err(NoVersion::Wrong(why)) => findings.wrong(
            service,
            format!("its probe answers no version ({why}): a whole number from 1 to 2147483647 is expected"),
        ),
        Err(NoVersion::Silent(why)) if answers => {
            findings.wrong(service, format!("its probe fails while it answers ({why}): version unknown"));
        }
        Err(NoVersion::Silent(why)) => {
            findings.note(service, format!("its probe fails ({why}): version unknown"));
        }
    }
}

/// The status hook is run: it changes nothing.
async fn status(node: &Node, service: &Service, answers: bool, findings: &mut Findings) {
    let home = node.state_dir.join(service.name.as_str());
    let Some(driver) = driver::Driver::of(&Machine::shared(), node, service, &home) else { return };
    let Some(done) = driver.ask_status(service.timeout).await else { return };
    match done {
        Err(why) => findings.wrong(service, format!("the status hook: {}", tidegate_proto::Chain(&why))),
        Ok(done) => match done.code {
            Some(0) => {}
            Some(1..=3) if answers => findings.wrong(
                service,
                format!("the status hook says that it does not run ({}), and it answers", done.words()),
            ),
            Some(1..=3) => findings.note(service, "the status hook says that it does not run".to_owned()),
            _ => findings.wrong(
                service,
                format!(
                    "the status hook ended with {}: 0 (it runs) or 1 to 3 (it does not) is expected",
                    done.words()
                ),
            ),
        },
    }
}

/// A port that only looks idle: another one, or one in another network namespace.
async fn counter(service: &Service, is_ready: bool, findings: &mut Findings) {
    let Some(InFlight::Tcp(port)) = service.in_flight else { return };
    if is_ready && in_flight::is_listening(port).await == Some(false) {
        findings.wrong(
            service,
            format!(
                "nothing listens at in_flight.tcp_port {port} in the agent's network namespace, and the service is ready: its count would always be 0, and a drain would not wait for requests; is the port right?"
            ),
        );
    }
}

/// What the balancer calls this instance is this instance, as far as the balancer says where it is.
fn server(service: &Service, balancer: &Balancer, word: &ServerStatus, findings: &mut Findings) {
    findings.note(service, format!("balancer {balancer} says {}", word.status));
    let Some(at) = word.address.as_deref() else {
        let unsaid = "does not say where its server is (HAProxy says it at `stats socket … level operator`): whether that is \
                      this instance is not known";
        return findings.note(service, format!("balancer {balancer} {unsaid}"));
    };
    // A socket's path is no other node's.
    let Ok(at) = at.parse::<SocketAddr>() else { return };
    let name = &balancer.server;
    match balancer.address {
        Some(wanted) if wanted == at => {}
        Some(wanted) => findings.wrong(
            service,
            format!("balancer {balancer}: its server {name} is at {at}, and the configuration says {wanted}"),
        ),
        None if !is_of_this_machine(at) => findings.wrong(
            service,
            format!(
                "balancer {balancer}: its server {name} is at {at}, which is no address of this machine: is that another node's? Where {at} leads here all the same, say `address = \"{at}\"` for this balancer"
            ),
        ),
        None if !ports(service).contains(&at.port()) => findings.wrong(
            service,
            format!(
                "balancer {balancer}: its server {name} is at {at}, and no URL of this service has that port: is that another instance's? Where this service takes its requests there, say `address = \"{at}\"` for this balancer"
            ),
        ),
        None => {}
    }
}

fn is_of_this_machine(at: SocketAddr) -> bool {
    at.ip().is_unspecified() || UdpSocket::bind((at.ip(), 0)).is_ok()
}

/// Every port at which something is asked of the service.
fn ports(service: &Service) -> BTreeSet<u16> {
    let probed = match &service.probe {
        Probe::Http(url, _) => Some(url),
        Probe::File(_) | Probe::Command(_) => None,
    };
    let (counted, tcp) = match &service.in_flight {
        Some(InFlight::Http(url, _)) => (Some(url), None),
        Some(InFlight::Tcp(port)) => (None, Some(*port)),
        None => (None, None),
    };
    let urls = [Some(&service.ready_url), Some(&service.health_url), probed, counted];
    let port = |url: &Url| url.authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    urls.into_iter().flatten().filter_map(port).chain(tcp).collect()
}
