//! HAProxy's `show stat`: its columns, in the order of 2.6, and our servers written into them. Pure.

use std::collections::HashMap;

use crate::balancer::health::Thresholds;
use crate::balancer::server::{ServerAddress, Snapshot};

/// The columns of HAProxy 2.6 up to the marker `-`, after which it lists extra counters that differ with its build.
#[rustfmt::skip]
pub const COLUMNS: [&str; 104] = [
    "pxname", "svname", "qcur", "qmax", "scur", "smax", "slim", "stot", "bin", "bout", "dreq", "dresp",
    "ereq", "econ", "eresp", "wretr", "wredis", "status", "weight", "act", "bck", "chkfail", "chkdown",
    "lastchg", "downtime", "qlimit", "pid", "iid", "sid", "throttle", "lbtot", "tracked", "type", "rate",
    "rate_lim", "rate_max", "check_status", "check_code", "check_duration", "hrsp_1xx", "hrsp_2xx",
    "hrsp_3xx", "hrsp_4xx", "hrsp_5xx", "hrsp_other", "hanafail", "req_rate", "req_rate_max", "req_tot",
    "cli_abrt", "srv_abrt", "comp_in", "comp_out", "comp_byp", "comp_rsp", "lastsess", "last_chk",
    "last_agt", "qtime", "ctime", "rtime", "ttime", "agent_status", "agent_code", "agent_duration",
    "check_desc", "agent_desc", "check_rise", "check_fall", "check_health", "agent_rise", "agent_fall",
    "agent_health", "addr", "cookie", "mode", "algo", "conn_rate", "conn_rate_max", "conn_tot",
    "intercepted", "dcon", "dses", "wrew", "connect", "reuse", "cache_lookups", "cache_hits", "srv_icur",
    "src_ilim", "qtime_max", "ctime_max", "rtime_max", "ttime_max", "eint", "idle_conn_cur",
    "safe_conn_cur", "used_conn_cur", "need_conn_est", "uweight", "agg_server_status",
    "agg_server_check_status", "agg_check_status", "-",
];

/// The proxy's name in the first column.
pub const PROXY: &str = "service";

/// One line in the making: columns by name, empty where HAProxy too would have nothing to say.
#[derive(Debug, Default)]
struct Line(HashMap<&'static str, String>);

impl Line {
    fn new(name: &str, kind: u8, status: &str) -> Self {
        let mut line = Self::default();
        line.set("pxname", PROXY);
        line.set("svname", name);
        line.set("status", status);
        line.set("type", kind);
        line.set("pid", 1);
        line.set("iid", 2);
        line.set("mode", "http");
        line.set("-", "-");
        line
    }

    fn set(&mut self, column: &'static str, value: impl ToString) {
        self.0.insert(column, value.to_string());
    }

    fn write(&self, out: &mut String) {
        for column in COLUMNS {
            out.push_str(self.0.get(column).map_or("", String::as_str));
            out.push(',');
        }
        out.push('\n');
    }
}

/// The whole answer to `show stat`: header, FRONTEND, each server, BACKEND, empty line.
pub fn show(servers: &[(ServerAddress, Snapshot)], thresholds: Thresholds) -> String {
    let mut out = format!("# {},\n", COLUMNS.join(","));
    let (now, ever): (u64, u64) =
        servers.iter().fold((0, 0), |(now, ever), (_, seen)| (now + seen.in_flight, ever + seen.total));
    let mut frontend = Line::new("FRONTEND", 0, "OPEN");
    frontend.set("scur", now);
    frontend.set("stot", ever);
    frontend.write(&mut out);
    for (sid, (at, seen)) in servers.iter().enumerate() {
        server_line(sid + 1, at, seen, thresholds).write(&mut out);
    }
    let up = servers.iter().filter(|(_, seen)| seen.health.is_up()).count();
    let mut backend = Line::new("BACKEND", 1, if up > 0 { "UP" } else { "DOWN" });
    backend.set("scur", now);
    backend.set("stot", ever);
    backend.set("act", up);
    backend.set("bck", 0);
    backend.set("algo", "roundrobin");
    backend.write(&mut out);
    out.push('\n');
    out
}

fn server_line(sid: usize, at: &ServerAddress, seen: &Snapshot, thresholds: Thresholds) -> Line {
    let mut line = Line::new(&at.name, 2, &seen.health.to_string());
    line.set("qcur", 0);
    line.set("qmax", 0);
    line.set("scur", seen.in_flight);
    line.set("smax", seen.in_flight_max);
    line.set("stot", seen.total);
    line.set("lbtot", seen.total);
    line.set("weight", 1);
    line.set("act", 1);
    line.set("bck", 0);
    line.set("sid", sid);
    line.set("wretr", 0);
    line.set("wredis", 0);
    line.set("chkfail", seen.fails);
    line.set("chkdown", seen.downs);
    line.set("lastchg", seen.since.as_secs());
    line.set("check_status", seen.last.status);
    line.set("check_code", seen.last.code.map_or(String::new(), |code| code.to_string()));
    line.set("check_duration", seen.last.duration.as_millis());
    line.set("check_rise", thresholds.rise);
    line.set("check_fall", thresholds.fall);
    line.set("check_health", seen.health.counter());
    line.set("addr", at.address);
    line
}
