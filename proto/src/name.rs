//! The names of things: a type for each, so that one cannot be used where another belongs, and none of them can ever be
//! a path or reach outside its place in a key.

use crate::text::{parsed_from_text, written_as_text};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The longest name, in bytes: that of a DNS label, so that host names fit.
pub const MAX_NAME_BYTES: usize = 63;

/// A text that is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kind} {text:?} is not a name: 1 to {MAX_NAME_BYTES} of a-z A-Z 0-9 . _ - are allowed, beginning with a letter or digit"
)]
pub struct NotAName {
    kind: &'static str,
    text: String,
}

fn check(kind: &'static str, text: &str) -> Result<(), NotAName> {
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    let rest = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if first && rest && text.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    let text = text.chars().take(MAX_NAME_BYTES).collect();
    Err(NotAName { kind, text })
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(smol_str::SmolStr);

        parsed_from_text!($name);
        written_as_text!($name);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NotAName;
            fn from_str(text: &str) -> Result<Self, NotAName> {
                check($kind, text)?;
                Ok(Self(text.into()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = NotAName;
            fn try_from(text: String) -> Result<Self, NotAName> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

name!(
    /// A program that runs on many nodes, by name: `glance-api` (Nova's "binary").
    ServiceName,
    "service"
);
name!(
    /// A machine with one agent.
    NodeId,
    "node"
);
name!(
    /// One run of a service from one version to the next.
    UpgradeId,
    "upgrade"
);
name!(
    /// A schema, by the random id that is kept in the database itself.
    SchemaName,
    "schema"
);
name!(
    /// The random id of one leadership; a store that does not know it was restored from a backup.
    TermId,
    "term"
);
name!(
    /// An ordered list of compute releases: `compute`, or one for each minor line or pull request.
    StreamName,
    "release stream"
);
name!(
    /// The branch that a compute release was cut from; its versions never fall within one.
    Branch,
    "release branch"
);
name!(
    /// A compute, as the compute's starter calls it. May be pinned to a release.
    ComputeId,
    "compute"
);
name!(
    /// A command that the configuration of an agent or a coordinator defines; the store only names it.
    HookName,
    "hook"
);
name!(
    /// One run of a hook on a node.
    TaskId,
    "task"
);
name!(
    /// The pull request, or the group, that a compute release belongs to, where its stream is found by that.
    GroupLabel,
    "group of releases"
);
name!(
    /// Instances that share a metadata document (Heat's instance group).
    GroupName,
    "metadata group"
);
name!(
    /// A kind of failure, as its reporter calls it: `timeout`, `hook`. Expected failures are listed by this name.
    FailureName,
    "kind of failure"
);
name!(
    /// One way to prove who calls: a bearer token's public half, or a place for a certificate's subject.
    TokenId,
    "token"
);
name!(
    /// Who calls, by name: a person or a machine. May have several tokens, so that they can be changed without a gap.
    PrincipalName,
    "principal"
);

/// One service on one node, written `service/node`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstanceId {
    /// The service.
    pub service: ServiceName,
    /// The node.
    pub node: NodeId,
}

impl InstanceId {
    /// The instance of `service` on `node`.
    pub fn new(service: ServiceName, node: NodeId) -> Self {
        Self { service, node }
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service, self.node)
    }
}

/// A text that does not name an instance.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnInstance {
    /// No single slash between two names.
    #[error("instance {0:?} is not written service/node")]
    Form(String),
    /// One of the two is not a name.
    #[error(transparent)]
    Name(#[from] NotAName),
}

impl FromStr for InstanceId {
    type Err = NotAnInstance;
    fn from_str(text: &str) -> Result<Self, NotAnInstance> {
        let (service, node) = text.split_once('/').ok_or_else(|| NotAnInstance::Form(text.to_owned()))?;
        Ok(Self { service: service.parse()?, node: node.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_a_path() {
        for bad in ["", "..", ".hidden", "a/b", "a b", "ü", "-x", "a\0", &"x".repeat(64)] {
            assert!(bad.parse::<NodeId>().is_err(), "{bad:?} was taken for a name");
        }
        for good in ["a", "node-7.example.org", "Glance_API", "1", &"x".repeat(63)] {
            assert!(good.parse::<NodeId>().is_ok(), "{good:?} was refused");
        }
    }

    #[test]
    fn an_instance_is_written_service_slash_node() {
        let id: InstanceId = "pantry-api/n1".parse().unwrap();
        assert_eq!(id.to_string(), "pantry-api/n1");
        assert!("pantry-api".parse::<InstanceId>().is_err());
        assert!("a/b/c".parse::<InstanceId>().is_err());
    }
}
