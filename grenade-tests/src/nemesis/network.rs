//! The network between hosts: each host is a network namespace with one link to this process' namespace, which passes
//! packets on. A cut between two hosts drops packets in both directions, without an answer, as a broken cable does.

use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::world::{Host, program};

/// Where namespaces have their files, and the directory above, which is created for this process alone.
const NAMESPACES: &str = "/run/netns";
const ABOVE: &str = "/run";
/// The first number of a rule that cuts; rules are looked at in the order of their numbers.
const FIRST_RULE: u32 = 1000;

/// Hosts and the links between them.
#[derive(Debug)]
pub(super) struct Network {
    hosts: BTreeMap<String, Link>,
    cuts: BTreeMap<(String, String), u32>,
    /// An address that belongs to one of several hosts, and to which.
    floating: Option<(Ipv4Addr, String)>,
    next_rule: u32,
}

#[derive(Debug, Clone)]
struct Link {
    host: Host,
    ip: Ipv4Addr,
    device: String,
}

impl Network {
    /// An empty one. This process must be alone in its network and mount namespaces.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn new() -> anyhow::Result<Self> {
        run("mount", &["-t", "tmpfs", "tmpfs", ABOVE])?;
        std::fs::create_dir_all(NAMESPACES).context("could not make the directory of namespaces")?;
        run("ip", &["link", "set", "lo", "up"])?;
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("could not let packets pass")?;
        Ok(Self { hosts: BTreeMap::new(), cuts: BTreeMap::new(), floating: None, next_rule: FIRST_RULE })
    }

    /// One more host.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn add(&mut self, name: &str) -> anyhow::Result<Host> {
        let number = u8::try_from(self.hosts.len() + 1).context("there are too many hosts")?;
        let device = format!("veth{number}");
        let (own, ip) = (Ipv4Addr::new(10, 77, number, 1), Ipv4Addr::new(10, 77, number, 2));
        run("ip", &["netns", "add", name])?;
        run("ip", &["link", "add", &device, "type", "veth", "peer", "name", "eth0", "netns", name])?;
        run("ip", &["address", "add", &format!("{own}/30"), "dev", &device])?;
        run("ip", &["link", "set", &device, "up"])?;
        run("ip", &["-n", name, "link", "set", "lo", "up"])?;
        run("ip", &["-n", name, "address", "add", &format!("{ip}/30"), "dev", "eth0"])?;
        run("ip", &["-n", name, "link", "set", "eth0", "up"])?;
        run("ip", &["-n", name, "route", "add", "default", "via", &own.to_string()])?;
        let namespace: PathBuf = Path::new(NAMESPACES).join(name);
        let host = Host { ip: IpAddr::V4(ip), namespace: Some(namespace) };
        self.hosts.insert(name.to_owned(), Link { host: host.clone(), ip, device });
        Ok(host)
    }

    /// A host.
    ///
    /// # Errors
    /// When there is none of this name.
    pub(super) fn host(&self, name: &str) -> anyhow::Result<Host> {
        Ok(self.link(name)?.host.clone())
    }

    fn link(&self, name: &str) -> anyhow::Result<&Link> {
        self.hosts.get(name).with_context(|| format!("there is no host {name:?}"))
    }

    /// Gives hosts an address in common, which leads to the first of them.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn float(&mut self, among: &[&str]) -> anyhow::Result<IpAddr> {
        let address = Ipv4Addr::new(10, 77, 255, 1);
        for name in among {
            run("ip", &["-n", name, "address", "add", &format!("{address}/32"), "dev", "lo"])?;
        }
        let first = among.first().context("an address of no host")?;
        self.floating = Some((address, (*first).to_owned()));
        self.lead_to(first)?;
        Ok(address.into())
    }

    /// The address in common leads to this host from now on. Connections to the former one are broken.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn lead_to(&mut self, name: &str) -> anyhow::Result<()> {
        let via = self.link(name)?.ip;
        let Some((address, to)) = &mut self.floating else { bail!("there is no address in common") };
        name.clone_into(to);
        run("ip", &["route", "replace", &format!("{address}/32"), "via", &via.to_string()])
    }

    /// Drops what one host sends to another, in both directions; the address in common too, where it is one of these.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn cut(&mut self, one: &str, other: &str) -> anyhow::Result<()> {
        let rule = self.next_rule;
        self.next_rule += 1;
        self.cuts.insert((one.to_owned(), other.to_owned()), rule);
        for (from, to) in [(one, other), (other, one)] {
            let (device, ip) = (self.link(from)?.device.clone(), self.link(to)?.ip);
            self.drop(rule, &device, ip)?;
            match &self.floating {
                Some((address, owner)) if owner == to => self.drop(rule, &device, *address)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn drop(&self, rule: u32, device: &str, to: Ipv4Addr) -> anyhow::Result<()> {
        let (rule, to) = (rule.to_string(), format!("{to}/32"));
        run("ip", &["rule", "add", "pref", &rule, "iif", device, "to", &to, "blackhole"])
    }

    /// Joins what was cut.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn mend(&mut self, one: &str, other: &str) -> anyhow::Result<()> {
        let Some(rule) = self.cuts.remove(&(one.to_owned(), other.to_owned())) else { return Ok(()) };
        let rule = rule.to_string();
        // Each call removes one rule of this number; the last one finds none.
        while try_run("ip", &["rule", "del", "pref", &rule])? {}
        Ok(())
    }
}

/// Runs a program of the system, which must succeed.
///
/// # Errors
/// With what it said.
pub(super) fn run(name: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let done = Command::new(program::outside(name)?).args(arguments).stdin(Stdio::null()).output();
    let done = done.with_context(|| format!("could not run {name}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    bail!("{name} {} failed: {said}", arguments.join(" "))
}

fn try_run(name: &str, arguments: &[&str]) -> anyhow::Result<bool> {
    let done = Command::new(program::outside(name)?).args(arguments).stdin(Stdio::null()).output()?;
    Ok(done.status.success())
}
