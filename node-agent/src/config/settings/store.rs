//! How to connect to the store, with the files and variables that hold secrets read.

use crate::config::address::AbsolutePath;
use crate::config::fragment;
use tidegate_store::{Credentials, Endpoints, Tls};

pub(super) fn endpoints(written: fragment::Store, findings: &mut Vec<String>) -> Endpoints {
    if written.endpoints.is_empty() {
        findings
            .push("store.endpoints is empty: name at least one, such as http://127.0.0.1:2379".to_owned());
    }
    let password = match (&written.password_file, &written.password_env) {
        (Some(_), Some(_)) => {
            findings.push("store has both password_file and password_env: keep one".to_owned());
            None
        }
        (Some(file), None) => std::fs::read_to_string(file.as_path())
            .map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
            .map_err(|e| {
                findings.push(format!("could not read store.password_file {}: {e}", file.as_path().display()))
            })
            .ok(),
        (None, Some(name)) => std::env::var(name)
            .map_err(|_| {
                findings.push(format!("store.password_env names {name}, which the environment does not have"))
            })
            .ok(),
        (None, None) => None,
    };
    let credentials = match (written.user, password) {
        (Some(user), Some(password)) => Some(Credentials { user, password }),
        (None, Some(_)) => {
            findings.push("store has a password and no user: name the user".to_owned());
            None
        }
        (Some(_), None) if written.password_file.is_none() && written.password_env.is_none() => {
            findings.push("store has a user and no password: add password_file or password_env".to_owned());
            None
        }
        _ => None,
    };
    let tls = written.tls.map(|written| tls(written, findings));
    Endpoints { urls: written.endpoints, credentials, tls }
}

fn tls(written: fragment::Tls, findings: &mut Vec<String>) -> Tls {
    if written.cert.is_some() != written.key.is_some() {
        findings.push("store.tls needs both cert and key, or neither".to_owned());
    }
    let mut pem = |field: &str, path: Option<AbsolutePath>| {
        let path = path?;
        std::fs::read(path.as_path())
            .map_err(|e| {
                findings.push(format!("could not read store.tls.{field} {}: {e}", path.as_path().display()))
            })
            .ok()
    };
    let ca = pem("ca", Some(written.ca)).unwrap_or_default();
    let (cert, key) = (pem("cert", written.cert), pem("key", written.key));
    Tls { ca, cert, key, domain: written.domain }
}
