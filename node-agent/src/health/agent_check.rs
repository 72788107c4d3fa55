//! HAProxy's agent-check, one line for each connection: `drain` while the disable-file exists, `down` while the service
//! is not ready, else `up ready` (which also ends an earlier `drain`).

use crate::config::Service;
use crate::fetch;
use crate::machine::Machine;
use http::StatusCode;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Answers until `cancel`.
pub(crate) async fn serve(listener: TcpListener, service: Service, cancel: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = cancel.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((mut stream, _)) = accepted else { continue };
        let word = word(&service).await;
        // A balancer that has hung up asks again.
        let _ = stream.write_all(word.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}

async fn word(service: &Service) -> &'static str {
    if service.disable_file.exists() {
        return "drain\n";
    }
    match fetch::get(&Machine, &service.ready_url, service.timeout).await {
        Ok((StatusCode::OK, _)) => "up ready\n",
        _ => "down\n",
    }
}
