//! The configuration that `init` prints: every field with a comment, the common ones set. Beside it one that has each
//! required field, for readers that go on where one is missing.

use serde_json::{Value as Json, json};
use tidegate_proto::form::ANY_NAME;

/// A commented configuration for `node`.
pub fn text(node: &str) -> String {
    TEMPLATE.replace("@NODE@", node)
}

/// A document that has every required field, under any name.
pub(super) fn of_required() -> Json {
    let (file, url) = ("/of-the-example", "http://of.the.example/");
    let process = json!({"argv": ["program"]});
    json!({
        "node": "node",
        "state_dir": file,
        "runtime_dir": file,
        "store": {"endpoints": [url], "tls": {"ca": file}},
        "service": {ANY_NAME: {
            "probe": {"file": file},
            "ready_url": url,
            "health_url": url,
            "disable_file": file,
            "balancer": [{"stats": "unix:/of-the-example", "backend": "backend", "server": "server"}],
            "driver": {"process": process},
            "artifact": {ANY_NAME: {"source": file, "version": 1}},
        }},
        "metadata": {ANY_NAME: {"file": file}},
        "hook": {ANY_NAME: process},
    })
}

const TEMPLATE: &str = r#"# What the agent of one node does. `tidegate-agent check` says whether it is able to do it.

node = "@NODE@"                     # one agent a node
labels = { zone = "a" }             # these distinguish failure domains
state_dir = "/var/lib/tidegate"     # outlives a reboot: journal, identity, staged releases
runtime_dir = "/run/tidegate"       # need not: logs of the processes that the agent starts
lease_ttl = "10s"                   # how long the store waits for this agent; at least 2s

[store]
endpoints = ["http://127.0.0.1:2379"]
prefix = "/tidegate"
# user = "agent"
# password_file = "/etc/tidegate/password"          # or password_env = "TIDEGATE_PASSWORD"
# tls = { ca = "/etc/tidegate/ca.pem", cert = "/etc/tidegate/agent.pem", key = "/etc/tidegate/agent.key" }

[service.pantry-api]
# How the version that really runs is learned: a file, an HTTP answer (whole, or a JSON pointer), or a command.
probe = { http = "http://127.0.0.1:8080/version", pointer = "/version" }
# Answers 200 when the service can serve. It may be health_url: then readiness is not known while disable_file is there,
# so the agent shows an instance as soon as it answers, and hides it again if it is not ready then.
ready_url = "http://127.0.0.1:8080/ready"
health_url = "http://127.0.0.1:8080/healthcheck"    # what the balancers ask
disable_file = "/var/lib/tidegate/pantry-api.disable"    # makes health_url answer 503
interval = "1s"                     # between two looks at rest
fast_interval = "100ms"             # between two looks while something moves
timeout = "2s"                      # a probe that takes longer pauses the keep-alives of the whole node
debounce = 2                        # so many equal answers change the reported health
# How requests in flight are counted: an HTTP counter, or established connections of a port (keep-alive
# connections of balancers and clients count too).
in_flight = { url = "http://127.0.0.1:8080/in-flight", pointer = "/in_flight" }    # or { tcp_port = 8080 }
check = { interval = "2s", fall = 3, rise = 2 }     # the balancers' own check, where they cannot be asked
initial_release = "pantry-1.0.0"    # started when nothing runs and nothing was ever admitted
start_without_store = false         # whether what was last admitted here may start while the store is away

# Each balancer that can be asked whether it still sends requests here.
# [[service.pantry-api.balancer]]
# stats = "unix:/run/haproxy/admin.sock"            # or "tcp:127.0.0.1:9999"
# backend = "pantry"
# server = "@NODE@"
# address = "10.0.0.5:8080"         # where it sends requests, for `check`, if that is no port of the URLs above

# How code is replaced: a process of the agent ...
[service.pantry-api.driver.process]
argv = ["{release_dir}/pantry-api", "--port", "8080"]    # {release_dir} {tag} {node} {service}
env = { RUST_LOG = "info" }
# cwd = "/srv/pantry"               # absent: the release's directory
stop_timeout = "30s"                # from SIGTERM to SIGKILL

# ... or hooks, whose effect is verified by the probe and not by their exit code:
# [service.pantry-api.driver.command]
# stop = ["/usr/bin/systemctl", "stop", "pantry"]
# start = ["/usr/local/sbin/start-pantry", "{tag}"]
# stage = ["/usr/local/sbin/fetch-pantry", "{tag}", "{release_dir}"]    # absent: the artifact is copied
# remove = ["/usr/local/sbin/drop-pantry", "{tag}"]
# status = ["/usr/bin/systemctl", "is-active", "--quiet", "pantry"]    # 0: it runs, 1 to 3: it does not; {node} {service}
# timeout = "60s"
# Without a status hook it is not known that a started service has ended: it then fails at healthy_deadline. Where there is
# one, a stop counts only once it no longer says that the service runs.
# The stop hook also runs where nothing answers, to make sure that nothing runs: there it must succeed too. A port's
# connections (in_flight = { tcp_port = ... }) are counted also while a program that is stopping answers nothing.

# Where the artifact of each release is. A directive names a tag and a sha256; nothing else.
[service.pantry-api.artifact."pantry-1.0.0"]
source = "/srv/artifacts/pantry-1.0.0/pantry-api"
version = 1
# sha256 = "…"                      # pins it here too. Needed with a stage hook for the release that ran before Tidegate,
                                    # unless the hook prints it as its last line; "absent": there is none to verify

# For a service without a health check of its own:
# [service.pantry-api.healthcheck]
# listen = "127.0.0.1:9700"         # GET /healthcheck, by disable_file
# files = { "127.0.0.1:9701" = "/var/lib/tidegate/admin.disable" }      # the per-port form
# agent_check = "127.0.0.1:9702"    # HAProxy's agent-check

# A metadata group that this node follows: the document that it is served is kept in a file, and a hook is run when that
# has changed. A hook may be run twice for one document (a crash in between), never beside itself.
# [metadata.edge]
# file = "/etc/pantry/edge.json"
# hook = ["/usr/local/sbin/reload-edge", "{file}", "{generation}"]    # {file} {group} {generation} {node}
# timeout = "60s"

# Hooks that the coordinator may have run here, once for each task that names one: what warms a compute release up before
# it goes out, what removes its image afterwards. A task names a hook and a release; what that is, is said here only.
# The hook also finds TIDEGATE_HOOK, _TASK, _NODE, _STREAM, _REVISION and _TAG in its environment. One at a time runs; it
# outlives the agent, which reports how it ended.
# [hook.pull-image]
# argv = ["/usr/local/sbin/pull-image", "{tag}"]    # {stream} {revision} {tag} {task} {node}
# env = { REGISTRY = "registry.example.org" }
# timeout = "10m"                   # then it is killed, and has failed
"#;
