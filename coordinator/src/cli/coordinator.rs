//! `tidegate coordinator`: the daemon, until SIGINT or SIGTERM.

use super::options::GlobalOptions;
use super::show;
use crate::config::Settings;
use crate::telemetry::Chain;
use crate::{daemon, telemetry};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

const AFTER: &str = "\
Examples:
  tidegate coordinator --store embedded:/var/lib/tidegate --store-listen 127.0.0.1:7402
  tidegate coordinator --store etcd:http://etcd-1:2379,http://etcd-2:2379 --advertise http://control-1:7400

Several coordinators side by side on one etcd cluster are fine: one leads, the others answer questions, forward
commands, and take over within --leader-ttl. SIGINT and SIGTERM finish the action under way and give the leadership up.
RUST_LOG chooses what is logged (default: info).";

/// Variables that earlier builds read, each with the one that is read now.
const FORMER_VARIABLES: [(&str, &str); 1] = [("TIDEGATE_HEARING", "TIDEGATE_REPORT_GRACE")];

/// Flags of the daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    #[command(flatten)]
    settings: Settings,
}

impl Args {
    /// Runs until it is asked to end.
    pub(super) fn run(self, options: &GlobalOptions) -> ExitCode {
        telemetry::begin("info");
        for (former, now) in FORMER_VARIABLES.iter().filter(|(former, _)| std::env::var_os(former).is_some())
        {
            tracing::warn!("{former} is ignored: set {now} instead");
        }
        let settings = Settings { token_file: options.token_file.clone(), ..self.settings };
        if let Err(contradiction) = settings.check() {
            show::note(format!("tidegate: {contradiction}"));
            return ExitCode::from(2);
        }
        let ran =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(anyhow::Error::from);
        match ran.and_then(|runtime| runtime.block_on(until_signalled(settings))) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                show::note(format!("tidegate: {}", Chain(error.as_ref())));
                ExitCode::FAILURE
            }
        }
    }
}

async fn until_signalled(settings: Settings) -> anyhow::Result<()> {
    let cancel = CancellationToken::new();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // The write that exceeds a file size limit returns an error; the signal alone would end the process.
    let _limit = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
    let signalled = cancel.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        tracing::info!("asked to end");
        signalled.cancel();
    });
    daemon::run(settings, cancel).await
}
