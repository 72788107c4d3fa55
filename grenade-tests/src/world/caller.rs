//! One HTTP connection over which one question after the other is asked, as whom a token names.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

/// A caller; its connection ends with it.
#[derive(Debug)]
pub struct Caller {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    token: Option<String>,
    connection: AbortHandle,
}

impl Caller {
    /// Connects.
    ///
    /// # Errors
    /// When no server listens there.
    pub async fn connect(address: SocketAddr, token: Option<&str>) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection).abort_handle();
        let token = token.map(|token| format!("Bearer {token}"));
        Ok(Self { sender, host: address.to_string(), token, connection })
    }

    /// Asks for what must be there.
    ///
    /// # Errors
    /// When there is no answer, or none that is JSON and a success.
    pub async fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        let (status, body) = self.ask(Method::GET, path, Bytes::new()).await?;
        ensure!(status.is_success(), "{path}: {status} {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).with_context(|| format!("{path} answered no JSON"))
    }

    /// Sends a request with a body; the body of the answer is null where it has none.
    ///
    /// # Errors
    /// When there is no answer: whether it was carried out is not known then.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let (status, body) = self.ask(method, path, Bytes::from(body.to_string())).await?;
        if body.is_empty() {
            return Ok((status, Value::Null));
        }
        Ok((status, serde_json::from_slice(&body).with_context(|| format!("{path} answered no JSON"))?))
    }

    async fn ask(&mut self, method: Method, path: &str, body: Bytes) -> anyhow::Result<(StatusCode, Bytes)> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, &self.host);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request.header(header::CONTENT_TYPE, "application/json").body(Full::new(body))?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await.context("no answer")?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.connection.abort();
    }
}
