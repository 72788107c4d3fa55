//! How to connect to the store, with the files and variables that hold secrets read.

use crate::config::address::AbsolutePath;
use crate::config::findings::Findings;
use crate::config::fragment;
use tidegate_store::{Credentials, Endpoints, Tls};

const STORE: [&str; 1] = ["store"];

pub(super) fn endpoints(written: fragment::Store, findings: &mut Findings) -> Endpoints {
    if written.endpoints.is_empty() {
        let what = "store.endpoints is empty: name at least one, such as http://127.0.0.1:2379";
        findings.field(&["store", "endpoints"], what);
    }
    let password = match (&written.password_file, &written.password_env) {
        (Some(_), Some(_)) => {
            let what = "store has both password_file and password_env: keep one";
            findings.beside(&STORE, &["password_env"], what);
            None
        }
        (Some(file), None) => std::fs::read_to_string(file.as_path())
            .map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
            .map_err(|e| {
                let what = format!("could not read store.password_file {}: {e}", file.as_path().display());
                findings.field(&["store", "password_file"], what);
            })
            .ok(),
        (None, Some(name)) => std::env::var(name)
            .map_err(|_| {
                let what = format!("store.password_env names {name}, which the environment does not have");
                findings.field(&["store", "password_env"], what);
            })
            .ok(),
        (None, None) => None,
    };
    let credentials = match (written.user, password) {
        (Some(user), Some(password)) => Some(Credentials { user, password }),
        (None, Some(_)) => {
            findings.beside(&STORE, &["user"], "store has a password and no user: name the user");
            None
        }
        (Some(_), None) if written.password_file.is_none() && written.password_env.is_none() => {
            let what = "store has a user and no password: add password_file or password_env";
            findings.beside(&STORE, &["user"], what);
            None
        }
        _ => None,
    };
    let tls = written.tls.map(|written| tls(written, findings));
    Endpoints { urls: written.endpoints, credentials, tls }
}

fn tls(written: fragment::Tls, findings: &mut Findings) -> Tls {
    if written.cert.is_some() != written.key.is_some() {
        let what = "store.tls needs both cert and key, or neither";
        findings.beside(&["store", "tls"], &["cert"], what);
    }
    let mut pem = |field: &str, path: Option<AbsolutePath>| {
        let path = path?;
        std::fs::read(path.as_path())
            .map_err(|e| {
                let what = format!("could not read store.tls.{field} {}: {e}", path.as_path().display());
                findings.field(&["store", "tls", field], what);
            })
            .ok()
    };
    let ca = pem("ca", Some(written.ca)).unwrap_or_default();
    let (cert, key) = (pem("cert", written.cert), pem("key", written.key));
    Tls { ca, cert, key, domain: written.domain }
}
