//! A gate file to begin with: the commented example, or one that fits a service that runs, as far as it answers.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use crate::world::wait::get;

/// What is written where nothing is asked.
pub const EXAMPLE: &str = include_str!("example.yaml");
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// Where services say their version.
const VERSION: [&str; 6] = ["/version", "/__version__", "/api/version", "/v1/version", "/info", "/status"];
/// Where they say that they can serve.
const READY: [&str; 7] =
    ["/ready", "/readyz", "/health/ready", "/-/ready", "/__heartbeat__", "/healthz", "/health"];
/// Where they answer balancers.
const HEALTH: [&str; 7] =
    ["/healthcheck", "/health", "/healthz", "/__lbheartbeat__", "/-/healthy", "/live", "/livez"];
/// Where they count requests in flight.
const IN_FLIGHT: [&str; 2] = ["/in-flight", "/in_flight"];

/// What a service answered.
#[derive(Debug, Default, PartialEq)]
struct Found {
    version: Option<Said>,
    ready: Option<&'static str>,
    health: Option<&'static str>,
    in_flight: Option<Said>,
}

/// A value, and where it was.
#[derive(Debug, PartialEq)]
struct Said {
    path: &'static str,
    pointer: Option<String>,
    value: String,
}

/// The example, with what the service at this address answers filled in. What was asked in vain is noted in a comment.
///
/// # Errors
/// When nothing answers there.
pub async fn of_running(address: SocketAddr) -> anyhow::Result<String> {
    if let Err(error) =
        tokio::time::timeout(ANSWER, get(address, "/")).await.map_err(|_| "no answer".to_owned()).flatten()
    {
        anyhow::bail!("nothing that speaks HTTP answers at {address}: {error}");
    }
    let found = Found {
        version: first(address, &VERSION, &["version", "release", "number"]).await,
        ready: answers(address, &READY).await,
        health: answers(address, &HEALTH).await,
        in_flight: first(address, &IN_FLIGHT, &["in_flight", "count"]).await,
    };
    Ok(filled(&address.to_string(), &found))
}

async fn asked(address: SocketAddr, path: &str) -> Option<String> {
    match tokio::time::timeout(ANSWER, get(address, path)).await {
        Ok(Ok((200, body))) => Some(body),
        _ => None,
    }
}

async fn answers(address: SocketAddr, paths: &[&'static str]) -> Option<&'static str> {
    for path in paths {
        if asked(address, path).await.is_some() {
            return Some(path);
        }
    }
    None
}

/// The first path whose answer has a number or a version in it.
async fn first(address: SocketAddr, paths: &[&'static str], fields: &[&str]) -> Option<Said> {
    for path in paths {
        let Some(body) = asked(address, path).await else { continue };
        if let Some((pointer, value)) = value_in(&body, fields) {
            return Some(Said { path, pointer, value });
        }
    }
    None
}

/// The value of one of these fields of a JSON object, or the whole answer where it is short.
fn value_in(body: &str, fields: &[&str]) -> Option<(Option<String>, String)> {
    if let Ok(Value::Object(object)) = serde_json::from_str(body) {
        let field = fields
            .iter()
            .find(|field| object.get(**field).is_some_and(|value| value.is_u64() || value.is_string()))?;
        let value = match &object[*field] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        return Some((Some(format!("/{field}")), value));
    }
    let text = body.trim();
    let is_version =
        !text.is_empty() && text.len() <= 40 && text.starts_with(|c: char| c.is_ascii_digit() || c == 'v');
    is_version.then(|| (None, text.to_owned()))
}

/// The example with the fields that are about the service's answers.
fn filled(address: &str, found: &Found) -> String {
    let mut notes =
        vec![format!("# The service at {address} was asked; what follows about its answers is from there.")];
    let mut none = |what: &str, paths: &[&str]| {
        notes.push(format!("# {what}: none of {} answered so; say here which path does.", paths.join(", ")));
    };
    let version = found.version.as_ref().map(|said| {
        let pointer = said.pointer.as_ref().map(|at| format!(", pointer: {at}")).unwrap_or_default();
        let means = match said.value.parse::<u32>() {
            Ok(_) => String::new(),
            Err(_) => format!(", means: {{{:?}: 1, \"the target's\": 2}}", said.value),
        };
        format!("  version: {{path: {}{pointer}{means}}}", said.path)
    });
    let in_flight = found.in_flight.as_ref().map(|said| {
        let pointer = said.pointer.as_ref().map(|at| format!(", pointer: {at}")).unwrap_or_default();
        format!("  in_flight: {{path: {}{pointer}}}", said.path)
    });
    if version.is_none() {
        none("service.version", &VERSION);
    }
    if found.ready.is_none() {
        none("service.ready", &READY);
    }
    notes.push(match found.health {
        None => "# service.health: the agent of each node serves a health check instead.".to_owned(),
        Some(path) => format!(
            "# service.health: {path} answers; where it follows {{disable_file}}, say so below. Else each node's agent serves one."
        ),
    });
    let line = |line: &str| match line.trim_start().split(':').next().unwrap_or_default() {
        "version" if line.starts_with("  version:") => version.clone().unwrap_or_else(|| line.to_owned()),
        "ready" => found.ready.map_or_else(|| line.to_owned(), |path| format!("  ready: {path}")),
        "health" if line.starts_with("  health: /") => match found.health {
            // Most health checks follow no file, and that cannot be seen from outside.
            Some(path) => {
                format!("  # health: {path}              # if it answers 503 while {{disable_file}} exists")
            }
            None => "  # health: /health".to_owned(),
        },
        "# in_flight" => in_flight.clone().unwrap_or_else(|| line.to_owned()),
        _ => line.to_owned(),
    };
    let body: Vec<String> = EXAMPLE.lines().map(line).collect();
    format!("{}\n{}\n", notes.join("\n"), body.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn answers_of_a_service_make_a_valid_gate_file() {
        let said = |path, pointer: Option<&str>, value: &str| {
            Some(Said { path, pointer: pointer.map(str::to_owned), value: value.to_owned() })
        };
        let found = Found {
            version: said("/__version__", Some("/version"), "23.0.0"),
            ready: Some("/__heartbeat__"),
            health: Some("/__lbheartbeat__"),
            in_flight: said("/in-flight", Some("/in_flight"), "0"),
        };
        let text = filled("127.0.0.1:8080", &found);
        for part in [
            "version: {path: /__version__, pointer: /version, means: {\"23.0.0\": 1",
            "ready: /__heartbeat__",
            "\n  # health: /__lbheartbeat__",
            "\n  in_flight: {path: /in-flight, pointer: /in_flight}",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(crate::gate::file::parse(&text, Path::new("x"), Path::new("/")).is_ok());
        let nothing = filled("127.0.0.1:8080", &Found::default());
        assert!(nothing.contains("# service.version: none of /version"), "{nothing}");
        assert!(crate::gate::file::parse(&nothing, Path::new("x"), Path::new("/")).is_ok());
    }

    #[test]
    fn version_is_found_in_an_object_or_in_a_short_text() {
        let of = |body| value_in(body, &["version"]);
        assert_eq!(of("{\"version\": 3}"), Some((Some("/version".to_owned()), "3".to_owned())));
        assert_eq!(of("v2.1\n"), Some((None, "v2.1".to_owned())));
        assert_eq!(of("<html>"), None);
        assert_eq!(of("{\"name\": \"x\"}"), None);
    }
}
