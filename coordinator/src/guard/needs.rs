//! What each call needs: the one table of all doors. What is not in it needs everything.

use tidegate_proto::record::token::Role::{self, Operate, Read, Release};

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
    ("ForeseeUpgrade", Read),
    ("ListUpgrades", Read),
    ("UpgradeStatus", Read),
    ("WatchUpgrade", Read),
    ("ExplainUpgrade", Read),
    ("UpgradeHistory", Read),
    ("UpgradeCertificate", Read),
    ("FleetSpread", Read),
    ("ListInstances", Read),
    ("FleetHistory", Read),
    ("ListTokens", Read),
    ("ListTasks", Read),
    ("PlanReconciliation", Read),
    ("ForeseeWindow", Read),
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
    ("SettleTask", Operate),
    ("ReconcileStore", Operate),
    ("SetWindow", Operate),
    ("CreateToken", Operate),
    ("RevokeToken", Operate),
];

/// The methods of the service about compute releases.
pub const RELEASE_METHODS: &[(&str, Role)] = &[
    ("ListStreams", Read),
    ("ShowStream", Read),
    ("ListReleases", Read),
    ("GetRelease", Read),
    ("ReleaseSettings", Read),
    ("StartCompute", Read),
    ("ExplainRelease", Read),
    ("StreamHistory", Read),
    ("CreateRelease", Release),
    ("RollBackRelease", Release),
    ("PromoteRelease", Release),
    ("RetryRelease", Release),
    ("PinCompute", Release),
    ("UnpinCompute", Release),
    ("TellAvailable", Release),
    ("TellSignal", Release),
    ("TellRunning", Release),
    ("TellEvidence", Release),
    // Whoever releases does not approve what they release themselves.
    ("ApproveRelease", Operate),
    ("ConfigureStream", Operate),
];

/// The methods of the service about metadata groups. Whoever releases may set a document, as they may create a release.
pub const METADATA_METHODS: &[(&str, Role)] = &[
    ("ListGroups", Read),
    ("ShowGroup", Read),
    ("InstanceMetadata", Read),
    ("ExplainGroup", Read),
    ("GroupHistory", Read),
    ("SetMetadata", Release),
    ("CancelMetadata", Release),
    ("TellMetadata", Release),
];

/// The routes of HTTP, as their router has them. HEAD is asked as GET.
pub const ROUTES: &[(&str, &str, Need)] = &[
    ("GET", "/healthz", Need::Nothing),
    ("GET", "/readyz", Need::Nothing),
    ("GET", "/metrics", Need::Role(Read)),
    ("POST", "/management/api/v2/compute_releases", Need::Role(Release)),
    ("GET", "/management/api/v2/compute_releases", Need::Role(Read)),
    ("POST", "/management/api/v2/compute_releases/rollback", Need::Role(Release)),
    ("GET", "/management/api/v2/compute_releases/deployed", Need::Role(Read)),
    ("GET", "/management/api/v2/compute_releases/start", Need::Role(Read)),
    ("PUT", "/management/api/v2/compute_releases/running", Need::Role(Release)),
    ("PUT", "/management/api/v2/compute_releases/pins/{compute}", Need::Role(Release)),
    ("DELETE", "/management/api/v2/compute_releases/pins/{compute}", Need::Role(Release)),
    ("GET", "/management/api/v2/compute_releases/by_tag/{tag}", Need::Role(Read)),
    ("GET", "/management/api/v2/compute_releases/by_tag/{tag}/settings", Need::Role(Read)),
    ("GET", "/management/api/v2/compute_releases/{revision}", Need::Role(Read)),
    ("GET", "/management/api/v2/compute_releases/{revision}/settings", Need::Role(Read)),
    ("GET", "/management/api/v2/compute_releases/{revision}/explain", Need::Role(Read)),
    ("POST", "/management/api/v2/compute_releases/{revision}/approve", Need::Role(Operate)),
    ("POST", "/management/api/v2/compute_releases/{revision}/promote", Need::Role(Release)),
    ("POST", "/management/api/v2/compute_releases/{revision}/retry", Need::Role(Release)),
    ("PUT", "/management/api/v2/compute_releases/{revision}/available", Need::Role(Release)),
    ("PUT", "/management/api/v2/compute_releases/{revision}/signals/{compute}", Need::Role(Release)),
    ("GET", "/management/api/v2/streams", Need::Role(Read)),
    ("GET", "/management/api/v2/streams/{stream}", Need::Role(Read)),
    ("PUT", "/management/api/v2/streams/{stream}", Need::Role(Operate)),
    ("GET", "/management/api/v2/streams/{stream}/active", Need::Role(Read)),
    ("PUT", "/management/api/v2/evidence/{compute_tag}/{storage_tag}", Need::Role(Release)),
    ("GET", "/management/api/v2/openapi.json", Need::Nothing),
    ("GET", "/v1/groups", Need::Role(Read)),
    ("GET", "/v1/groups/{group}", Need::Role(Read)),
    ("PUT", "/v1/groups/{group}/metadata", Need::Role(Release)),
    ("POST", "/v1/groups/{group}/cancel", Need::Role(Release)),
    ("GET", "/v1/groups/{group}/explain", Need::Role(Read)),
    ("GET", "/v1/groups/{group}/instances/{instance}/metadata", Need::Role(Read)),
    ("POST", "/v1/groups/{group}/instances/{instance}/signal", Need::Role(Release)),
    ("GET", "/v1/openapi.json", Need::Nothing),
];

/// Every service, with its methods.
pub const SERVICES: [(&str, &[(&str, Role)]); 3] =
    [("Operator", METHODS), ("Releases", RELEASE_METHODS), ("Metadata", METADATA_METHODS)];

/// What a method needs, by its path: `/tidegate.v1.Operator/StartUpgrade`.
pub fn of_method(path: &str) -> Role {
    let found = SERVICES.iter().find_map(|(service, methods)| {
        let method = path.strip_prefix("/tidegate.v1.")?.strip_prefix(service)?.strip_prefix('/')?;
        methods.iter().find(|(name, _)| *name == method)
    });
    found.map_or(Operate, |(_, role)| *role)
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

    const FILES: [(&str, &[(&str, Role)]); 3] = [
        (include_str!("../../../proto/proto/tidegate/v1/operator.proto"), METHODS),
        (include_str!("../../../proto/proto/tidegate/v1/releases.proto"), RELEASE_METHODS),
        (include_str!("../../../proto/proto/tidegate/v1/metadata.proto"), METADATA_METHODS),
    ];

    #[test]
    fn every_method_of_a_service_is_in_its_table_and_no_other() {
        for (service, table) in FILES {
            let lines =
                service.lines().filter_map(|line| line.trim().strip_prefix("rpc ")?.split('(').next());
            let mut methods: Vec<&str> = lines.collect();
            let mut named: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
            methods.sort_unstable();
            named.sort_unstable();
            assert_eq!(methods, named);
        }
    }

    #[test]
    fn what_is_not_in_the_table_needs_everything() {
        assert_eq!(of_method("/tidegate.v1.Operator/Leader"), Read);
        assert_eq!(of_method("/tidegate.v1.Releases/CreateRelease"), Release);
        assert_eq!(of_method("/tidegate.v1.Releases/Leader"), Operate, "a method of another service");
        for unknown in ["/tidegate.v1.Operator/Nuke", "/elsewhere/Leader", "Leader", "/", ""] {
            assert_eq!(of_method(unknown), Operate, "{unknown}");
        }
        assert_eq!(of_route("HEAD", "/healthz"), Need::Nothing);
        assert_eq!(of_route("POST", "/healthz"), Need::Role(Operate));
    }
}
