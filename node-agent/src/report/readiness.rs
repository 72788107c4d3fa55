//! Answers of the readiness URL that a disable-file causes: they say nothing about readiness.

use crate::config::Service;
use crate::config::address::Url;
use crate::directive::seen::DisableFile;
use http::StatusCode;

/// What the health check of OpenStack's middleware, and the agent's own, answer because of a disable-file.
const BY_FILE: &str = "DISABLED BY FILE";

/// What is assumed of a service whose readiness URL is its health URL.
pub(crate) const ASSUMPTION: &str = "ready_url is health_url, which answers 503 while disable_file is there: readiness is then not \
    known, so an instance is shown as soon as it answers, and hidden again if it is not ready then";

/// Whether readiness is asked at the check that the disable-file makes answer 503.
pub(crate) fn is_judged_by_health_url(service: &Service) -> bool {
    is_same_check(&service.ready_url, &service.health_url)
}

/// Whether two addresses lead to one check: the query, a slash at the end and the name of this machine make no difference.
fn is_same_check(one: &Url, other: &Url) -> bool {
    let path = |url: &Url| url.path.split('?').next().unwrap_or_default().trim_end_matches('/').to_owned();
    let place = |url: &Url| {
        let (host, port) = url.authority.rsplit_once(':').unwrap_or((&url.authority, ""));
        let here = host.eq_ignore_ascii_case("localhost") || host == "[::1]" || host.starts_with("127.");
        (if here { "localhost".to_owned() } else { host.to_ascii_lowercase() }, port.to_owned())
    };
    path(one) == path(other) && place(one) == place(other)
}

/// Whether an answer says that it comes from a disable-file.
pub(crate) fn says_by_file(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains(BY_FILE)
}

/// Whether this answer of the readiness URL comes from the disable-file. A check with several parts says so for each, one a
/// line: what else is wrong counts.
pub(crate) fn is_masked(service: &Service, file: DisableFile, status: StatusCode, body: &[u8]) -> bool {
    if file == DisableFile::Absent || status != StatusCode::SERVICE_UNAVAILABLE {
        return false;
    }
    let body = String::from_utf8_lossy(body);
    let mut lines = body.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    match body.contains(BY_FILE) {
        true => lines.all(|line| line == BY_FILE || line.eq_ignore_ascii_case("OK")),
        false => is_judged_by_health_url(service),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::tests::story::Story;

    #[test]
    fn only_what_the_file_causes_is_masked() {
        let mut service = Story::serving().service;
        let masked = |service: &Service, file, status, body: &str| {
            is_masked(service, file, StatusCode::from_u16(status).unwrap(), body.as_bytes())
        };
        use DisableFile::{Absent, Foreign, Own};
        for file in [Own, Foreign] {
            assert!(masked(&service, file, 503, "DISABLED BY FILE"));
            assert!(masked(&service, file, 503, "\nOK\nDISABLED BY FILE\n"));
            assert!(!masked(&service, file, 503, "DATABASE DOWN\nDISABLED BY FILE"));
            assert!(!masked(&service, file, 503, "DATABASE DOWN"));
            assert!(!masked(&service, file, 500, "DISABLED BY FILE"));
        }
        assert!(!masked(&service, Absent, 503, "DISABLED BY FILE"));
        service.ready_url = service.health_url.clone();
        assert!(masked(&service, Own, 503, "out for now"));
        assert!(!masked(&service, Own, 503, "DATABASE DOWN\nDISABLED BY FILE"));
        assert!(!masked(&service, Absent, 503, ""));
    }
}
