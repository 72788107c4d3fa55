//! The names of services and nodes, by their places in the scenario.

use super::slot::At;

/// Names by place.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Services, by place.
    pub services: Vec<String>,
    /// Nodes, by place.
    pub nodes: Vec<String>,
}

impl Names {
    /// The name of an instance.
    pub(super) fn instance(&self, (service, node): At) -> String {
        format!("{}/{}", self.services[service], self.nodes[node])
    }

    /// Which service is called so.
    pub(super) fn service(&self, name: &str) -> Option<usize> {
        self.services.iter().position(|service| service == name)
    }

    /// Which node is called so.
    pub(super) fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node == name)
    }
}
