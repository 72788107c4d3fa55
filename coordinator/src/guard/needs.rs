//! What each call needs: the one table of all doors. What is not in it needs everything.

use tidegate_proto::record::token::Role::{self, Operate, Read};

/// What a route of HTTP needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Anyone may ask: whether a process lives is asked by machines that have no token.
    Nothing,
    /// This role.
    Role(Role),
}

/// The methods of the operators' service.
pub const METHODS: &[(&str, Role)] = &[
    ("Leader", Read),
    ("ListUpgrades", Read),
    ("UpgradeStatus", Read),
    ("WatchUpgrade", Read),
    ("ExplainUpgrade", Read),
    ("UpgradeHistory", Read),
    ("UpgradeCertificate", Read),
    ("FleetSpread", Read),
    ("ListInstances", Read),
    ("ListTokens", Read),
    ("StartUpgrade", Operate),
    ("ApproveUpgrade", Operate),
    ("PauseUpgrade", Operate),
    ("ResumeUpgrade", Operate),
    ("RollBackUpgrade", Operate),
    ("SkipInstance", Operate),
    ("RetryInstance", Operate),
    ("DecommissionInstance", Operate),
    ("CordonNode", Operate),
    ("UncordonNode", Operate),
    ("CreateToken", Operate),
    ("RevokeToken", Operate),
];

/// The routes of HTTP, as their router has them. HEAD is asked as GET.
pub const ROUTES: &[(&str, &str, Need)] = &[
    ("GET", "/healthz", Need::Nothing),
    ("GET", "/readyz", Need::Nothing),
    ("GET", "/metrics", Need::Role(Read)),
];

/// What a method needs, by its path: `/tidegate.v1.Operator/StartUpgrade`.
pub fn of_method(path: &str) -> Role {
    let method = path.strip_prefix("/tidegate.v1.Operator/").unwrap_or_default();
    METHODS.iter().find(|(name, _)| *name == method).map_or(Operate, |(_, role)| *role)
}

/// What a route needs.
pub fn of_route(method: &str, path: &str) -> Need {
    let method = if method == "HEAD" { "GET" } else { method };
    let found = ROUTES.iter().find(|(verb, route, _)| *verb == method && *route == path);
    found.map_or(Need::Role(Operate), |(.., need)| *need)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: &str = include_str!("../../../proto/proto/tidegate/v1/operator.proto");

    #[test]
    fn every_method_of_the_service_is_in_the_table_and_no_other() {
        let lines = SERVICE.lines().filter_map(|line| line.trim().strip_prefix("rpc ")?.split('(').next());
        let mut methods: Vec<&str> = lines.collect();
        let mut named: Vec<&str> = METHODS.iter().map(|(name, _)| *name).collect();
        methods.sort_unstable();
        named.sort_unstable();
        assert_eq!(methods, named);
    }

    #[test]
    fn what_is_not_in_the_table_needs_everything() {
        assert_eq!(of_method("/tidegate.v1.Operator/Leader"), Read);
        for unknown in ["/tidegate.v1.Operator/Nuke", "/elsewhere/Leader", "Leader", "/", ""] {
            assert_eq!(of_method(unknown), Operate, "{unknown}");
        }
        assert_eq!(of_route("HEAD", "/healthz"), Need::Nothing);
        assert_eq!(of_route("POST", "/healthz"), Need::Role(Operate));
    }
}
