//! The certificates of this coordinator: read at the start, and again when they are renewed.

use crate::config::Settings;
use crate::door::{Certificates, Files};
use crate::telemetry::Chain;
use anyhow::{Context as _, Result};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How often the files are checked; SIGHUP checks them at once.
const LOOK: Duration = Duration::from_secs(60);

/// Reads them, where they are configured.
pub(super) fn read(settings: &Settings) -> Result<Option<Certificates>> {
    let (Some(cert), Some(key)) = (&settings.tls_cert, &settings.tls_key) else { return Ok(None) };
    let files = Files {
        cert: cert.clone(),
        key: key.clone(),
        client_ca: settings.tls_client_ca.clone(),
        client_required: settings.tls_client_required,
    };
    Ok(Some(Certificates::new(files)?))
}

/// Looks at the files every minute and on SIGHUP, until `shutdown`.
pub(super) async fn renew(mut certificates: Certificates, shutdown: CancellationToken) -> Result<()> {
    let mut hangups = signal(SignalKind::hangup()).context("could not listen for SIGHUP")?;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            _ = hangups.recv() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
        match certificates.renew() {
            Ok(true) => tracing::info!("the TLS certificates were renewed"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "the TLS certificates could not be renewed; the former ones are used");
            }
        }
    }
}
