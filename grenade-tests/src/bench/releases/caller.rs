//! One connection over which one question after the other is asked.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

/// A caller; its connection ends with it.
pub struct Caller {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    token: Option<String>,
    connection: AbortHandle,
}

impl Caller {
    /// Connects, as whom a token names.
    pub async fn connect(address: SocketAddr, token: Option<&str>) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection).abort_handle();
        let token = token.map(|token| format!("Bearer {token}"));
        Ok(Self { sender, host: address.to_string(), token, connection })
    }

    /// Asks.
    pub async fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// Tells.
    pub async fn post(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask(Method::POST, path, Bytes::from(body.to_string())).await
    }

    async fn ask(&mut self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Value> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, &self.host);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request.header(header::CONTENT_TYPE, "application/json").body(Full::new(body))?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await.context("no answer")?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        ensure!(status.is_success(), "{path}: {status} {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).with_context(|| format!("{path} answered no JSON"))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.connection.abort();
    }
}
