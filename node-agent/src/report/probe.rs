//! Probes the version that runs. A probe that fails reports the version as unknown; one that hangs also pauses the
//! keep-alives.

use crate::config::settings::Probe;
use crate::directive::seen::Probed;
use crate::fetch;
use crate::host::NotRun;
use crate::host::{self, Host, NoAnswer};
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::ServiceVersion;

/// The largest file that can hold a version, in bytes.
const MAX_FILE: usize = 64 * 1024;

/// Why a probe found no version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoVersion {
    /// It did not end in its time.
    Late,
    /// Nothing answered, or what was run or read failed: it may be that the service does not run.
    Silent(String),
    /// It answered, and not with a version.
    Wrong(String),
}

/// Asks once.
pub(crate) async fn ask(host: &Arc<dyn Host>, probe: &Probe, limit: Duration) -> Probed {
    match try_once(host, probe, limit).await {
        Ok(version) => Probed::Version(version),
        Err(NoVersion::Late) => Probed::Late,
        Err(NoVersion::Silent(why) | NoVersion::Wrong(why)) => Probed::Failed(why),
    }
}

/// The same, with what kind of answer it was.
pub(crate) async fn try_once(
    host: &Arc<dyn Host>,
    probe: &Probe,
    limit: Duration,
) -> Result<ServiceVersion, NoVersion> {
    match probe {
        Probe::Http(url, pointer) => match fetch::number(host.as_ref(), url, pointer.as_deref(), limit).await
        {
            Ok(number) => version(number),
            Err(NoAnswer::Late { .. }) => Err(NoVersion::Late),
            Err(e @ NoAnswer::NoNumber { .. }) => Err(NoVersion::Wrong(e.to_string())),
            Err(e) => Err(NoVersion::Silent(e.to_string())),
        },
        Probe::File(path) => {
            let (file, shown) = (path.as_path().to_owned(), path.display());
            let reader = Arc::clone(host);
            let reading = host::aside(host.as_ref(), move || reader.read(&file, MAX_FILE));
            match tokio::time::timeout(limit, reading).await {
                Ok(Ok(Ok(bytes))) => read(&bytes, &shown.to_string()),
                Ok(Ok(Err(e))) => Err(NoVersion::Silent(format!("could not read {shown}: {e}"))),
                Ok(Err(e)) => Err(NoVersion::Silent(format!("could not read {shown}: {e}"))),
                Err(_) => Err(NoVersion::Late),
            }
        }
        Probe::Command(argv) => match host.run(argv, limit).await {
            Ok(done) if done.success => read(&done.stdout, &argv[0]),
            Ok(done) => Err(NoVersion::Silent(format!("{}: {}", argv[0], done.words()))),
            Err(NotRun::Late { .. }) => Err(NoVersion::Late),
            Err(e) => Err(NoVersion::Wrong(tidegate_proto::Chain(&e).to_string())),
        },
    }
}

fn read(bytes: &[u8], what: &str) -> Result<ServiceVersion, NoVersion> {
    match fetch::parse_number(bytes, None) {
        Ok(number) => version(number),
        Err(found) => Err(NoVersion::Wrong(format!("{what}: {found}"))),
    }
}

fn version(number: i64) -> Result<ServiceVersion, NoVersion> {
    ServiceVersion::new(number).map_err(|e| NoVersion::Wrong(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[tokio::test]
    async fn a_file_is_read_and_a_bad_one_is_no_version() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("version");
        let probe = Probe::File(path.clone());
        let limit = Duration::from_secs(5);
        assert!(matches!(ask(&Machine::shared(), &probe, limit).await, Probed::Failed(_)));
        for (text, good) in
            [("2\n", true), ("0", false), ("-1", false), ("2147483648", false), ("two", false)]
        {
            std::fs::write(&path, text).unwrap();
            assert_eq!(ask(&Machine::shared(), &probe, limit).await.version().is_some(), good, "{text}");
        }
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_late_and_ended() {
        let probe = Probe::Command(["sleep", "60"].map(str::to_owned).into());
        assert_eq!(ask(&Machine::shared(), &probe, Duration::from_millis(50)).await, Probed::Late);
    }
}
