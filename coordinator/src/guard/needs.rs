//! What each call needs: of an rpc, and of its routes, what its file declares; of the few routes that are no rpc, what the
//! table here says. What neither knows needs everything.

use std::collections::HashMap;
use std::sync::LazyLock;
use tidegate_proto::record::token::Role::{self, Operate, Read};
use tidegate_proto::verb::VERBS;

/// What a route of HTTP needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Any caller may ask: liveness is queried by machines that have no token.
    Nothing,
    Role(Role),
}

/// The routes that are no rpc.
pub const ROUTES: [(&str, &str, Need); 5] = [
    ("GET", "/healthz", Need::Nothing),
    ("GET", "/readyz", Need::Nothing),
    ("GET", "/metrics", Need::Role(Read)),
    ("GET", "/management/api/v2/openapi.json", Need::Nothing),
    ("GET", "/v1/openapi.json", Need::Nothing),
];

static BY_METHOD: LazyLock<HashMap<String, Role>> =
    LazyLock::new(|| VERBS.iter().map(|verb| (verb.path(), verb.needs)).collect());

static BY_ROUTE: LazyLock<HashMap<(&str, &str), Need>> = LazyLock::new(|| {
    let of_verbs = VERBS.iter().flat_map(|verb| {
        verb.routes.iter().map(|route| ((route.method, route.path.as_str()), Need::Role(verb.needs)))
    });
    let others = ROUTES.iter().map(|(method, path, need)| ((*method, *path), *need));
    of_verbs.chain(others).collect()
});

/// What a method needs, by its path: `/tidegate.v1.Operator/StartUpgrade`.
pub fn of_method(path: &str) -> Role {
    BY_METHOD.get(path).copied().unwrap_or(Operate)
}

/// What a route needs. HEAD is asked as GET.
pub fn of_route(method: &str, path: &str) -> Need {
    let method = if method == "HEAD" { "GET" } else { method };
    BY_ROUTE.get(&(method, path)).copied().unwrap_or(Need::Role(Operate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_outside_the_table_needs_the_highest_role() {
        assert_eq!(of_method("/tidegate.v1.Operator/Leader"), Read);
        assert_eq!(of_method("/tidegate.v1.Releases/CreateRelease"), Role::Release);
        assert_eq!(of_method("/tidegate.v1.Releases/Leader"), Operate, "a method of another service");
        for unknown in ["/tidegate.v1.Operator/Nuke", "/elsewhere/Leader", "Leader", "/", ""] {
            assert_eq!(of_method(unknown), Operate, "{unknown}");
        }
        assert_eq!(of_route("HEAD", "/healthz"), Need::Nothing);
        assert_eq!(of_route("POST", "/healthz"), Need::Role(Operate));
        assert_eq!(of_route("GET", "/v1/upgrades/{id}"), Need::Role(Read));
        assert_eq!(of_route("POST", "/v1/upgrades/{id}"), Need::Role(Operate));
    }
}
