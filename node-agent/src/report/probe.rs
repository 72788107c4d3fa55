//! How the version that really runs is learned. A probe that fails reports the version as unknown; one that hangs
//! beyond its time also pauses the keep-alives.

use crate::config::settings::Probe;
use crate::directive::seen::Probed;
use crate::fetch::{self, NoAnswer};
use crate::replace::command;
use crate::small;
use std::time::Duration;
use tidegate_proto::ServiceVersion;

/// The largest file that can hold a version, in bytes.
const MAX_FILE: usize = 64 * 1024;

/// Asks once.
pub async fn ask(probe: &Probe, limit: Duration) -> Probed {
    match probe {
        Probe::Http(url, pointer) => match fetch::number(url, pointer.as_deref(), limit).await {
            Ok(number) => version(number),
            Err(NoAnswer::Late { .. }) => Probed::Late,
            Err(e) => Probed::Failed(e.to_string()),
        },
        Probe::File(path) => {
            let (file, shown) = (path.as_path().to_owned(), path.display());
            let reading = tokio::task::spawn_blocking(move || small::read(&file, MAX_FILE));
            match tokio::time::timeout(limit, reading).await {
                Ok(Ok(Ok(bytes))) => read(&bytes, &shown.to_string()),
                Ok(Ok(Err(e))) => Probed::Failed(format!("could not read {shown}: {e}")),
                Ok(Err(e)) => Probed::Failed(format!("could not read {shown}: {e}")),
                Err(_) => Probed::Late,
            }
        }
        Probe::Command(argv) => match command::run(argv, limit).await {
            Ok(done) if done.success => read(&done.stdout, &argv[0]),
            Ok(done) => Probed::Failed(format!("{}: {}", argv[0], done.words())),
            Err(command::NotRun::Late { .. }) => Probed::Late,
            Err(e) => Probed::Failed(e.to_string()),
        },
    }
}

fn read(bytes: &[u8], what: &str) -> Probed {
    match fetch::parse_number(bytes, None) {
        Ok(number) => version(number),
        Err(found) => Probed::Failed(format!("{what}: {found}")),
    }
}

fn version(number: i64) -> Probed {
    match ServiceVersion::new(number) {
        Ok(version) => Probed::Version(version),
        Err(e) => Probed::Failed(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_read_and_a_bad_one_is_no_version() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("version");
        let probe = Probe::File(path.clone());
        let limit = Duration::from_secs(5);
        assert!(matches!(ask(&probe, limit).await, Probed::Failed(_)));
        for (text, good) in
            [("2\n", true), ("0", false), ("-1", false), ("2147483648", false), ("two", false)]
        {
            std::fs::write(&path, text).unwrap();
            assert_eq!(ask(&probe, limit).await.version().is_some(), good, "{text}");
        }
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_late_and_ended() {
        let probe = Probe::Command(["sleep", "60"].map(str::to_owned).into());
        assert_eq!(ask(&probe, Duration::from_millis(50)).await, Probed::Late);
    }
}
